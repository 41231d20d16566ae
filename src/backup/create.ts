// Creates a backup while the instance runs. A backup gets its final name only when it is complete: copied, durable, checked
// as a database (SQLite) or as a readable dump (PostgreSQL), with its contents and checksum in the manifest.
import { chmodSync, renameSync, rmSync, statfsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { runCheckpoints } from "../domain/audit/checkpoints.ts";
import { SYSTEM } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { mutate } from "../domain/core/mutate.ts";
import { formatTimestamp } from "../kernel/timestamps.ts";
import { fsyncDir } from "../platform/fsync.ts";
import { VERSION } from "../platform/version.ts";
import type { Contents } from "../store/offline/contents.ts";
import { inspect } from "../store/offline/inspect.ts";
import { BackupBusy, dumpPostgres, assertReadableDump, toolVersion } from "../store/postgres/tools.ts";
import { withSignal, type OnProgress } from "../store/progress.ts";
import { writeFact } from "../store/queries/deployment.ts";
import {
  backupDir,
  BackupRefused,
  createPartialDir,
  newBackupId,
  sha256File,
  writeManifest,
  type Manifest,
} from "./files.ts";
import { runHook, type HookResult } from "./hook.ts";
import { viewBackup, type BackupView } from "./list.ts";

export type CreatedBackup = BackupView & { hook: HookResult | null };

const running = new WeakMap<Services, Promise<CreatedBackup>>();

/** Creates a backup. Callers that arrive while one is running share it. Stopping the instance cancels it. */
export function createBackup(services: Services, onProgress: OnProgress = () => {}): Promise<CreatedBackup> {
  const current = running.get(services);
  if (current) return current;
  const { signal } = services.shutdown;
  const created = create(services, withSignal(onProgress, signal))
    .catch(async (error: unknown) => {
      if (!signal.aborted && !(error instanceof BackupBusy)) await recordFailure(services, error);
      throw error;
    })
    .finally(() => running.delete(services));
  running.set(services, created);
  return created;
}

async function create(services: Services, onProgress: OnProgress): Promise<CreatedBackup> {
  const { store, settings, clock, log } = services;
  const dir = backupDir(settings);
  await runCheckpoints(services); // the manifest keeps the newest signed checkpoint of each audit chain outside the database
  const now = clock.now();
  const id = newBackupId(now);
  const partial = createPartialDir(dir, id);
  try {
    const { file, tool, contents } = await (store.dialect === "sqlite" ? copySqlite : dump)(
      services,
      partial,
      onProgress,
    );
    const path = join(partial, file);
    chmodSync(path, 0o600);
    const manifest: Manifest = {
      object: "backup",
      format: 1,
      id,
      created_at: formatTimestamp(now),
      keyrack: VERSION,
      dialect: store.dialect,
      tool,
      file,
      bytes: statSync(path).size,
      sha256: await sha256File(path, onProgress),
      ...contents,
    };
    writeManifest(partial, manifest);
    const folder = join(dir, id);
    renameSync(partial, folder);
    fsyncDir(dir);
    fsyncDir(dirname(dir));
    await recordSuccess(services, manifest);
    const hook = await runHook(services, id, folder, onProgress.signal);
    // The backup exists but may not have left this host: reported as failing until a hook succeeds.
    if (hook?.ok === false) await recordFailure(services, new Error(`the hook failed for backup ${id}`));
    log.info("backup created", { backup_id: id, bytes: manifest.bytes });
    return { ...viewBackup({ id, folder, manifest, test: null }), hook };
  } catch (error) {
    rmSync(partial, { recursive: true, force: true });
    throw error;
  }
}

type Copy = { file: string; tool: string | null; contents: Contents };

async function copySqlite({ store }: Services, partial: string, onProgress: OnProgress): Promise<Copy> {
  if (store.target.kind !== "sqlite") throw new Error("not SQLite");
  const file = "keyrack.db";
  assertRoom(partial, statSync(store.target.file).size);
  await store.copyTo(join(partial, file), onProgress);
  const { contents, findings } = await inspect({ kind: "sqlite", file: join(partial, file) }, onProgress);
  if (findings.length > 0)
    throw new BackupRefused(`The backup is not sound, so it was not kept: ${findings[0]}. Run keyrack db check.`, 4);
  return { file, tool: null, contents };
}

function assertRoom(dir: string, bytes: number): void {
  const { bavail, bsize } = statfsSync(dir);
  if (bavail * bsize < bytes)
    throw new BackupRefused(`There is no room for a backup in ${dir}: it needs ${Math.ceil(bytes / 1e6)} MB.`);
}

async function dump({ store }: Services, partial: string, onProgress: OnProgress): Promise<Copy> {
  if (store.target.kind !== "postgres") throw new Error("not PostgreSQL");
  const file = "keyrack.dump";
  const tool = await toolVersion("pg_dump");
  const contents = await dumpPostgres(store.target.url, join(partial, file), onProgress);
  await assertReadableDump(join(partial, file));
  return { file, tool, contents };
}

async function recordSuccess(services: Services, { id, created_at, bytes, sha256 }: Manifest): Promise<void> {
  const value = JSON.stringify({ id, at: created_at, bytes });
  await mutate({ services, actor: SYSTEM }, { workspace_id: null }, async (tx) => {
    await writeFact.run(tx, { name: "last_backup", value });
    await writeFact.run(tx, { name: "backup_failure", value: "null" });
    const payload = { backup_id: id, bytes, sha256 };
    return { value: null, events: [{ action: "backup.created", target_id: null, payload }] };
  });
}

async function recordFailure({ store, clock, log }: Services, error: unknown): Promise<void> {
  const { message } = error as Error;
  const value = JSON.stringify({ at: formatTimestamp(clock.now()), message });
  log.error("backup failed", { error: message });
  await store
    .write({
      chains: [],
      work: async (tx) => ({ value: await writeFact.run(tx, { name: "backup_failure", value }), entries: [] }),
    })
    .catch((cause: unknown) => log.error("backup failure was not recorded", { error: String(cause) }));
}
