// Secrets at rest. A record is sealed as: 1 byte version (1) | 32 bytes salt | 12 bytes nonce | ciphertext | 16 bytes tag,
// AES-256-GCM under HKDF-SHA-256(master, salt, table), AAD = version byte, table, 0x00, row id.
// Every record has a key of its own, so no nonce can meet another; moving a record to another row fails to open.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

const VERSION = 1;
const SALT = 32;
const NONCE = 12;
const TAG = 16;

function aad(table: string, id: string): Buffer {
  return Buffer.from(`${String.fromCharCode(VERSION)}${table}\0${id}`, "latin1");
}

function keyFor(master: Uint8Array, salt: Uint8Array, table: string): Buffer {
  return Buffer.from(hkdfSync("sha256", master, salt, table, 32));
}

export function seal(master: Uint8Array, table: string, id: string, plain: Uint8Array): Uint8Array {
  const salt = randomBytes(SALT);
  const nonce = randomBytes(NONCE);
  const cipher = createCipheriv("aes-256-gcm", keyFor(master, salt, table), nonce);
  cipher.setAAD(aad(table, id));
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([Buffer.of(VERSION), salt, nonce, body, cipher.getAuthTag()]);
}

export function open(master: Uint8Array, table: string, id: string, sealed: Uint8Array): Uint8Array {
  if (sealed[0] !== VERSION || sealed.length < 1 + SALT + NONCE + TAG)
    throw new Error(`a sealed record of ${table} is not readable`);
  const salt = sealed.subarray(1, 1 + SALT);
  const nonce = sealed.subarray(1 + SALT, 1 + SALT + NONCE);
  const decipher = createDecipheriv("aes-256-gcm", keyFor(master, salt, table), nonce);
  decipher.setAAD(aad(table, id));
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG));
  const body = sealed.subarray(1 + SALT + NONCE, sealed.length - TAG);
  return Buffer.concat([decipher.update(body), decipher.final()]);
}

/** The master key in use, and nothing else that could leak it. */
export interface Vault {
  seal(table: string, id: string, plain: Uint8Array): Uint8Array;
  open(table: string, id: string, sealed: Uint8Array): Uint8Array;
  /** A key of its own for another purpose (cursors, throttle keys), derived and never stored. */
  derive(purpose: string): Uint8Array;
  /** What the database keeps to recognise the master key (decision 192). */
  readonly fingerprint: string;
}

export function createVault(master: Uint8Array): Vault {
  if (master.length !== 32) throw new Error("the master key must have 32 bytes");
  const derive = (purpose: string): Uint8Array =>
    new Uint8Array(hkdfSync("sha256", master, "", `keyrack ${purpose}`, 32));
  return {
    seal: (table, id, plain) => seal(master, table, id, plain),
    open: (table, id, sealed) => open(master, table, id, sealed),
    derive,
    fingerprint: Buffer.from(derive("fingerprint")).toString("hex"),
  };
}
