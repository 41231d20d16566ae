// Backups as they lie on disk: one folder each, `<utc time>-<short id>/`, with the database copy and manifest.json.
// The manifest is written in one exact form with a digest over itself, so that a change of any byte in either file shows.
// A folder whose name begins with a dot is one being made; a crash leaves it behind and the next backup clears it away.
import { createHash, hash, randomBytes } from "node:crypto";
import {
  chmodSync,
  createReadStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import { copyFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Settings } from "../config/settings.ts";
import { formatTimestamp } from "../kernel/timestamps.ts";
import { createFileDurably, fsyncDir, fsyncFile, writeFileAtomically } from "../platform/fsync.ts";
import type { Contents } from "../store/offline/contents.ts";
import type { OnProgress } from "../store/progress.ts";
import type { Dialect } from "../store/engine/statement.ts";

/** A backup or a restore that cannot go on, for a reason the operator can mend. */
export class BackupRefused extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

export type Manifest = Contents & {
  object: "backup";
  format: 1;
  id: string;
  created_at: string;
  keyrack: string;
  dialect: Dialect;
  /** Version of the pg_dump that wrote it. */
  tool: string | null;
  file: string;
  bytes: number;
  sha256: string;
};

/** What a restore test of this backup found; beside the manifest, which is never written again. */
export type Proof = { at: string; pass: boolean; findings: string[] };

export type Backup = { id: string; folder: string; manifest: Manifest; proof: Proof | null };
export type BrokenBackup = { id: string; folder: string; manifest: null; problem: string };

const ID = /^\d{8}T\d{6}Z-[0-9a-f]{6}$/;
const MANIFEST = "manifest.json";
const PROOF = "tested.json";
const DAY_MS = 24 * 3_600_000;

export function backupDir({ backup_dir, data_dir }: Pick<Settings, "backup_dir" | "data_dir">): string {
  return backup_dir ? resolve(backup_dir) : join(resolve(data_dir), "backups");
}

export function newBackupId(now: number): string {
  return `${formatTimestamp(now).replace(/[-:]|\.\d+/g, "")}-${randomBytes(3).toString("hex")}`;
}

/** The one way a manifest is spelled. */
function spell(manifest: Manifest): string {
  const digest = hash("sha256", JSON.stringify(manifest));
  return `${JSON.stringify({ ...manifest, digest }, null, 2)}\n`;
}

function readManifest(folder: string): Manifest {
  const text = readFileSync(join(folder, MANIFEST), "utf8");
  const { digest: _digest, ...manifest } = JSON.parse(text) as Manifest & { digest: string };
  if (spell(manifest) !== text) throw new Error("the manifest was changed");
  if (manifest.format !== 1) throw new Error("the manifest is of another version of Keyrack");
  if (basename(manifest.file) !== manifest.file) throw new Error("its manifest names a file outside of it");
  return manifest;
}

function readProof(folder: string): Proof | null {
  try {
    return JSON.parse(readFileSync(join(folder, PROOF), "utf8")) as Proof;
  } catch {
    return null; // none yet, or cut short: then it proves nothing
  }
}

export function writeManifest(folder: string, manifest: Manifest): void {
  createFileDurably(join(folder, MANIFEST), spell(manifest));
}

export function writeProof(folder: string, proof: Proof): void {
  writeFileAtomically(join(folder, PROOF), `${JSON.stringify(proof)}\n`);
}

export function openBackup(folder: string): Backup | BrokenBackup {
  const id = basename(folder);
  try {
    const manifest = readManifest(folder);
    if (manifest.id !== id) throw new Error(`its manifest is that of ${manifest.id}`);
    return { id, folder, manifest, proof: readProof(folder) };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const problem =
      code === "ENOENT" ? "it has no manifest" : error instanceof SyntaxError ? "its manifest is no JSON" : message;
    return { id, folder, manifest: null, problem };
  }
}

/** What shows at once, without reading it: its file is gone or cut short. */
export function fileProblem({ folder, manifest: { file, bytes } }: Backup): string | null {
  const size = statSync(join(folder, file), { throwIfNoEntry: false })?.size;
  if (size === undefined) return `${file} is missing`;
  return size === bytes ? null : `${file} has ${size} bytes where the manifest says ${bytes}`;
}

/** Newest first. What is not named like a backup is not ours. */
export function listBackups(dir: string): (Backup | BrokenBackup)[] {
  if (!existsSync(dir)) return [];
  const names = readdirSync(dir).filter((name) => ID.test(name));
  return names
    .toSorted()
    .toReversed()
    .map((name) => openBackup(join(dir, name)));
}

/** A backup by its id, by the path of its folder, or the newest whose manifest is whole. */
export function findBackup(dir: string, wanted: string | undefined): Backup {
  if (wanted === undefined) {
    const newest = listBackups(dir).find((each) => each.manifest !== null);
    if (!newest) throw new BackupRefused(`There is no backup in ${dir}.`);
    return newest;
  }
  const folder = wanted.includes("/") ? resolve(wanted) : join(dir, wanted);
  if (!existsSync(folder))
    throw new BackupRefused(`There is no backup ${wanted}${wanted.includes("/") ? "" : ` in ${dir}`}.`);
  const found = openBackup(folder);
  if (found.manifest === null) throw new BackupRefused(`Backup ${found.id} cannot be used: ${found.problem}.`, 4);
  return found;
}

/** The folder a backup is made in, which nothing takes for one. Those that crashes left behind are cleared away. */
export function makePartial(dir: string, id: string): string {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(dir)) {
      const path = join(dir, name);
      if (!ID.test(name.slice(1)) || !name.startsWith(".")) continue;
      if (Date.now() - statSync(path).mtimeMs > DAY_MS) rmSync(path, { recursive: true, force: true });
    }
    const partial = join(dir, `.${id}`);
    mkdirSync(partial, { mode: 0o700 });
    return partial;
  } catch (error) {
    throw new BackupRefused(`Backups cannot be written to ${dir}: ${(error as NodeJS.ErrnoException).code}.`);
  }
}

export async function sha256File(file: string, tell: OnProgress = () => {}): Promise<string> {
  const sum = createHash("sha256");
  const total = statSync(file).size;
  let done = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) {
    tell.signal?.throwIfAborted();
    sum.update(chunk);
    tell({ step: "checksum", done: (done += chunk.length), total });
  }
  return sum.digest("hex");
}

export async function assertChecksum(
  { folder, manifest }: Backup,
  tell: OnProgress,
  file = join(folder, manifest.file),
) {
  if ((await sha256File(file, tell)) !== manifest.sha256)
    throw new BackupRefused(`Backup ${manifest.id} is damaged: its file does not match its checksum.`, 4);
}

/** Copies the database out of a backup and puts it on disk. It is the copy that is held against the checksum. */
export async function extract(backup: Backup, to: string, tell: OnProgress): Promise<void> {
  await copyFile(join(backup.folder, backup.manifest.file), to);
  chmodSync(to, 0o600); // a copy takes its source's mode, and backups travel: open to all, or not even ours to write
  await assertChecksum(backup, tell, to);
  fsyncFile(to);
  fsyncDir(dirname(to));
}
