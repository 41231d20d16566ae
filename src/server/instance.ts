// Opens an instance from its settings: data dir, lock, store, vault and services, without a listener. The server
// (start.ts) and operator commands (offline.ts) both start here.
import { existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { requireConsistent } from "../config/consistency.ts";
import { plainConnections } from "../config/exposure.ts";
import { BadSetting, type Settings } from "../config/settings.ts";
import { codeOf, errorFields } from "../platform/errors.ts";
import { noBootstrap, openBootstrap, type Bootstrap } from "./bootstrap.ts";
import { databaseTarget, lockSqlite, openDataDir, requireDatabaseFile } from "./data-dir.ts";
import { findKeyFile, masterKeyFile, openVault } from "./master-key.ts";
import { openDeploymentStore, type MigrateMode } from "./migration.ts";
import { databaseDamaged, placeOf, toStartRefused } from "./start-refused.ts";
import { recordMigrationBackup } from "../backup/before-migration.ts";
import { backupDir, listBackups, type Manifest } from "../backup/files.ts";
import { backupStateOf } from "../backup/schedule.ts";
import { createClock, systemSources, type Clock } from "../domain/core/clock.ts";
import type { Services } from "../domain/core/context.ts";
import { Shares } from "../fairness/shares.ts";
import type { PasswordCost } from "../domain/auth/password.ts";
import { redact, type Log } from "../platform/log.ts";
import { openServices } from "./services.ts";
import { preferNativeFolders } from "../platform/native-addons.ts";
import { openTransport, type MailTarget } from "../domain/mail/transport.ts";
import { quickCheckAtStart } from "../store/offline/thread-tasks.ts";
import { READ_ONLY } from "../store/postgres/connection-lost.ts";
import { isOnFuse, LOCK_FILE } from "../store/sqlite/lock.ts";
import { isWritable } from "../store/sqlite/open.ts";

export type InstanceOptions = {
  settings: Settings;
  log: Log;
  clock?: Clock;
  /** Called when storage has failed; the default exits with 70. */
  fatal?: (error: unknown) => void;
  allowNetworkFs?: boolean;
  /** Reject every write, to read what is left of a damaged SQLite database. */
  forceReadOnly?: boolean;
  /** What to do with an older schema, instead of what KEYRACK_MIGRATE says. */
  migrate?: MigrateMode;
  /** How this program is called in a shell, for the first steps that setup shows. */
  command?: string;
  /** The data dir is deleted at the end, so nothing in it is worth a copy. */
  ephemeral?: boolean;
  /** The caller excludes other processes already: by the data dir's lock, on PostgreSQL by withMaintenance. */
  locked?: boolean;
  /** For tests only: cheaper hashing than any setting allows. */
  passwordCost?: PasswordCost | undefined;
  /** For tests only: how long a rate-limit check waits for Redis. */
  redisTimeoutMs?: number | undefined;
};

type Instance = {
  services: Services;
  dir: string;
  bootstrap: Bootstrap;
  /** Made because this start migrated the database. */
  migrationBackup: Manifest | undefined;
};

/** On PostgreSQL only the first process has the file. */
const TOKEN_FILE_DELETED =
  "the bootstrap token is active, although its file was deleted: write a new one to that file, or set KEYRACK_BOOTSTRAP=off";
const ON_FUSE =
  "the database is on a FUSE file system: if that is a network share, SQLite's locks may not hold; use a local disk";
/** It has no connections or memory left for one. */
const REFUSES_MORE = /^53[0-4]00$/;
const KEY_CREATED = "a master key was created; keep a copy of it away from the backups";

/** `opened` gets each part as it opens: the caller closes them in reverse, also when a later one fails to open. */
export async function openInstance(
  options: InstanceOptions,
  opened: AsyncDisposableStack,
  { bootstrap: withBootstrap }: { bootstrap: boolean },
): Promise<Instance> {
  const { settings, log, redisTimeoutMs, passwordCost } = options;
  requireConsistent(settings);
  process.umask(0o077);
  const clock =
    options.clock ?? createClock({ ...systemSources, jumped: (by_ms) => log.warn("clock jumped", { by_ms }) });
  const dir = openDataDir(settings, { readOnly: options.forceReadOnly === true });
  preferNativeFolders([settings.cache_dir, dir]);
  const target = databaseTarget(settings, dir);
  if (target.kind === "sqlite") {
    requireDatabaseFile(dir, target.file);
    if (isMissing(target.file)) refuseLostDatabase(settings, dir, target.file);
    lock(dir, target.file, options, opened);
  }
  const listenerFailed = (error: unknown): void => log.error("a listener failed", errorFields(error));
  const onOutage = (error: unknown): void => logOutage(log, error);
  const now = (): number => clock.now();
  if (target.kind === "sqlite") await checkAfterUncleanStop(target.file, options);
  const deployment = { ...options, settings: { ...settings, data_dir: dir }, target, now };
  const events = { now, fatal: options.fatal ?? exitOnFatal(placeOf(settings), log), listenerFailed, onOutage };
  const { store, migrationBackup } = await openDeploymentStore(deployment, events);
  opened.defer(() => store.close());
  for (const warning of store.warnings) log.warn(warning);
  for (const { what, fix } of plainConnections(settings)) log.warn(`${what} ${fix}`);
  const { vault, createdFile } = await openVault(store, settings, dir);
  if (createdFile && !options.ephemeral) log.warn(KEY_CREATED, { file: createdFile });
  const bootstrap = withBootstrap ? await openBootstrap(store, settings, dir) : noBootstrap;
  if (bootstrap.hash && !bootstrap.token && target.kind === "sqlite") log.warn(TOKEN_FILE_DELETED);
  const transport = await openTransport(mailTarget(settings, dir, log), settings.mail_from);
  opened.defer(() => transport.close());
  const shares = new Shares(settings, { writes: store.waitingWrites });
  const externalNow = options.clock && ((): number => clock.steady());
  const injected = { externalNow, redisTimeoutMs, passwordCost };
  const services: Services = {
    ...(await openServices({ store, clock, settings, shares, log, ...injected }, opened)),
    settings: deployment.settings,
    vault,
    publicUrl: settings.public_url ?? "",
    command: options.command ?? "keyrack",
    mail: { transport, wake: () => {} },
    bootstrapHash: () => bootstrap.hash,
    inFlight: new Set(),
    worker: { leads: false, failing: new Set(), searchPasses: new Map() },
  };
  services.backups = () => backupStateOf(services);
  if (migrationBackup) await recordMigrationBackup(services, migrationBackup);
  return { services, dir, bootstrap, migrationBackup };
}

function logOutage(log: Log, error: unknown): void {
  if (error === null) return log.info("the database can be used again");
  const { cause, message } = error as Error;
  const code = codeOf(cause) || codeOf(error);
  log.warn(outageOf(code), { code, error: message || code });
}

function outageOf(code: string): string {
  if (code === READ_ONLY) return "the database accepts no changes";
  return REFUSES_MORE.test(code) ? "PostgreSQL refuses further connections" : "the database cannot be reached";
}

const isMissing = (file: string): boolean => (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0;

/**
 * A start would set up a new deployment in place of the lost one, and its empty backups would be the newest. A key that
 * was copied to a new data dir is no sign of that, unless the backups are there too. The newest backup may be from
 * before a rotation.
 */
function refuseLostDatabase(settings: Settings, dir: string, file: string): void {
  const folder = backupDir({ ...settings, data_dir: dir });
  const wasUsed = existsSync(join(dir, LOCK_FILE)) || folder.startsWith(join(dir, "/"));
  if (!wasUsed || !existsSync(folder)) return;
  for (const { id, manifest } of listBackups(folder)) {
    const key = manifest?.master_key_fingerprint && findKeyFile(settings, dir, manifest.master_key_fingerprint);
    if (!key) continue;
    const isKept = key !== masterKeyFile(settings, dir);
    throw new BadSetting(
      `There is no database at ${file}, but ${folder} has backups that were made with ${isKept ? `the master key in ${key}` : "this master key"}. Run ${isKept ? `KEYRACK_MASTER_KEY_FILE=${key} ` : ""}keyrack restore ${id}; to set up a new deployment instead, move them away.`,
    );
  }
}

function lock(dir: string, file: string, options: InstanceOptions, opened: AsyncDisposableStack): void {
  if (options.locked) return;
  if (options.forceReadOnly && ![dir, dirname(file)].every(isWritable)) return; // nothing is written, so two may read
  const held = lockSqlite(dir, file, options);
  opened.defer(() => held.release());
  if (isOnFuse(dirname(file))) options.log.warn(ON_FUSE, { file });
}

/** A clean stop leaves no -wal. After a crash, SQLite's quick check runs before the first write. */
async function checkAfterUncleanStop(file: string, { log, forceReadOnly }: InstanceOptions): Promise<void> {
  if (forceReadOnly) return log.error("started read-only: writes are rejected and no jobs run");
  if ((statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0) return;
  const started = performance.now();
  const findings = await quickCheckAtStart(file);
  const took_ms = Math.round(performance.now() - started);
  if (findings.length === 0) return log.info("quick check after an unclean stop: ok", { took_ms });
  log.error("quick check after an unclean stop found damage", { findings: findings.join("; ").slice(0, 2_000) });
  throw databaseDamaged(findings[0] ?? "");
}

function mailTarget({ mail_url }: Settings, dir: string, log: Log): MailTarget {
  if (mail_url.kind === "smtp") return mail_url;
  if (mail_url.kind === "file") return { kind: "file", dir: mail_url.dir ? resolve(mail_url.dir) : join(dir, "mail") };
  // The log redacts tokens in links, as in every other line.
  return { kind: "log", write: ({ id, to, subject, text }) => log.info("mail", { mail_id: id, to, subject, text }) };
}

/** Ends the process with a sentence for the operator, after a line in the log where there is one. */
export function exitOnFatal(place: string, log?: Log): (error: unknown) => void {
  return (error) => {
    log?.error("storage fail-stop: the database or its disk failed; the process exits", errorFields(error));
    const { message } = toStartRefused(error, place) as Error;
    process.stderr.write(redact(`keyrack: ${message.split("\n")[0]}\n`));
    process.exit(70);
  };
}
