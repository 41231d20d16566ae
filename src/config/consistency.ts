// Rules about settings that no parser of one setting can check. They need neither files nor connections, so that a
// start checks them before it creates anything, and `keyrack config check` too.
import { guessCredentialKind } from "../kernel/credentials.ts";
import { DAY_MS } from "../kernel/durations.ts";
import { BadSetting, type Settings } from "./settings.ts";

/** Reports come up to seven days late; what they add must be counted and sent before the hour is deleted. */
const METERED_HOURS_MIN_MS = 8 * DAY_MS;
const TOKEN_MIN_CHARS = 22; // 128 bits in base64url

export function requireConsistent(settings: Settings): void {
  const { host, port, metrics, tls_cert, tls_key, bootstrap, bootstrap_token } = settings;
  if (Boolean(tls_cert) !== Boolean(tls_key)) throw new BadSetting("KEYRACK_TLS_CERT and KEYRACK_TLS_KEY go together.");
  if (metrics && metrics.port === port && port !== 0 && metrics.host === host)
    throw new BadSetting("KEYRACK_METRICS and KEYRACK_PORT name the same port.");
  if (bootstrap && bootstrap_token) requireUsableToken(bootstrap_token);
  const { meter_url, series, public_url } = settings;
  if (meter_url !== null && !series) throw new BadSetting("KEYRACK_METER_URL needs KEYRACK_SERIES=on.");
  if (meter_url !== null && settings.series_hours < METERED_HOURS_MIN_MS)
    throw new BadSetting(
      "KEYRACK_METER_URL needs KEYRACK_SERIES_HOURS of at least 8d: reports that come up to seven days late are pushed too.",
    );
  // The source of the pushed events: another one would make receivers count them again.
  if (meter_url !== null && public_url === null)
    throw new BadSetting("KEYRACK_METER_URL needs KEYRACK_PUBLIC_URL: its events name it.");
  if (settings.scanner_keys_file && settings.scanner_keys_url)
    throw new BadSetting(
      "Set KEYRACK_SCANNER_KEYS_FILE or KEYRACK_SCANNER_KEYS_URL, not both: they name the same keys.",
    );
  if (bootstrap_token && settings.bootstrap_token_file)
    throw new BadSetting("Set KEYRACK_BOOTSTRAP_TOKEN or KEYRACK_BOOTSTRAP_TOKEN_FILE, not both.");
  if (settings.restore_test_database_url.kind === "sqlite")
    throw new BadSetting(
      "KEYRACK_RESTORE_TEST_DATABASE_URL must be a postgres:// URL: SQLite needs no scratch database.",
    );
  const { idempotency_store, redis_url } = settings;
  if (idempotency_store !== "database" && !redis_url)
    throw new BadSetting(`KEYRACK_IDEMPOTENCY_STORE=${idempotency_store} needs KEYRACK_REDIS_URL.`);
}

/** A bootstrap token, of a setting or a file. */
export function requireUsableToken(token: string): void {
  if (token.length < TOKEN_MIN_CHARS)
    throw new BadSetting(`The bootstrap token is too short: it needs at least ${TOKEN_MIN_CHARS} random characters.`);
  const kind = guessCredentialKind(token);
  if (kind !== null && kind !== "bootstrap")
    throw new BadSetting(`The bootstrap token must not look like another credential (${kind}).`);
}
