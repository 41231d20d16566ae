// Rules about settings that no parser of one setting can check. They need neither files nor connections, so that a
// start checks them before it creates anything, and `keyrack config check` too.
import { guessCredentialKind } from "../kernel/credentials.ts";
import { DAY_MS } from "../kernel/durations.ts";
import { BadSetting, type Settings } from "./settings.ts";

/** Reports come up to seven days late; what they add must be counted and sent before the hour is deleted. */
const METERED_HOURS_MIN_MS = 8 * DAY_MS;
const TOKEN_MIN_CHARS = 22; // 128 bits in base64url

/** Rejects what brokenRules finds. */
export function requireConsistent(settings: Settings): void {
  const broken = brokenRules(settings);
  if (broken.length > 0) throw new BadSetting(broken.join(" "));
}

/** A sentence for each rule that is broken. */
export function brokenRules(settings: Settings): string[] {
  const { host, port, metrics, tls_cert, tls_key, bootstrap, bootstrap_token } = settings;
  const { meter_url, series, series_hours, public_url, idempotency_store, redis_url } = settings;
  const isPushed = meter_url !== null;
  const badToken = bootstrap && bootstrap_token ? tokenProblem(bootstrap_token) : null;
  const rules: [isBroken: boolean, message: string][] = [
    [Boolean(tls_cert) !== Boolean(tls_key), "KEYRACK_TLS_CERT and KEYRACK_TLS_KEY go together."],
    [
      metrics !== null && metrics.port === port && port !== 0 && metrics.host === host,
      "KEYRACK_METRICS and KEYRACK_PORT name the same port.",
    ],
    [isPushed && !series, "KEYRACK_METER_URL needs KEYRACK_SERIES=on."],
    [
      isPushed && series_hours < METERED_HOURS_MIN_MS,
      "KEYRACK_METER_URL needs KEYRACK_SERIES_HOURS of at least 8d: reports that come up to seven days late are pushed too.",
    ],
    // The source of the pushed events, stored with the first one: with another, receivers would count them again.
    [isPushed && public_url === null, "KEYRACK_METER_URL needs KEYRACK_PUBLIC_URL: its events name it."],
    [
      Boolean(settings.scanner_keys_file) && Boolean(settings.scanner_keys_url),
      "Set KEYRACK_SCANNER_KEYS_FILE or KEYRACK_SCANNER_KEYS_URL, not both: they name the same keys.",
    ],
    [
      Boolean(bootstrap_token) && Boolean(settings.bootstrap_token_file),
      "Set KEYRACK_BOOTSTRAP_TOKEN or KEYRACK_BOOTSTRAP_TOKEN_FILE, not both.",
    ],
    [badToken !== null, badToken ?? ""],
    [
      settings.restore_test_database_url.kind === "sqlite",
      "KEYRACK_RESTORE_TEST_DATABASE_URL must be a postgres:// URL: SQLite needs no scratch database.",
    ],
    [
      idempotency_store !== "database" && !redis_url,
      `KEYRACK_IDEMPOTENCY_STORE=${idempotency_store} needs KEYRACK_REDIS_URL.`,
    ],
  ];
  return rules.flatMap(([isBroken, message]) => (isBroken ? [message] : []));
}

/** A bootstrap token, of a setting or a file. */
export function requireUsableToken(token: string): void {
  const problem = tokenProblem(token);
  if (problem !== null) throw new BadSetting(problem);
}

function tokenProblem(token: string): string | null {
  if (token.length < TOKEN_MIN_CHARS)
    return `The bootstrap token is too short: it needs at least ${TOKEN_MIN_CHARS} random characters.`;
  const kind = guessCredentialKind(token);
  if (kind === null || kind === "bootstrap") return null;
  return `The bootstrap token must not look like another credential (${kind}).`;
}
