// The parts every use of a database needs, with or without a listener: settings to a data dir, its lock, the store, the
// vault and what stands on them. The server (app.ts) and the operator's commands both begin here.
import { existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { BadSetting, type Settings } from "../config/settings.ts";
import { openBootstrap, openDataDir, openVault, type Bootstrap } from "./data-dir.ts";
import { backupStateOf } from "../backup/schedule.ts";
import { createClock, systemSources, type Clock } from "../domain/core/clock.ts";
import type { Services } from "../domain/core/context.ts";
import { createRecordIdGenerator } from "../domain/core/record-ids.ts";
import { createTouched } from "../domain/auth/credentials.ts";
import { Passwords, type PasswordCost } from "../domain/auth/password.ts";
import { newMutationCounts } from "../domain/health/mutation-counts.ts";
import { Throttles } from "../domain/auth/throttle.ts";
import type { Log } from "../platform/log.ts";
import { openMachineServices } from "./services.ts";
import { NativeUnavailable, preferNativeFolders } from "../platform/native-addons.ts";
import { openTransport, type MailTarget } from "../domain/mail/transport.ts";
import { openReadOnly, openStore } from "../store/database.ts";
import type { DatabaseTarget } from "../store/target.ts";
import { quickCheck } from "../store/offline/inspect.ts";
import {
  DataDirInUse,
  lockDatabaseFile,
  lockDataDir,
  networkFileSystem,
  type DataDirLock,
} from "../store/sqlite/lock.ts";
import { SchemaRefused } from "../store/schema/migrate.ts";

export type InstanceOptions = {
  settings: Settings;
  log: Log;
  clock?: Clock;
  /** Called when the storage cannot be trusted any more; the default ends the process with 70. */
  fatal?: (error: unknown) => void;
  allowNetworkFs?: boolean;
  /** Start without writing anything: for a SQLite database that is damaged. */
  forceReadOnly?: boolean;
  /** The caller holds the data dir's lock already. */
  locked?: boolean;
  /** For tests only: cheaper hashing than any setting allows. */
  passwordCost?: PasswordCost | undefined;
};

/** A start that failed for a reason the operator can mend: one sentence and an exit code. */
export class StartRefused extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

export type Instance = {
  services: Services;
  dir: string;
  lock: DataDirLock | undefined;
  bootstrap: Bootstrap;
};

export type Closers = (() => Promise<void> | void)[];

export async function openInstance(options: InstanceOptions, opened: Closers, doorOpen: boolean): Promise<Instance> {
  const { settings, log } = options;
  process.umask(0o077);
  const clock =
    options.clock ?? createClock({ ...systemSources, jumped: (by_ms) => log.warn("clock jumped", { by_ms }) });
  const dir = openDataDir(settings);
  preferNativeFolders([settings.cache_dir, dir]);
  const target = databaseTarget(settings, dir);
  const locks = target.kind === "sqlite" && !options.locked;
  const lock = locks ? takeLock(dir, target.file, options.allowNetworkFs ?? false) : undefined;
  if (lock) opened.push(() => lock.release());
  const fatal = options.fatal ?? stopForGood(log);
  const listenerFailed = (error: unknown): void => log.error("a listener failed", { error: String(error) });
  const events = { now: () => clock.now(), fatal, listenerFailed };
  if (target.kind === "sqlite") await checkAfterUncleanStop(target.file, options);
  const readOnly = options.forceReadOnly && target.kind === "sqlite";
  const store = readOnly ? await openReadOnly(target, events) : await openStore(target, events);
  opened.push(() => store.close());
  for (const warning of store.warnings) log.warn(warning);
  const { vault, made } = await openVault(store, settings, dir);
  if (made)
    log.warn("a master key was made; keep a copy of it away from the backups", { file: join(dir, "master.key") });
  const bootstrap = doorOpen ? await openBootstrap(store, settings, dir) : { hash: null, file: null, token: null };
  const transport = await openTransport(mailTarget(settings, dir, log), settings.mail_from);
  opened.push(() => transport.close());
  const machineServices = await openMachineServices(
    { store, clock, settings, log, clockIsInjected: options.clock !== undefined },
    opened,
  );
  const services: Services = {
    store,
    clock,
    settings: { ...settings, data_dir: dir },
    vault,
    log,
    publicUrl: settings.public_url ?? "",
    throttles: new Throttles(clock, settings.throttle),
    passwords: new Passwords(options.passwordCost),
    mail: { transport, wake: () => {} },
    bootstrapHash: () => bootstrap.hash,
    newId: createRecordIdGenerator(clock),
    touched: createTouched(),
    inFlight: new Set(),
    worker: { leads: false, failing: new Set() },
    statusCache: { until: 0, answer: undefined },
    mutationCounts: newMutationCounts(),
    ...machineServices,
  };
  services.backups = () => backupStateOf(services);
  return { services, dir, lock, bootstrap };
}

/** A clean stop leaves no -wal. After any other the database is looked at before it is written to again. */
async function checkAfterUncleanStop(file: string, { log, forceReadOnly }: InstanceOptions): Promise<void> {
  if (forceReadOnly) return log.error("started read-only: nothing is written, nothing runs beside requests");
  if ((statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0) return;
  const started = performance.now();
  const findings = await quickCheck(file);
  const took_ms = Math.round(performance.now() - started);
  if (findings.length === 0) return log.info("quick check after an unclean stop: ok", { took_ms });
  log.error("quick check after an unclean stop found damage", { findings: findings.join("; ").slice(0, 2_000) });
  throw new StartRefused(
    `The database is damaged (${findings[0]}). Restore a backup with keyrack restore --force, or start with --force-read-only to read what is left.`,
    70,
  );
}

export type Offline = { readonly services: Services; close(): Promise<void> };

/** An instance without a listener, for the operator's commands; refused while a server holds the data dir. */
export async function openOffline(options: InstanceOptions): Promise<Offline> {
  const { settings } = options;
  const opened: Closers = [];
  const close = async (): Promise<void> => {
    for (const each of opened.toReversed()) await each();
  };
  try {
    const target = databaseTarget(settings, resolve(settings.data_dir));
    if (target.kind === "sqlite" && !existsSync(target.file)) {
      throw new BadSetting(`There is no database at ${target.file}. Name its data dir with --data-dir.`);
    }
    const { services } = await openInstance(options, opened, false);
    services.publicUrl ||= `http://${settings.host}:${settings.port}`;
    return { services, close };
  } catch (error) {
    await close();
    throw toStartRefused(error);
  }
}

function mailTarget({ mail_url }: Settings, dir: string, log: Log): MailTarget {
  if (mail_url.kind === "smtp") return mail_url;
  if (mail_url.kind === "file") return { kind: "file", dir: mail_url.dir ? resolve(mail_url.dir) : join(dir, "mail") };
  // The log's redactor takes the tokens out of the links, as out of everything it writes.
  return { kind: "log", write: ({ id, to, subject, text }) => log.info("mail", { mail_id: id, to, subject, text }) };
}

export function databaseTarget(settings: Settings, dir: string): DatabaseTarget {
  const { database_url: setting } = settings;
  if (setting.kind === "postgres") return { kind: "postgres", url: setting.url, pool: settings.database_pool };
  return { kind: "sqlite", file: setting.kind === "sqlite" ? resolve(setting.file) : join(dir, "keyrack.db") };
}

export function takeLock(dir: string, file: string, allowNetworkFs: boolean): DataDirLock {
  const network = networkFileSystem(dir);
  if (network && !allowNetworkFs) {
    throw new BadSetting(
      `The data dir is on ${network}, where SQLite's locks do not hold. Use a local disk, or --allow-network-fs.`,
    );
  }
  const own = lockDataDir(dir);
  if (dirname(file) === dir) return own;
  try {
    const beside = lockDatabaseFile(file);
    return {
      release() {
        beside.release();
        own.release();
      },
    };
  } catch (error) {
    own.release();
    throw error;
  }
}

function stopForGood(log: Log): (error: unknown) => void {
  return (error) => {
    log.error("storage fail-stop: the database or its disk failed; nothing more is answered", { error: String(error) });
    process.exit(70);
  };
}

export function toStartRefused(error: unknown): unknown {
  if (error instanceof BadSetting || error instanceof DataDirInUse || error instanceof SchemaRefused) {
    return new StartRefused(error.message, 2);
  }
  if (error instanceof NativeUnavailable) return new StartRefused(error.message, error.exitCode);
  const { code = "", message = "" } = error as { code?: string; message?: string };
  if (error instanceof StartRefused) return error;
  if (code === "EACCES") return new StartRefused(`Permission denied: ${message}`, 2);
  if (/^SQLITE_(CANTOPEN|NOTADB|READONLY|PERM|AUTH)/.test(code))
    return new StartRefused(`The database cannot be opened: ${message}`, 2);
  if (/^SQLite |^PostgreSQL /.test(message)) return new StartRefused(message, 2);
  if (isUnreachable(error)) return new StartRefused(`The database cannot be reached: ${message || code}`, 3);
  if (code === "3D000" || code.startsWith("28"))
    return new StartRefused(`The database refused the connection: ${message}`, 3);
  return error;
}

function isUnreachable(error: unknown): boolean {
  const { code = "", message = "" } = error as { code?: string; message?: string };
  return (
    /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ECONNRESET|ENOENT|08\w{3}|57P0\d)$/.test(
      code,
    ) || /timeout|terminated/i.test(message)
  );
}
