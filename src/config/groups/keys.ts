// API keys, and the nodes that verify them.
import { DAY_MS } from "../../kernel/durations.ts";
import { duration, integer, onOff, path, publicHttpsUrl } from "../parsers.ts";
import { setting } from "../setting.ts";

export const keysSettings = {
  holder_plane: setting(onOff, "on", "off = API keys cannot show, rotate or revoke themselves."),
  key_policy_every: setting(duration, "1h", "How often projects are searched for idle keys to revoke; off = never."),
  scanner_keys_file: setting(path, "", "JSON file with the public keys of the secret scanner."),
  scanner_keys_url: setting(publicHttpsUrl, "", "URL of the public keys of the secret scanner, instead of a file."),
  revoke_wait_ms: setting(
    integer(0, 30_000),
    "10000",
    "How long a change with wait=true waits for nodes, in milliseconds. Values above 25000 count as 25000.",
  ),
  node_live_ms: setting(
    integer(1_000, DAY_MS),
    "120000",
    "A node counts as live for this long after its last poll, in milliseconds. At least 1000; below 60000, nodes may look silent during a long poll.",
  ),
  node_late_after: setting(
    duration,
    "10s",
    "A live node is late when it lacks a policy version that is older than this; off = never.",
  ),
  nodes_max: setting(
    integer(100, 100_000),
    "10000",
    "Maximum number of registered nodes per project and environment. Further nodes are served, but changes with wait=true stay incomplete.",
  ),
} as const;
