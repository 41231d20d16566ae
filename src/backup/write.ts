// Writes one backup: assembles it in a folder with a temporary name, which gets its final name only when the copy is
// complete, durable and checked, with its contents and checksum in the manifest.
import { chmodSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Event } from "../domain/core/events.ts";
import { formatTimestamp } from "../kernel/timestamps.ts";
import { fsyncAsync, removeLarge } from "../platform/fsync.ts";
import { VERSION } from "../platform/version.ts";
import type { Dialect } from "../store/engine/tx.ts";
import type { Contents } from "../store/offline/contents.ts";
import { inspect } from "../store/offline/thread-tasks.ts";
import type { ThreadPool } from "../store/threads/pool.ts";
import type { OnProgress } from "../store/progress.ts";
import { BackupRefused, createPartialDir, sha256File, writeManifest, type Manifest } from "./files.ts";
import { assertRoom } from "./room.ts";

/** A copy of the database in the folder of an unfinished backup. */
export type Copy = { file: string; tool: string | null; contents: Contents };

type BackupJob = {
  /** The folder of all backups. */
  dir: string;
  id: string;
  now: number;
  dialect: Dialect;
  copy: (partial: string) => Promise<Copy>;
  onProgress: OnProgress;
};

type WrittenBackup = { manifest: Manifest; folder: string };

export async function writeBackup({ dir, id, now, dialect, copy, onProgress }: BackupJob): Promise<WrittenBackup> {
  const partial = await createPartialDir(dir, id);
  try {
    const { file, tool, contents } = await copy(partial);
    const path = join(partial, file);
    chmodSync(path, 0o600);
    const manifest: Manifest = {
      object: "backup",
      format: 1,
      id,
      created_at: formatTimestamp(now),
      keyrack: VERSION,
      dialect,
      tool,
      file,
      bytes: statSync(path).size,
      sha256: await sha256File(path, onProgress),
      ...contents,
    };
    await writeManifest(partial, manifest);
    const folder = join(dir, id);
    renameSync(partial, folder);
    await fsyncAsync(dir);
    return { manifest, folder };
  } catch (error) {
    await removeLarge(partial);
    throw error;
  }
}

/** Copies a SQLite database with `copyTo` and checks the copy as a database. */
export async function copySqliteDatabase(
  { database, disk_reserve_mb }: { database: string; disk_reserve_mb: number },
  partial: string,
  copyTo: (file: string) => Promise<void>,
  onProgress: OnProgress,
  pool?: ThreadPool,
): Promise<Copy> {
  const file = "keyrack.db";
  assertRoom(partial, statSync(database).size, { kind: "sqlite", file: database }, disk_reserve_mb);
  await copyTo(join(partial, file));
  const { contents, findings } = await inspect({ kind: "sqlite", file: join(partial, file) }, onProgress, pool);
  if (findings.length > 0)
    throw new BackupRefused(`The backup is not sound, so it was not kept: ${findings[0]}. Run keyrack db check.`, 4);
  return { file, tool: null, contents };
}

export function createdEvent({ id, bytes, sha256 }: Pick<Manifest, "id" | "bytes" | "sha256">): Event {
  return { action: "backup.created", target_id: null, payload: { backup_id: id, bytes, sha256 } };
}
