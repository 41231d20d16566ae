// Makes backups while the instance runs, and looks at those that are there. A backup gets its name only when it is whole:
// copied, on disk, checked as a database of its own, every audit chain verified, its figures and checksum written down.
import { chmodSync, renameSync, rmSync, statfsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { formatTimestamp } from "../kernel/timestamps.ts";
import { differences, type Contents } from "../store/offline/contents.ts";
import { writeFact } from "../store/queries/deployment.ts";
import { inspect } from "../store/offline/inspect.ts";
import type { OnProgress } from "../store/progress.ts";
import { BackupBusy, dumpPostgres, listDump, toolVersion } from "../store/postgres/tools.ts";
import { SYSTEM } from "../domain/core/actor.ts";
import {
  backupDir,
  BackupRefused,
  fileProblem,
  findBackup,
  listBackups,
  makePartial,
  newBackupId,
  sha256File,
  writeManifest,
  type Backup,
  type BrokenBackup,
  type Manifest,
} from "./files.ts";
import { runHook, type HookResult } from "./hook.ts";
import { stoppable } from "./cancellation.ts";
import { kept } from "./retention.ts";
import { runCheckpoints } from "../domain/audit/checkpoints.ts";
import type { Services } from "../domain/core/context.ts";
import { mutate } from "../domain/core/mutate.ts";
import { fsyncDir } from "../platform/fsync.ts";
import { VERSION } from "../platform/version.ts";

/** Where backups lie; enough to look at them without an instance. */
export type Place = Pick<Services, "settings">;

/** good: checked as a database of its own. unproven: a dump that no restore test has tried yet. */
export type BackupState = "good" | "unproven" | "failed" | "damaged";

export type BackupView = {
  object: "backup";
  id: string;
  created_at: string | null;
  state: BackupState;
  dialect: string | null;
  bytes: number | null;
  schema_version: number | null;
  audit_rows: number | null;
  tested_at: string | null;
  problem: string | null;
  folder: string;
};

function stateOf(backup: Backup): BackupState {
  const { manifest, proof } = backup;
  if (fileProblem(backup)) return "damaged";
  if (proof) return proof.pass ? "good" : "failed";
  return manifest.dialect === "sqlite" ? "good" : "unproven";
}

export function viewBackup(backup: Backup | BrokenBackup): BackupView {
  const { id, folder, manifest } = backup;
  if (manifest === null) {
    const nothing = { created_at: null, dialect: null, bytes: null, schema_version: null, audit_rows: null };
    return { object: "backup", id, state: "damaged", ...nothing, tested_at: null, problem: backup.problem, folder };
  }
  const { created_at, dialect, bytes, schema_version, rows } = manifest;
  return {
    object: "backup",
    id,
    created_at,
    state: stateOf(backup),
    dialect,
    bytes,
    schema_version,
    audit_rows: rows.audit_log ?? 0,
    tested_at: backup.proof?.at ?? null,
    problem: fileProblem(backup) ?? backup.proof?.findings[0] ?? null,
    folder,
  };
}

export function viewBackups({ settings }: Place): BackupView[] {
  return listBackups(backupDir(settings)).map((backup) => viewBackup(backup));
}

type Copied = { file: string; tool: string | null; contents: Contents };

/** Twice the room of the database would be a waste to demand; less than once is sure to fail half-way. */
function assertRoom(dir: string, bytes: number): void {
  const { bavail, bsize } = statfsSync(dir);
  if (bavail * bsize < bytes)
    throw new BackupRefused(`There is no room for a backup in ${dir}: it needs ${Math.ceil(bytes / 1e6)} MB.`);
}

async function copySqliteInto(services: Services, partial: string, tell: OnProgress): Promise<Copied> {
  const { target } = services.store;
  if (target.kind !== "sqlite") throw new Error("not SQLite");
  const file = "keyrack.db";
  assertRoom(partial, statSync(target.file).size);
  await services.store.copyTo(join(partial, file), tell);
  const { contents, findings } = await inspect({ kind: "sqlite", file: join(partial, file) }, tell);
  if (findings.length > 0)
    throw new BackupRefused(
      `The backup is not sound, so it was not kept: ${findings[0]}. Look at keyrack db check.`,
      4,
    );
  return { file, tool: null, contents };
}

async function dumpInto(services: Services, partial: string, tell: OnProgress): Promise<Copied> {
  const { target } = services.store;
  if (target.kind !== "postgres") throw new Error("not PostgreSQL");
  const file = "keyrack.dump";
  const tool = await toolVersion("pg_dump");
  const contents = await dumpPostgres(target.url, join(partial, file), tell);
  await listDump(join(partial, file));
  return { file, tool, contents };
}

const running = new WeakMap<Services, Promise<Made>>();

export type Made = BackupView & { hook: HookResult | null };

/** Makes a backup. Whoever asks while one is being made gets that one. */
export function createBackup(services: Services, tell: OnProgress = () => {}): Promise<Made> {
  let making = running.get(services);
  if (!making) {
    const told = stoppable(services, tell);
    making = make(services, told)
      .catch(async (error: unknown) => {
        if (!told.signal?.aborted && !(error instanceof BackupBusy)) await noteFailure(services, error);
        throw error;
      })
      .finally(() => running.delete(services));
    running.set(services, making);
  }
  return making;
}

async function noteFailure(services: Services, error: unknown): Promise<void> {
  const value = JSON.stringify({ at: formatTimestamp(services.clock.now()), message: (error as Error).message });
  services.log.error("backup failed", { error: (error as Error).message });
  await services.store
    .write({
      chains: [],
      work: async (tx) => ({ value: await writeFact.run(tx, { name: "backup_failure", value }), entries: [] }),
    })
    .catch((worse: unknown) => services.log.error("backup failure was not kept", { error: String(worse) }));
}

async function make(services: Services, tell: OnProgress): Promise<Made> {
  const dir = backupDir(services.settings);
  await runCheckpoints(services); // the manifest carries a signed note of every chain, kept away from this database
  const now = services.clock.now();
  const id = newBackupId(now);
  const partial = makePartial(dir, id);
  try {
    const copied = await (services.store.dialect === "sqlite" ? copySqliteInto : dumpInto)(services, partial, tell);
    const path = join(partial, copied.file);
    chmodSync(path, 0o600);
    const manifest: Manifest = {
      object: "backup",
      format: 1,
      id,
      created_at: formatTimestamp(now),
      keyrack: VERSION,
      dialect: services.store.dialect,
      tool: copied.tool,
      file: copied.file,
      bytes: statSync(path).size,
      sha256: await sha256File(path, tell),
      ...copied.contents,
    };
    writeManifest(partial, manifest);
    const folder = join(dir, id);
    renameSync(partial, folder);
    fsyncDir(dir);
    fsyncDir(dirname(dir));
    await noteMade(services, manifest);
    const hook = await runHook(services, id, folder, tell.signal);
    // It is a backup, but not where the operator wants one: that shows until a hook has gone well.
    if (hook?.ok === false) await noteFailure(services, new Error(`the hook failed for backup ${id}`));
    services.log.info("backup made", { backup_id: id, bytes: manifest.bytes });
    return { ...viewBackup({ id, folder, manifest, proof: null }), hook };
  } catch (error) {
    rmSync(partial, { recursive: true, force: true });
    throw error;
  }
}

async function noteMade(services: Services, { id, created_at, bytes, sha256 }: Manifest): Promise<void> {
  const value = JSON.stringify({ id, at: created_at, bytes });
  await mutate({ services, actor: SYSTEM }, { workspace_id: null }, async (tx) => {
    await writeFact.run(tx, { name: "last_backup", value });
    await writeFact.run(tx, { name: "backup_failure", value: "null" });
    const payload = { backup_id: id, bytes, sha256 };
    return { value: null, events: [{ action: "backup.created", target_id: null, payload }] };
  });
}

export type Verified = { object: "backup_check"; id: string; ok: boolean; findings: string[] };

/** Holds a backup against its manifest, byte for byte, and looks at all of it as a database. */
export async function verifyBackup({ settings }: Place, id: string | undefined, tell: OnProgress): Promise<Verified> {
  const dir = backupDir(settings);
  const newest = id === undefined ? listBackups(dir)[0] : undefined;
  if (newest?.manifest === null)
    return { object: "backup_check", id: newest.id, ok: false, findings: [newest.problem] };
  const found = findBackup(dir, id);
  const findings = await findingsOf(found, tell);
  return { object: "backup_check", id: found.id, ok: findings.length === 0, findings };
}

async function findingsOf(backup: Backup, tell: OnProgress): Promise<string[]> {
  const { folder, manifest } = backup;
  const file = join(folder, manifest.file);
  const problem = fileProblem(backup);
  if (problem) return [problem];
  if ((await sha256File(file, tell)) !== manifest.sha256) return [`${manifest.file} does not match its checksum`];
  if (manifest.dialect === "postgres") {
    await listDump(file);
    return [];
  }
  const { contents, findings } = await inspect({ kind: "sqlite", file }, tell);
  return [...findings, ...differences(manifest, contents)];
}

export type Pruned = { object: "backup_prune"; kept: string[]; removed: string[]; dry_run: boolean };

/** Removes what retention does not keep. Damaged and failed ones stay: they are evidence, and stand for nothing. */
export function pruneBackups({ settings }: Place, { dryRun = false } = {}): Pruned {
  const dir = backupDir(settings);
  const whole = listBackups(dir).filter(
    (each) => each.manifest !== null && ["good", "unproven"].includes(stateOf(each)),
  );
  const keep = kept(whole.map(({ id, manifest }) => ({ id, created_at: manifest?.created_at ?? "" })));
  const removed = whole.filter(({ id }) => !keep.has(id)).map(({ id }) => id);
  if (!dryRun) for (const id of removed) removeBackup(dir, id);
  return { object: "backup_prune", kept: [...keep], removed, dry_run: dryRun };
}

/** Renamed first: a removal that is cut short leaves nothing that looks like a backup. */
function removeBackup(dir: string, id: string): void {
  renameSync(join(dir, id), join(dir, `.${id}`));
  rmSync(join(dir, `.${id}`), { recursive: true, force: true });
}
