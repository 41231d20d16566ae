// Creates a backup while the instance runs (write.ts), records it, and hands it to the operator's hook.
import { join } from "node:path";
import { runCheckpoints } from "../domain/audit/checkpoints.ts";
import { SYSTEM } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { mutate } from "../domain/core/mutate.ts";
import { record } from "../domain/core/record.ts";
import { formatTimestamp } from "../kernel/timestamps.ts";
import { BackupBusy, dumpPostgres, assertReadableDump } from "../store/postgres/tools.ts";
import { withSignal, type OnProgress } from "../store/progress.ts";
import { writeFact } from "../store/queries/deployment.ts";
import { backupDir, newBackupId, type Manifest } from "./files.ts";
import { runHook, type HookResult } from "./hook.ts";
import { viewBackup, type BackupView } from "./list.ts";
import { claimDeploymentId } from "./owner.ts";
import { copySqliteDatabase, createdEvent, writeBackup, type Copy } from "./write.ts";

export type CreatedBackup = BackupView & { hook: HookResult | null };

const running = new WeakMap<Services, Promise<CreatedBackup>>();

/** Creates a backup. Callers that arrive while one is running share it. Stopping the instance cancels it. */
export function createBackup(services: Services, onProgress: OnProgress = () => {}): Promise<CreatedBackup> {
  const current = running.get(services);
  if (current) return current;
  const { signal } = services.shutdown;
  const created = create(services, withSignal(onProgress, signal))
    .catch(async (error: unknown) => {
      if (!signal.aborted && !(error instanceof BackupBusy)) await recordFailure(services, "backup_failure", error);
      throw error;
    })
    .finally(() => running.delete(services));
  running.set(services, created);
  return created;
}

async function create(services: Services, onProgress: OnProgress): Promise<CreatedBackup> {
  const { store, settings, clock, log } = services;
  await runCheckpoints(services); // the manifest keeps the newest signed checkpoint of each audit chain outside the database
  await claimDeploymentId(services);
  const now = clock.now();
  const id = newBackupId(now);
  const copy = (partial: string): Promise<Copy> =>
    (store.dialect === "sqlite" ? copyRunning : dump)(services, partial, onProgress);
  const job = { dir: backupDir(settings), id, now, dialect: store.dialect, copy, onProgress };
  const { manifest, folder } = await writeBackup(job);
  await recordSuccess(services, manifest);
  const hook = await runHook(services, id, folder, onProgress.signal);
  // The backup exists but may not have left this host: reported as failing until a hook succeeds.
  if (hook?.ok === false)
    await recordFailure(services, "backup_failure", new Error(`the hook failed for backup ${id}`));
  log.info("backup created", { backup_id: id, bytes: manifest.bytes });
  return { ...viewBackup({ id, folder, manifest, test: null }), hook };
}

function copyRunning({ store, settings }: Services, partial: string, onProgress: OnProgress): Promise<Copy> {
  const { target } = store;
  if (target.kind !== "sqlite") throw new Error("not SQLite");
  return copySqliteDatabase(
    { ...settings, database: target.file },
    partial,
    (file) => store.copyTo(file, onProgress),
    onProgress,
  );
}

async function dump({ store }: Services, partial: string, onProgress: OnProgress): Promise<Copy> {
  if (store.target.kind !== "postgres") throw new Error("not PostgreSQL");
  const file = "keyrack.dump";
  const dumped = await dumpPostgres(store.target.url, join(partial, file), onProgress);
  await assertReadableDump(join(partial, file));
  return { file, ...dumped };
}

async function recordSuccess(services: Services, { id, created_at, bytes, sha256 }: Manifest): Promise<void> {
  const value = JSON.stringify({ id, at: created_at, bytes });
  await mutate({ services, actor: SYSTEM }, { workspace_id: null }, async (tx) => {
    await writeFact.run(tx, { name: "last_backup", value });
    await writeFact.run(tx, { name: "backup_failure", value: "null" });
    return { value: null, events: [createdEvent({ id, bytes, sha256 })] };
  });
}

/** What /status reports until the next success, and why the schedule waits. Does not throw. */
export async function recordFailure(
  services: Services,
  name: "backup_failure" | "restore_test_failure",
  error: unknown,
): Promise<void> {
  const { clock, log } = services;
  const { message } = error as Error;
  const value = JSON.stringify({ at: formatTimestamp(clock.now()), message });
  log.error(name === "backup_failure" ? "backup failed" : "restore test could not run", { error: message });
  await record(services, (tx) => writeFact.run(tx, { name, value })).catch((cause: unknown) =>
    log.error("backup failure was not recorded", { error: String(cause) }),
  );
}
