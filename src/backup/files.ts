// Backups on disk: one folder each, `<utc time>-<short id>/` (and `-pre-<schema>` when it was made before the database
// was migrated to that schema), with the database copy and manifest.json. The manifest has one
// exact serialization with a digest over itself, so that a change of any byte in either file is detected.
// A folder whose name begins with a dot is incomplete. A crash leaves it behind; a later backup removes it after a day.
import { createHash, hash, randomBytes } from "node:crypto";
import { chmodSync, createReadStream, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { Settings } from "../config/settings.ts";
import { DAY_MS, isFuture } from "../kernel/durations.ts";
import { ExitError } from "../kernel/exit-error.ts";
import { MIB } from "../kernel/sizes.ts";
import { formatTimestamp } from "../kernel/timestamps.ts";
import { codeOf } from "../platform/errors.ts";
import { createDirDurably, fsyncAsync, removeLarge, writeFileAtomicallyAsync } from "../platform/fsync.ts";
import type { Contents } from "../store/offline/contents.ts";
import type { OnProgress } from "../store/progress.ts";
import type { Dialect } from "../store/engine/tx.ts";

/** A backup or restore that cannot continue, for a reason that the operator can fix. */
export class BackupRefused extends ExitError {
  constructor(message: string, exitCode = 1) {
    super(message, exitCode);
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

/** The result of a restore test: a file of its own, because the manifest is never rewritten. */
type TestResult = { at: string; pass: boolean; findings: string[] };

export type Backup = { id: string; folder: string; manifest: Manifest; test: TestResult | null };
export type BrokenBackup = { id: string; folder: string; manifest: null; problem: string };

const ID = /^\d{8}T\d{6}Z-[0-9a-f]{6}(-pre-\d+)?$/;
/** In the id of a backup made before a migration, followed by the schema that it migrates to. */
const PRE_MIGRATION = "-pre-";
const MANIFEST = "manifest.json";
const TEST_RESULT = "tested.json";

export type BackupSettings = Pick<Settings, "backup_dir" | "data_dir">;

export function backupDir({ backup_dir, data_dir }: BackupSettings): string {
  return backup_dir ? resolve(backup_dir) : join(resolve(data_dir), "backups");
}

/** `before`: the schema that the database is migrated to next. */
export function newBackupId(now: number, before?: number): string {
  const suffix = before === undefined ? "" : `${PRE_MIGRATION}${before}`;
  return `${formatTimestamp(now).replace(/[-:]|\.\d+/g, "")}-${randomBytes(3).toString("hex")}${suffix}`;
}

/** Whether the backup was made before a migration. */
export const isPreMigration = (id: string): boolean => id.includes(PRE_MIGRATION);

function serializeManifest(manifest: Manifest): string {
  const digest = hash("sha256", JSON.stringify(manifest));
  return `${JSON.stringify({ ...manifest, digest }, null, 2)}\n`;
}

function readManifest(folder: string): Manifest {
  const text = readFileSync(join(folder, MANIFEST), "utf8");
  const { digest: _digest, ...manifest } = JSON.parse(text) as Manifest & { digest: string };
  if (serializeManifest(manifest) !== text) throw new Error("the manifest was changed");
  if (manifest.format !== 1) throw new Error("the manifest was written by another version of Keyrack");
  if (basename(manifest.file) !== manifest.file) throw new Error("its manifest names a file outside of it");
  return manifest;
}

function readTestResult(folder: string): TestResult | null {
  try {
    return JSON.parse(readFileSync(join(folder, TEST_RESULT), "utf8")) as TestResult;
  } catch {
    return null; // not tested yet, or unreadable: both prove nothing
  }
}

export function writeManifest(folder: string, manifest: Manifest): Promise<void> {
  return writeFileAtomicallyAsync(join(folder, MANIFEST), serializeManifest(manifest));
}

export function writeTestResult(folder: string, result: TestResult): Promise<void> {
  return writeFileAtomicallyAsync(join(folder, TEST_RESULT), `${JSON.stringify(result)}\n`);
}

function readBackup(folder: string): Backup | BrokenBackup {
  const id = basename(folder);
  try {
    const manifest = readManifest(folder);
    if (manifest.id !== id) throw new Error(`its manifest is that of ${manifest.id}`);
    return { id, folder, manifest, test: readTestResult(folder) };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const problem =
      code === "ENOENT" ? "it has no manifest" : error instanceof SyntaxError ? "its manifest is not JSON" : message;
    return { id, folder, manifest: null, problem };
  }
}

/** Detects a missing or truncated file by its size, without reading it. */
export function fileProblem({ folder, manifest: { file, bytes } }: Backup): string | null {
  const size = statSync(join(folder, file), { throwIfNoEntry: false })?.size;
  if (size === undefined) return `${file} is missing`;
  return size === bytes ? null : `${file} has ${size} bytes where the manifest says ${bytes}`;
}

/** The second, from the name, and within it the time in the manifest, because the suffix of a name is random. */
const sortKey = ({ id, manifest }: Backup | BrokenBackup): string =>
  [id.split("-")[0], manifest?.created_at, id].join(" ");

/** Newest first. Ignores entries that are not named like a backup. */
export function listBackups(dir: string): (Backup | BrokenBackup)[] {
  if (!existsSync(dir)) return [];
  const names = readdirSync(dir).filter((name) => ID.test(name));
  const backups = names.map((name) => readBackup(join(dir, name)));
  return backups.toSorted((a, b) => (sortKey(a) < sortKey(b) ? 1 : -1));
}

type Choice = { dialect: Dialect; deploymentId: string | null; now: number };

/** Whether it was made by this deployment, as far as is known. */
export const isOwn = ({ manifest }: Backup, deploymentId: string | null): boolean =>
  (manifest.deployment_id ?? null) === null || manifest.deployment_id === deploymentId;

/**
 * The newest with a valid manifest, of this kind of database and this deployment. One from the future was made while
 * the clock was wrong, and is chosen only when there is no other.
 */
export function newestBackup(dir: string, { dialect, deploymentId, now }: Choice): Backup | undefined {
  const readable = listBackups(dir).filter((each) => each.manifest !== null);
  const fitting = readable.filter((each) => each.manifest.dialect === dialect && isOwn(each, deploymentId));
  return fitting.find(({ manifest }) => !isFuture(Date.parse(manifest.created_at), now)) ?? fitting[0];
}

/** The one that is named, or (undefined) the newest. */
export function chooseBackup(dir: string, wanted: string | undefined, choice: Choice): Backup {
  const chosen = wanted === undefined ? newestBackup(dir, choice) : findBackup(dir, wanted);
  if (chosen) return chosen;
  const others = listBackups(dir).length > 0 ? " of this deployment and its kind of database. Name one to use it" : "";
  throw new BackupRefused(`There is no backup in ${dir}${others}.`);
}

/** A backup by its id or by the path of its folder. */
export function findBackup(dir: string, wanted: string): Backup {
  const folder = wanted.includes("/") ? resolve(wanted) : join(dir, wanted);
  if (!existsSync(folder))
    throw new BackupRefused(`There is no backup ${wanted}${wanted.includes("/") ? "" : ` in ${dir}`}.`);
  const found = readBackup(folder);
  if (found.manifest === null) throw new BackupRefused(`Backup ${found.id} cannot be used: ${found.problem}.`, 4);
  return found;
}

/** Creates the folder in which a backup is assembled, and removes those that crashes left behind. */
export async function createPartialDir(dir: string, id: string): Promise<string> {
  try {
    await createDirDurably(dir);
    for (const name of readdirSync(dir)) {
      const path = join(dir, name);
      if (!ID.test(name.slice(1)) || !name.startsWith(".")) continue;
      // Before a migration nothing else uses the database. A start that is killed and tried again must not fill the
      // disk.
      const killed = isPreMigration(id) && isPreMigration(name);
      const made = statSync(path, { throwIfNoEntry: false })?.mtimeMs; // a prune may be removing it too
      if (killed || (made !== undefined && Date.now() - made > DAY_MS)) await removeLarge(path);
    }
    const partial = join(dir, `.${id}`);
    mkdirSync(partial, { mode: 0o700 });
    return partial;
  } catch (error) {
    throw new BackupRefused(`Backups cannot be written to ${dir}: ${codeOf(error)}.`);
  }
}

export async function sha256File(file: string, onProgress: OnProgress = () => {}): Promise<string> {
  const sum = createHash("sha256");
  const total = statSync(file).size;
  let done = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: MIB }) as AsyncIterable<Buffer>) {
    onProgress.signal?.throwIfAborted();
    sum.update(chunk);
    onProgress({ step: "checksum", done: (done += chunk.length), total });
  }
  return sum.digest("hex");
}

export async function assertChecksum(
  { folder, manifest }: Backup,
  onProgress: OnProgress,
  file = join(folder, manifest.file),
) {
  if ((await sha256File(file, onProgress)) !== manifest.sha256)
    throw new BackupRefused(`Backup ${manifest.id} is damaged: its file does not match its checksum.`, 4);
}

/**
 * Copies the database out of a backup, durably. The checksum is verified on the copy: it is the file that will be used.
 */
export async function extract(backup: Backup, to: string, onProgress: OnProgress): Promise<void> {
  await copyFile(join(backup.folder, backup.manifest.file), to);
  chmodSync(to, 0o600); // the copy inherits the mode of a backup that may have been moved: readable by all, or read-only
  await assertChecksum(backup, onProgress, to);
  await fsyncAsync(to);
  await fsyncAsync(dirname(to));
}
