// Secrets at rest. A record is sealed as: 1 byte version (1) | 32 bytes salt | 12 bytes nonce | ciphertext | 16 bytes
// tag, AES-256-GCM under HKDF-SHA-256(master, salt, table), AAD = version byte, table, 0x00, row id.
// Each record has its own salt and therefore its own key, so a nonce is never reused under one key. The AAD binds a
// record to its row: moved to another row or table, it fails to open. See docs/design/0015-secrets-at-rest.md.
import { randomBytes } from "node:crypto";
import { decrypt, deriveKey, encrypt, OVERHEAD_BYTES } from "./aead.ts";

const VERSION = 1;
const SALT_BYTES = 32;

function aad(table: string, id: string): Buffer {
  return Buffer.from(`${String.fromCharCode(VERSION)}${table}\0${id}`, "latin1");
}

export function seal(master: Uint8Array, table: string, id: string, plain: Uint8Array): Uint8Array {
  const salt = randomBytes(SALT_BYTES);
  const sealed = encrypt(deriveKey(master, salt, table), plain, aad(table, id));
  return Buffer.concat([Buffer.of(VERSION), salt, sealed]);
}

export function open(master: Uint8Array, table: string, id: string, record: Uint8Array): Uint8Array {
  if (record[0] !== VERSION || record.length < 1 + SALT_BYTES + OVERHEAD_BYTES)
    throw new Error(`a sealed record of ${table} is not readable`);
  const salt = record.subarray(1, 1 + SALT_BYTES);
  return decrypt(deriveKey(master, salt, table), record.subarray(1 + SALT_BYTES), aad(table, id));
}

/** Uses the master key without exposing it. */
export interface Vault {
  seal(table: string, id: string, plain: Uint8Array): Uint8Array;
  open(table: string, id: string, record: Uint8Array): Uint8Array;
  /** A separate key for another purpose (cursors, throttle keys), derived and never stored. */
  derive(purpose: string): Uint8Array;
  /** Stored in the database to recognise its master key, which cannot be derived from it. */
  readonly fingerprint: string;
}

export function createVault(master: Uint8Array): Vault {
  if (master.length !== 32) throw new Error("the master key must have 32 bytes");
  const derive = (purpose: string): Uint8Array => new Uint8Array(deriveKey(master, "", `keyrack ${purpose}`));
  return {
    seal: (table, id, plain) => seal(master, table, id, plain),
    open: (table, id, record) => open(master, table, id, record),
    derive,
    fingerprint: Buffer.from(derive("fingerprint")).toString("hex"),
  };
}
