// The data dir and the secrets in it: made on first start, never readable by others, never guessed anew.
import { randomBytes } from "node:crypto";
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { BadSetting, type Settings } from "../config/settings.ts";
import { createFileDurably, fsyncDir } from "../platform/fsync.ts";
import { otherCredentialKind } from "../domain/auth/credentials.ts";
import { mint } from "../domain/auth/new-credentials.ts";
import { createVault, type Vault } from "../domain/vault/vault.ts";
import { claimFact, readFact, writeFact, type Fact } from "../store/queries/deployment.ts";
import type { Store } from "../store/store.ts";
import { sha256Hex } from "../platform/crypto.ts";

export function openDataDir(settings: Settings): string {
  const dir = resolve(settings.data_dir);
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    accessSync(dir, constants.W_OK | constants.R_OK | constants.X_OK);
  } catch (error) {
    throw new BadSetting(`The data dir ${dir} cannot be used: ${(error as NodeJS.ErrnoException).code}.`);
  }
  tighten(dir, 0o700);
  // What an older umask or a careless copy left open. The two secrets are not mended but refused, see below.
  for (const file of ["keyrack.db", "keyrack.db-wal", "keyrack.db-shm", "keyrack.lock"])
    tighten(join(dir, file), 0o600);
  return dir;
}

function tighten(path: string, mode: number): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found && found.uid === process.getuid?.() && (found.mode & 0o777) !== mode) chmodSync(path, mode);
}

/** Secrets that others can read are not secrets: better not to start. */
function assertPrivate(file: string): void {
  if ((statSync(file).mode & 0o077) !== 0) {
    throw new BadSetting(`${file} is readable by others. Run: chmod 600 ${file}`);
  }
}

function readPrivate(file: string): string {
  try {
    assertPrivate(file);
    return readFileSync(file, "latin1");
  } catch (error) {
    if (error instanceof BadSetting) throw error;
    throw new BadSetting(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}.`);
  }
}

/** 32 raw bytes, or their hex or base64 text. */
function decodeMasterKey(text: string, file: string): Uint8Array {
  if (text.length === 32) return Buffer.from(text, "latin1");
  const trimmed = text.trim();
  if (/^[0-9a-f]{64}$/i.test(trimmed)) return Buffer.from(trimmed, "hex");
  const bytes = Buffer.from(trimmed, "base64");
  if (bytes.length === 32) return bytes;
  throw new BadSetting(`${file} does not hold a master key: 32 bytes, raw, hex or base64.`);
}

async function fact(store: Store, name: Fact): Promise<string | undefined> {
  return (await readFact.first(store.read, { name }))?.value;
}

async function claim(store: Store, name: Fact, value: string): Promise<string> {
  const known = await fact(store, name);
  if (known !== undefined) return known;
  await store.write({
    chains: [],
    work: async (tx) => ({ value: await claimFact.run(tx, { name, value }), entries: [] }),
  });
  return (await fact(store, name)) ?? value;
}

function masterKeyFile(settings: Settings, dir: string): string {
  return settings.master_key_file ? resolve(settings.master_key_file) : join(dir, "master.key");
}

const readVault = (file: string): Vault => createVault(decodeMasterKey(readPrivate(file), file));

const draftOf = (file: string): string => `${file}.new`;

export type Draft = {
  vault: Vault;
  /** Puts it in the old key's place; answers where the old one is kept. */
  promote(): string;
};

/** A new master key beside the one in force, on disk before anything is sealed under it. */
export function draftMasterKey(settings: Settings, dir: string): Draft {
  const file = masterKeyFile(settings, dir);
  try {
    rmSync(draftOf(file), { force: true }); // of an attempt that was cut short before the database knew it
    createFileDurably(draftOf(file), `${randomBytes(32).toString("hex")}\n`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new BadSetting(`A new key cannot be written beside ${file}: ${code}. Set KEYRACK_MASTER_KEY_FILE to a copy.`);
  }
  return { vault: readVault(draftOf(file)), promote: () => promote(file) };
}

/** The old key keeps a name of its own: backups made before need it. The file always holds one whole key. */
function promote(file: string): string {
  const kept = `${file}.${readVault(file).fingerprint.slice(0, 8)}`;
  if (!existsSync(kept)) linkSync(file, kept);
  renameSync(draftOf(file), file);
  fsyncDir(dirname(file));
  return kept;
}

/** A rotation that was cut short after the database had moved on to the new key is finished at the next start. */
function finishRotation(file: string, fingerprint: string | undefined): void {
  if (!existsSync(file) || !existsSync(draftOf(file))) return;
  if (readVault(draftOf(file)).fingerprint === fingerprint) promote(file);
}

/** The vault under the master key that lies here, if one does; nothing is made. */
export function findVault(settings: Settings, dir: string): Vault | null {
  const file = masterKeyFile(settings, dir);
  return existsSync(file) ? readVault(file) : null;
}

/** The vault under the deployment's master key. A key is made only for a database that has none yet (decision 192). */
export async function openVault(
  store: Store,
  settings: Settings,
  dir: string,
): Promise<{ vault: Vault; made: boolean }> {
  const file = masterKeyFile(settings, dir);
  const known = await fact(store, "master_key_fingerprint");
  finishRotation(file, known);
  const made = !existsSync(file);
  if (made) {
    if (known) {
      throw new BadSetting(
        `This database was set up with a master key that is not here. Set KEYRACK_MASTER_KEY_FILE to that key's file.`,
      );
    }
    createFileDurably(file, `${randomBytes(32).toString("hex")}\n`);
  }
  const vault = readVault(file);
  const fingerprint = await claim(store, "master_key_fingerprint", vault.fingerprint);
  if (fingerprint !== vault.fingerprint) {
    throw new BadSetting(
      `The master key in ${file} is not the one this database was set up with. Set KEYRACK_MASTER_KEY_FILE to the right one.`,
    );
  }
  return { vault, made };
}

