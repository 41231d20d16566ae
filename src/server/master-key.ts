// The master key file: created for a new database, checked against the database's fingerprint at every start, replaced
// by rotation. A missing key is never replaced by a new one if the database has a fingerprint: sealed values would be
// lost.
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { BadSetting, type Settings } from "../config/settings.ts";
import { createVault, type Vault } from "../domain/vault/vault.ts";
import { codeOf } from "../platform/errors.ts";
import { createFileDurably, fsyncDir, writeFileAtomically } from "../platform/fsync.ts";
import type { Store } from "../store/store.ts";
import { createPrivateFile, readPrivateFile } from "./data-dir.ts";
import { claimFactOnce, getFact } from "../domain/core/facts.ts";

export function masterKeyFile(settings: Settings, dir: string): string {
  return settings.master_key_file ? resolve(settings.master_key_file) : join(dir, "master.key");
}

/** 32 raw bytes, or their hex or base64 text; null if it is neither. */
function decodeMasterKey(text: string): Uint8Array | null {
  if (text.length === 32) return Buffer.from(text, "latin1");
  const trimmed = text.trim();
  if (/^[0-9a-f]{64}$/i.test(trimmed)) return Buffer.from(trimmed, "hex");
  const bytes = Buffer.from(trimmed, "base64");
  return bytes.length === 32 ? bytes : null;
}

const newMasterKey = (): string => `${randomBytes(32).toString("hex")}\n`;

function readVault(file: string): Vault {
  const key = decodeMasterKey(readPrivateFile(file));
  if (!key) throw new BadSetting(`${file} does not hold a master key: 32 bytes, raw, hex or base64.`);
  return createVault(key);
}

/** The vault of the master key in this data dir, if there is one. Creates nothing. */
export function findVault(settings: Settings, dir: string): Vault | null {
  const file = masterKeyFile(settings, dir);
  return existsSync(file) ? readVault(file) : null;
}

/** The file of the master key with this fingerprint: the current one, or an old one that a rotation kept beside it. */
export function findKeyFile(settings: Settings, dir: string, fingerprint: string): string | undefined {
  const file = masterKeyFile(settings, dir);
  if (findVault(settings, dir)?.fingerprint === fingerprint) return file;
  const kept = keptKeyFile(file, fingerprint);
  return existsSync(kept) ? kept : undefined;
}

/** The vault of the deployment's master key. `createdFile` is that of a new key, which only a new database gets. */
export async function openVault(
  store: Store,
  settings: Settings,
  dir: string,
): Promise<{ vault: Vault; createdFile: string | null }> {
  const file = masterKeyFile(settings, dir);
  const known = await getFact(store.read, "master_key_fingerprint");
  if (isNextKey(file, known)) promote(file);
  if (known) requireKeyOf(file, known);
  const created = !existsSync(file) && createPrivateFile(file, newMasterKey(), "KEYRACK_MASTER_KEY_FILE");
  const vault = readVault(file);
  requireKeyOf(file, await claimFactOnce({ store }, "master_key_fingerprint", () => vault.fingerprint));
  return { vault, createdFile: created ? file : null };
}

/** Rejects what a start would: a master key that is missing, or is not the one of the database's fingerprint. */
export function requireMasterKey(settings: Settings, dir: string, fingerprint: string): void {
  const file = masterKeyFile(settings, dir);
  if (!isNextKey(file, fingerprint)) requireKeyOf(file, fingerprint);
}

function requireKeyOf(file: string, fingerprint: string): void {
  if (!existsSync(file))
    throw new BadSetting(
      `There is no master key at ${file}, and this database was set up with one. Set KEYRACK_MASTER_KEY_FILE to that key's file.`,
    );
  if (readVault(file).fingerprint === fingerprint) return;
  // As after a restore of a backup from before a rotation.
  const kept = keptKeyFile(file, fingerprint);
  const right = existsSync(kept) ? kept : "the right one";
  throw new BadSetting(
    `The master key in ${file} is not the one this database was set up with. Set KEYRACK_MASTER_KEY_FILE to ${right}.`,
  );
}

type NextMasterKey = {
  vault: Vault;
  /** Replaces the current key. Returns the file that keeps the old one. */
  promote(): string;
};

const nextKeyFile = (file: string): string => `${file}.new`;
const keptKeyFile = (file: string, fingerprint: string): string => `${file}.${fingerprint.slice(0, 8)}`;

/** Creates a new master key next to the current one. It is durable before any value is sealed with it. */
export function createNextMasterKey(settings: Settings, dir: string): NextMasterKey {
  const file = masterKeyFile(settings, dir);
  const next = nextKeyFile(file);
  try {
    rmSync(next, { force: true }); // left by a rotation that was interrupted before its commit
    createFileDurably(next, newMasterKey());
  } catch (error) {
    const code = codeOf(error);
    throw new BadSetting(`A new key cannot be written beside ${file}: ${code}. Set KEYRACK_MASTER_KEY_FILE to a copy.`);
  }
  return { vault: readVault(next), promote: () => promote(file) };
}

/** Keeps the old key under its own name, because older backups need it. `file` always holds one complete key. */
function promote(file: string): string {
  const kept = keptKeyFile(file, readVault(file).fingerprint);
  writeFileAtomically(kept, readFileSync(file));
  renameSync(nextKeyFile(file), file);
  fsyncDir(dirname(file));
  return kept;
}

/**
 * Whether a rotation was interrupted after the database had committed to the new key: a start completes it. One that
 * was interrupted before may have left a file without a key, which is ignored.
 */
function isNextKey(file: string, fingerprint: string | undefined): boolean {
  if (!existsSync(file) || !existsSync(nextKeyFile(file))) return false;
  const next = decodeMasterKey(readPrivateFile(nextKeyFile(file)));
  return next !== null && createVault(next).fingerprint === fingerprint;
}
