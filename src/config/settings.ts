// The settings table: name, kind, default and description of every setting. The loader, docs/configure.md, `keyrack
// config` and the flags of `keyrack serve` read it. To add a setting, add a line.
import type { parsers } from "./parsers.ts";
import { setting, type Setting } from "./setting.ts";
import { keySettings } from "./key-settings.ts";
import { usageSettings } from "./usage-settings.ts";

export const settingsTable = {
  data_dir: setting("KEYRACK_DATA_DIR", "path", "./keyrack-data", "Folder with the database, keys, mail and backups."),
  host: setting("KEYRACK_HOST", "text", "127.0.0.1", "Address to listen on."),
  port: setting("KEYRACK_PORT", "port", "4747", "Port to listen on; 0 = any free port."),
  public_url: setting("KEYRACK_PUBLIC_URL", "url", "", "URL that people and browsers use; unset = the listening URL."),
  region: setting("KEYRACK_REGION", "region", "local", "Name of this region in health responses."),
  database_url: setting(
    "KEYRACK_DATABASE_URL",
    "database",
    "",
    "sqlite:FILE or postgres://…; unset = SQLite in the data dir.",
    { secret: true },
  ),
  database_pool: setting("KEYRACK_DATABASE_POOL", "count", "10", "Read connections to PostgreSQL; half for long ones."),
  redis_url: setting(
    "KEYRACK_REDIS_URL",
    "redis",
    "",
    "redis://… or rediss://…, comma-separated for a cluster; unset = rate-limit counters in this process.",
    { secret: true },
  ),
  bootstrap_token: setting(
    "KEYRACK_BOOTSTRAP_TOKEN",
    "text",
    "",
    "Token that can create workspaces; unset = read from the file, or created on the first start.",
    { secret: true },
  ),
  bootstrap_token_file: setting(
    "KEYRACK_BOOTSTRAP_TOKEN_FILE",
    "path",
    "",
    "File with the bootstrap token; unset = bootstrap.token in the data dir.",
  ),
  bootstrap: setting("KEYRACK_BOOTSTRAP", "switch", "on", "off = no bootstrap token and no setup link is accepted."),
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
    "smtp://…, smtps://…, file:DIR or log: (to the log); unset = files in the mail folder of the data dir.",
    { secret: true },
  ),
  mail_from: setting("KEYRACK_MAIL_FROM", "text", "Keyrack <keyrack@localhost>", "Sender of all mail."),
  invite_mails_per_day: setting(
    "KEYRACK_INVITE_MAILS_PER_DAY",
    "count",
    "100",
    "Invitations that one account (the creator of a workspace) may send within 24 hours.",
  ),
  ratelimit_counters: setting(
    "KEYRACK_RATELIMIT_COUNTERS",
    "counters",
    "1000000",
    "Places for rate-limit counters in this process, of 165 bytes each: a fixed counter takes one, a sliding one two, a rule ten.",
  ),
  ratelimit_counters_per_workspace: setting(
    "KEYRACK_RATELIMIT_COUNTERS_PER_WORKSPACE",
    "cell_counters",
    "100000",
    "Rate-limit counters of one environment of a workspace; above it new ids share one counter for each rule.",
  ),
  hot_auth_ttl_ms: setting(
    "KEYRACK_HOT_AUTH_TTL_MS",
    "ms",
    "5000",
    "How long an authenticated secret key is cached on hot endpoints; 0 = never.",
  ),
  ...usageSettings,
  ...keySettings,
  snapshot_max_keys: setting("KEYRACK_SNAPSHOT_MAX_KEYS", "count", "10000", "Keys per page of the policy feed."),
  answer_max_bytes: setting(
    "KEYRACK_ANSWER_MAX_BYTES",
    "answer_bytes",
    "8388608",
    "Bytes of JSON after which a page of a list or of the policy feed ends, 262144 to 67108864.",
  ),
  unsent_mb: setting(
    "KEYRACK_UNSENT_MB",
    "megabytes",
    "64",
    "MiB of large responses that clients have not taken yet; a quarter for one environment of a workspace.",
  ),
  send_stall_ms: setting(
    "KEYRACK_SEND_STALL_MS",
    "stall",
    "10000",
    "A connection that takes less than 64 KiB of its response within this time is closed.",
  ),
  bodies_mb: setting(
    "KEYRACK_BODIES_MB",
    "megabytes",
    "64",
    "MiB of large request bodies that are being read; a quarter for one environment of a workspace.",
  ),
  connections_max: setting(
    "KEYRACK_CONNECTIONS_MAX",
    "connections",
    "10000",
    "Open connections. At the bound a new one evicts the oldest of the network that has most.",
  ),
  max_waiting: setting(
    "KEYRACK_MAX_WAITING",
    "waiting",
    "",
    "Long polls that wait at a time; more get their response at once. Unset = nine tenths of KEYRACK_CONNECTIONS_MAX.",
  ),
  revoke_wait_ms: setting(
    "KEYRACK_REVOKE_WAIT_MS",
    "wait",
    "10000",
    "Longest wait of revoke?wait=true, at most 30000; a wait ends after 25000, before the request would time out.",
  ),
  node_live_ms: setting(
    "KEYRACK_NODE_LIVE_MS",
    "node_live",
    "120000",
    "A node that has not polled for this long is not live. At least 1000; below 60000 a node may seem silent while its poll waits.",
  ),
  nodes_max: setting(
    "KEYRACK_NODES_MAX",
    "nodes",
    "10000",
    "Nodes of a project that hold live keys, and as many of test keys; more are served, but no receipt is complete.",
  ),
  node_late_after: setting(
    "KEYRACK_NODE_LATE_AFTER",
    "duration",
    "10s",
    "A live node that lacks a version older than this is late; off = never.",
  ),
  idempotency_store: setting(
    "KEYRACK_IDEMPOTENCY_STORE",
    "idempotency",
    "database",
    "Where idempotency claims are stored: database; redis, which needs appendfsync always; or redis-forced, which accepts a Redis that may lose claims.",
  ),
  scanner_keys_file: setting(
    "KEYRACK_SCANNER_KEYS_FILE",
    "path",
    "",
    "JSON file with the public keys of the secret scanner.",
  ),
  scanner_keys_url: setting(
    "KEYRACK_SCANNER_KEYS_URL",
    "public_https_url",
    "",
    "URL of the public keys of the secret scanner, instead of a file.",
  ),
  backup_dir: setting("KEYRACK_BACKUP_DIR", "path", "", "Folder for backups; unset = backups in the data dir."),
  backup_every: setting(
    "KEYRACK_BACKUP_EVERY",
    "duration",
    "24h",
    "Interval between backups, such as 12h; off = never.",
  ),
  restore_test_every: setting(
    "KEYRACK_RESTORE_TEST_EVERY",
    "duration",
    "7d",
    "Interval between restore tests of the newest backup; off = never.",
  ),
  audit_verify_rows: setting(
    "KEYRACK_AUDIT_VERIFY_ROWS",
    "rows",
    "200000",
    "Rows up to which every verification reads the whole audit chain; a longer one is verified from a signed mark.",
  ),
  audit_verify_every: setting(
    "KEYRACK_AUDIT_VERIFY_EVERY",
    "duration",
    "24h",
    "Interval between verifications of the whole of longer audit chains; off = on demand.",
  ),
  password_min: setting("KEYRACK_PASSWORD_MIN", "password_min", "12", "Minimum length of passwords, 8 to 64."),
  sign_up: setting(
    "KEYRACK_SIGN_UP",
    "sign_up",
    "open",
    "Who may sign up: open = everyone, invite = people with an invitation, closed = no one (see keyrack user create).",
  ),
  unverified_login: setting(
    "KEYRACK_UNVERIFIED_LOGIN",
    "unverified_login",
    "allow",
    "refuse = an account can log in only once its address is verified, so that signing up never shows whether an address has an account.",
  ),
  workspaces_per_person: setting(
    "KEYRACK_WORKSPACES_PER_PERSON",
    "zero_or_count",
    "25",
    "Workspaces that a person may own, at most 3 while their address is unverified; 0 = only the bootstrap token creates workspaces.",
  ),
  writes_mb_per_day: setting(
    "KEYRACK_WRITES_MB_PER_DAY",
    "zero_or_megabytes",
    "8192",
    "MiB that one environment of a workspace may write in a UTC day, test a quarter; 0 = no cap.",
  ),
  disk_reserve_mb: setting(
    "KEYRACK_DISK_RESERVE_MB",
    "zero_or_megabytes",
    "1024",
    "Free disk space in MiB, for SQLite. Below it, the workspaces that wrote the most get 503; below 200 MiB every write does, except those that end a credential. 0 = off, both.",
  ),
  throttle_subjects: setting(
    "KEYRACK_THROTTLE_SUBJECTS",
    "throttle_windows",
    "200000",
    "Throttle windows in memory. At the bound the owner with most of them gives one up, and a network gets no new ones.",
  ),
  throttle: setting("KEYRACK_THROTTLE", "switch", "on", "off = no throttles, for throwaway instances."),
  trust_proxy: setting(
    "KEYRACK_TRUST_PROXY",
    "cidrs",
    "",
    "Proxies whose X-Forwarded-For header is trusted: addresses or CIDR ranges.",
  ),
  tls_cert: setting("KEYRACK_TLS_CERT", "path", "", "Certificate file; with KEYRACK_TLS_KEY it enables TLS."),
  tls_key: setting("KEYRACK_TLS_KEY", "path", "", "Private key file of the certificate."),
  fast_lane: setting(
    "KEYRACK_FAST_LANE",
    "switch",
    "on",
    "off = serve every endpoint through h3 alone, without the fast lane for hot endpoints.",
  ),
  metrics: setting("KEYRACK_METRICS", "metrics", "off", "HOST:PORT of the /metrics listener, or off."),
  ratelimit_on_redis_failure: setting(
    "KEYRACK_RATELIMIT_ON_REDIS_FAILURE",
    "redis_failure",
    "local",
    "When Redis fails: local (each process counts by itself) or error (limit checks fail).",
  ),
  vendor_per_minute: setting(
    "KEYRACK_VENDOR_PER_MINUTE",
    "zero_or_count",
    "0",
    "Requests per minute and credential; 0 = unlimited.",
  ),
  restore_test_database_url: setting(
    "KEYRACK_RESTORE_TEST_DATABASE_URL",
    "database",
    "",
    "Empty PostgreSQL database for restore tests; unset = a temporary one is created.",
    { secret: true },
  ),
  backup_hook: setting(
    "KEYRACK_BACKUP_HOOK",
    "text",
    "",
    "Command to run after each backup, with the backup's folder as its argument.",
  ),
  backup_before_migrate: setting(
    "KEYRACK_BACKUP_BEFORE_MIGRATE",
    "switch",
    "on",
    "Before a SQLite database is migrated: make a backup of it, and do not migrate if that fails. off = no backup.",
  ),
  migrate: setting(
    "KEYRACK_MIGRATE",
    "migrate",
    "auto",
    "When the database has an older schema: auto (migrate it) or refuse (exit 2; keyrack db migrate does it).",
  ),
  cache_dir: setting(
    "KEYRACK_CACHE_DIR",
    "path",
    "",
    "Folder where the binary unpacks its native addons; unset = the data dir.",
  ),
  log_level: setting("KEYRACK_LOG_LEVEL", "level", "info", "Lowest level to log: debug, info, warn or error."),
} as const satisfies Record<string, Setting>;

export type SettingName = keyof typeof settingsTable;
type Parsed<K extends SettingName> = ReturnType<(typeof parsers)[(typeof settingsTable)[K]["kind"]]>;
export type Settings = { readonly [K in SettingName]: Parsed<K> };

/** A setting that cannot be used. The message is one sentence; commands exit with 2. */
export class BadSetting extends Error {}

/** The name of a setting in keyrack.toml. */
export function fileKey(name: SettingName): string {
  return settingsTable[name].env.slice("KEYRACK_".length).toLowerCase();
}