export type Bootstrap = { hash: string | null; file: string | null; token: string | null };
const TOKEN_MIN_CHARS = 22; // 128 bits in base64url

/** The bootstrap token: configured, or in the data dir's file, or made at the first start (decision 174). */
export async function openBootstrap(store: Store, settings: Settings, dir: string): Promise<Bootstrap> {
  if (!settings.bootstrap) return { hash: null, file: null, token: null };
  const file = settings.bootstrap_token_file ? resolve(settings.bootstrap_token_file) : join(dir, "bootstrap.token");
  const configured =
    settings.bootstrap_token || (existsSync(file) || settings.bootstrap_token_file ? readPrivate(file).trim() : "");
  if (configured) {
    if (configured.length < TOKEN_MIN_CHARS) {
      throw new BadSetting(`The bootstrap token is too short: it needs at least ${TOKEN_MIN_CHARS} random characters.`);
    }
    const other = otherCredentialKind(configured);
    if (other) throw new BadSetting(`The bootstrap token must not look like another credential (${other}).`);
    const hash = sha256Hex(configured);
    if ((await fact(store, "bootstrap_token_hash")) !== hash) {
      await store.write({
        chains: [],
        work: async (tx) => ({
          value: await writeFact.run(tx, { name: "bootstrap_token_hash", value: hash }),
          entries: [],
        }),
      });
    }
    return { hash, file: settings.bootstrap_token ? null : file, token: configured };
  }
  const held = await fact(store, "bootstrap_token_hash");
  if (held) return { hash: held, file: null, token: null }; // another process holds it
  // The file first: killed in between, the next start finds it; the other way round nobody would ever know the token.
  const minted = mint("bootstrap");
  createFileDurably(file, `${minted.text}\n`);
  const hash = await claim(store, "bootstrap_token_hash", minted.stored.lookup_hash);
  if (hash === minted.stored.lookup_hash) return { hash, file, token: minted.text };
  rmSync(file);
  return { hash, file: null, token: null };
}
