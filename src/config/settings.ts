// The settings table: every name, default and one sentence. Docs, `config show/check/example` and the flags read it.
// Defaults < keyrack.toml < environment < flags.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parse as parseToml } from "smol-toml";
import { readers, type SettingKind } from "./parsers.ts";

export type Setting = {
  /** How the program calls it; the file key is the environment name without KEYRACK_, in lower case. */
  readonly env: string;
  readonly kind: SettingKind;
  readonly fallback: string;
  readonly about: string;
  readonly secret?: boolean;
};

const setting = <const K extends SettingKind>(
  env: string,
  kind: K,
  fallback: string,
  about: string,
  secret = false,
): Setting & { kind: K } => ({ env, kind, fallback, about, secret });

export const settingsTable = {
  data_dir: setting(
    "KEYRACK_DATA_DIR",
    "path",
    "./keyrack-data",
    "Folder that holds the database, keys, mail and backups.",
  ),
  host: setting("KEYRACK_HOST", "text", "127.0.0.1", "Address to listen on."),
  port: setting("KEYRACK_PORT", "port", "4747", "Port to listen on; 0 takes any free one."),
  public_url: setting("KEYRACK_PUBLIC_URL", "url", "", "Address people and browsers use; unset = the listening URL."),
  region: setting("KEYRACK_REGION", "region", "local", "Name of this place in health answers."),
  database_url: setting(
    "KEYRACK_DATABASE_URL",
    "database",
    "",
    "Unset = SQLite in the data dir; sqlite:FILE or postgres://…",
    true,
  ),
  database_pool: setting("KEYRACK_DATABASE_POOL", "count", "10", "Read connections to PostgreSQL."),
  redis_url: setting(
    "KEYRACK_REDIS_URL",
    "redis",
    "",
    "Unset = counters in this process; redis://…, rediss://…, a comma list = cluster.",
    true,
  ),
  bootstrap_token: setting("KEYRACK_BOOTSTRAP_TOKEN", "text", "", "The credential that may create workspaces.", true),
  bootstrap_token_file: setting("KEYRACK_BOOTSTRAP_TOKEN_FILE", "path", "", "File that holds the bootstrap token."),
  bootstrap: setting("KEYRACK_BOOTSTRAP", "switch", "on", "off closes the bootstrap door."),
  master_key_file: setting(
    "KEYRACK_MASTER_KEY_FILE",
    "path",
    "",
    "File with the 32-byte master key; unset = master.key in the data dir.",
  ),
  mail_url: setting(
    "KEYRACK_MAIL_URL",
    "mail",
    "",
    "file:DIR (default: mail in the data dir), smtp://…, smtps://…, log:",
    true,
  ),
  mail_from: setting("KEYRACK_MAIL_FROM", "text", "Keyrack <keyrack@localhost>", "Sender of mail."),
  hot_auth_ttl_ms: setting(
    "KEYRACK_HOT_AUTH_TTL_MS",
    "ms",
    "5000",
    "How long a resolved secret key is reused on hot endpoints; 0 = never.",
  ),
  ingest_events_per_minute: setting(
    "KEYRACK_INGEST_EVENTS_PER_MINUTE",
    "count",
    "120000",
    "Telemetry events a workspace may send a minute.",
  ),
  snapshot_max_keys: setting("KEYRACK_SNAPSHOT_MAX_KEYS", "count", "10000", "Keys in one answer of the policy feed."),
  revoke_wait_ms: setting(
    "KEYRACK_REVOKE_WAIT_MS",
    "wait",
    "10000",
    "Longest wait of revoke?wait=true; at most 30000.",
  ),
  node_live_ms: setting(
    "KEYRACK_NODE_LIVE_MS",
    "ms",
    "120000",
    "A node not seen for this long no longer counts as live.",
  ),
  idempotency_store: setting(
    "KEYRACK_IDEMPOTENCY_STORE",
    "idempotency",
    "database",
    "database, or redis (needs appendfsync always; redis-forced takes one that may lose claims).",
  ),
  scanner_keys_file: setting("KEYRACK_SCANNER_KEYS_FILE", "path", "", "Public keys of the secret scanner, as JSON."),
  scanner_keys_url: setting("KEYRACK_SCANNER_KEYS_URL", "https_url", "", "Where to fetch them instead."),
  backup_dir: setting("KEYRACK_BACKUP_DIR", "path", "", "Where backups go; unset = backups in the data dir."),
  backup_every: setting("KEYRACK_BACKUP_EVERY", "span", "24h", "How often to back up; off = never."),
  restore_test_every: setting(
    "KEYRACK_RESTORE_TEST_EVERY",
    "span",
    "7d",
    "How often the newest backup is restored for a test; off = never.",
  ),
  password_min: setting("KEYRACK_PASSWORD_MIN", "password_min", "12", "Shortest password, 8 to 64."),
  throttle: setting("KEYRACK_THROTTLE", "switch", "on", "off lifts all throttles; for throwaway instances."),
  trust_proxy: setting(
    "KEYRACK_TRUST_PROXY",
    "cidrs",
    "",
    "Proxies whose X-Forwarded-For is believed, as a CIDR list.",
  ),
  tls_cert: setting("KEYRACK_TLS_CERT", "path", "", "Certificate file; with KEYRACK_TLS_KEY the server speaks TLS."),
  tls_key: setting("KEYRACK_TLS_KEY", "path", "", "Private key file of the certificate."),
  fast_lane: setting(
    "KEYRACK_FAST_LANE",
    "switch",
    "on",
    "off serves every endpoint through h3 alone, without the fast lane for hot endpoints.",
  ),
  metrics: setting("KEYRACK_METRICS", "metrics", "off", "off, or HOST:PORT for /metrics."),
  ratelimit_on_redis_failure: setting(
    "KEYRACK_RATELIMIT_ON_REDIS_FAILURE",
    "redis_failure",
    "local",
    "local or error.",
  ),
  vendor_per_minute: setting(
    "KEYRACK_VENDOR_PER_MINUTE",
    "zero_or_count",
    "0",
    "Requests a credential may make a minute; 0 = no cap.",
  ),
  restore_test_database_url: setting(
    "KEYRACK_RESTORE_TEST_DATABASE_URL",
    "database",
    "",
    "Scratch PostgreSQL database for restore tests.",
    true,
  ),
  backup_hook: setting(
    "KEYRACK_BACKUP_HOOK",
    "text",
    "",
    "Command run after each good backup, with its folder as argument.",
  ),
  cache_dir: setting(
    "KEYRACK_CACHE_DIR",
    "path",
    "",
    "Where the binary unpacks its native parts; unset = the data dir.",
  ),
  log_level: setting("KEYRACK_LOG_LEVEL", "level", "info", "debug, info, warn or error."),
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof settingsTable;
type Read<K extends SettingName> = ReturnType<(typeof readers)[(typeof settingsTable)[K]["kind"]]>;
export type Settings = { readonly [K in SettingName]: Read<K> };
export type Source = "default" | "file" | "environment" | "flag";
export type Loaded = {
  settings: Settings;
  raw: Record<SettingName, { value: string; source: Source }>;
  warnings: string[];
};

/** A setting that cannot be used: exit 2, one sentence. */
export class BadSetting extends Error {}

const names = Object.keys(settingsTable) as SettingName[];
/** Names that are ours but belong to the client side, to `ephemeral` or to the tests. */
const CLIENT_ENV = [
  "KEYRACK_URL",
  "KEYRACK_SECRET_KEY",
  "KEYRACK_TEST_SECRET_KEY",
  "KEYRACK_SESSION_TOKEN",
  "KEYRACK_PROFILE",
  "KEYRACK_PROJECT_ID",
  "KEYRACK_TENANT_ID",
  "KEYRACK_WORKSPACE_ID",
  "KEYRACK_MAIL_DIR",
  "KEYRACK_CONFIG",
];

export function fileKey(name: SettingName): string {
  return settingsTable[name].env.slice("KEYRACK_".length).toLowerCase();
}

type LoadInput = {
  env: Record<string, string | undefined>;
  flags?: Partial<Record<SettingName, string>>;
  configFile?: string | undefined;
  cwd?: string;
};

export function loadSettings({ env, flags = {}, configFile, cwd = process.cwd() }: LoadInput): Loaded {
  const warnings: string[] = [];
  const file = readConfigFile(env, flags, configFile, cwd);
  warnings.push(...checkEnvironment(env));
  const raw = {} as Loaded["raw"];
  const settings: Record<string, unknown> = {};
  for (const name of names) {
    const { env: envName, fallback, kind } = settingsTable[name];
    const fromEnv = ignoredPort(envName, env[envName], warnings) ? undefined : env[envName];
    const candidates: [string | undefined, Source][] = [
      [flags[name], "flag"],
      [fromEnv, "environment"],
      [file[name], "file"],
      [fallback, "default"],
    ];
    const [value = "", source] = candidates.find(([text]) => text !== undefined && text !== "") ?? ["", "default"];
    raw[name] = { value, source };
    try {
      settings[name] = readers[kind](value);
    } catch (error) {
      throw new BadSetting(`${sourceName(name, source)}: ${(error as Error).message}`);
    }
  }
  return { settings: settings as Settings, raw, warnings };
}

function sourceName(name: SettingName, source: Source): string {
  if (source === "flag") return `--${name.replaceAll("_", "-")}`;
  return source === "file" ? `keyrack.toml: ${fileKey(name)}` : settingsTable[name].env;
}

function readConfigFile(
  env: LoadInput["env"],
  flags: NonNullable<LoadInput["flags"]>,
  named: string | undefined,
  cwd: string,
): Partial<Record<SettingName, string>> {
  const path = named ?? env.KEYRACK_CONFIG;
  const guesses = [
    join(cwd, "keyrack.toml"),
    join(flags.data_dir ?? env.KEYRACK_DATA_DIR ?? "keyrack-data", "keyrack.toml"),
  ];
  const file = path ? resolve(cwd, path) : guesses.find((guess) => existsSync(guess));
  if (!file) return {};
  let parsed: Record<string, unknown>;
  try {
    parsed = parseToml(readFileSync(file, "utf8"));
  } catch (error) {
    throw new BadSetting(`${file}: ${(error as Error).message.split("\n")[0]}`);
  }
  const result: Partial<Record<SettingName, string>> = {};
  for (const [key, value] of Object.entries(parsed)) {
    const name = names.find((candidate) => fileKey(candidate) === key);
    if (!name) throw new BadSetting(`${file}: unknown setting "${key}"${nearest(key, names.map(fileKey))}`);
    if (!["string", "number", "boolean"].includes(typeof value))
      throw new BadSetting(`${file}: ${key} must be a plain value`);
    result[name] = typeof value === "boolean" ? (value ? "on" : "off") : String(value);
  }
  return result;
}

/** Other systems set KEYRACK_PORT=tcp://… for a service of that name: not ours to refuse. */
function ignoredPort(envName: string, value: string | undefined, warnings: string[]): boolean {
  if (envName !== "KEYRACK_PORT" || !value?.startsWith("tcp://")) return false;
  warnings.push(
    "KEYRACK_PORT holds a tcp:// address set by another system: ignored. Rename that service to avoid this.",
  );
  return true;
}

function checkEnvironment(env: LoadInput["env"]): string[] {
  const known: string[] = [...names.map((name) => settingsTable[name].env), ...CLIENT_ENV];
  const warnings: string[] = [];
  for (const name of Object.keys(env)) {
    if (!name.startsWith("KEYRACK_") || name.startsWith("KEYRACK_TEST_") || known.includes(name)) continue;
    const near = known.find((other) => distance(name, other) <= 2);
    if (near) throw new BadSetting(`Unknown setting ${name}. Did you mean ${near}?`);
    warnings.push(`Unknown environment variable ${name} is ignored.`);
  }
  return warnings;
}

export function nearest(word: string, known: readonly string[]): string {
  const best = known.toSorted((a, b) => distance(word, a) - distance(word, b))[0];
  return best && distance(word, best) <= Math.max(2, word.length / 3) ? `. Did you mean "${best}"?` : "";
}

/** Levenshtein distance. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
