// Settings that are rarely changed.
import { DAY_MS } from "../../kernel/durations.ts";
import { count, duration, integer, onOff, path } from "../parsers.ts";
import { setting } from "../setting.ts";

export const advancedSettings = {
  audit_verify_rows: setting(
    count,
    "200000",
    "Audit chains up to this many rows are verified in full each time; longer ones from the last verified row on.",
  ),
  audit_verify_every: setting(
    duration,
    "24h",
    "How often longer audit chains are verified in full; off = only on demand.",
  ),
  hot_auth_ttl_ms: setting(
    integer(0, DAY_MS),
    "5000",
    "How long an authenticated secret key is cached on hot endpoints, in milliseconds; 0 = never.",
  ),
  fast_lane: setting(
    onOff,
    "on",
    "off = serve every endpoint through h3 alone, without the fast lane for hot endpoints.",
  ),
  cache_dir: setting(path, "", "Folder where the binary unpacks its native addons; unset = the data dir."),
} as const;
