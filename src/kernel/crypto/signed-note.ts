// Signed notes and checkpoints (c2sp.org/signed-note, c2sp.org/tlog-checkpoint). A checkpoint in text:
//
//   <origin>\n<size>\n<base64 root>\n  \n  — <name> <base64(key id (4) || Ed25519 signature (64))>\n   (further — lines)
//
// The signature covers the text before the empty line, with its final newline. Key id = SHA-256(name \n 0x01
// public)[0..4]; verifier key = <name>+<hex key id>+<base64(0x01 || public)>. Never trust a note that `openNote` has
// not accepted.

import { concatBytes, fromBase64, toBase64, toHex, utf8 } from "./bytes.ts";
import type { HashFunction } from "./merkle.ts";

type Signature = { name: string; keyId: Uint8Array; signature: Uint8Array };
export type VerifierKey = { name: string; keyId: Uint8Array; publicKey: Uint8Array };
export type Checkpoint = { origin: string; size: number; root: Uint8Array };

const ED25519 = 0x01;
const KEY_ID_BYTES = 4;
const SIGNATURES_MAX = 64;
const NAME = /^[^\s+]+$/;
const SIGNATURE_LINE = /^— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/;

export function formatCheckpoint(origin: string, size: number, root: Uint8Array): string {
  const text = `${origin}\n${size}\n${toBase64(root)}\n`;
  if (!parseCheckpoint(text))
    throw new RangeError("Not a checkpoint: one line of origin, a whole size, a 32-byte root.");
  return text;
}

/** Null unless origin, size and a 32-byte root are present. Extension lines are allowed and ignored. */
export function parseCheckpoint(text: string): Checkpoint | null {
  const lines = text.split("\n");
  if (lines.pop() !== "" || lines.length < 3 || lines.includes("")) return null;
  const [origin = "", digits = "", base64 = ""] = lines;
  const root = tryFromBase64(base64);
  if (!/^(0|[1-9][0-9]*)$/.test(digits) || !Number.isSafeInteger(Number(digits)) || root?.length !== 32) return null;
  return { origin, size: Number(digits), root };
}

export function computeKeyId(name: string, publicKey: Uint8Array, sha256: HashFunction): Uint8Array {
  if (!NAME.test(name)) throw new RangeError("A key name must not be empty or contain a space or a plus.");
  return sha256(concatBytes([utf8(`${name}\n`), Uint8Array.of(ED25519), publicKey])).slice(0, KEY_ID_BYTES);
}

export function formatVkey(name: string, publicKey: Uint8Array, sha256: HashFunction): string {
  const key = toBase64(concatBytes([Uint8Array.of(ED25519), publicKey]));
  return `${name}+${toHex(computeKeyId(name, publicKey, sha256))}+${key}`;
}

/** Null unless it is an Ed25519 verifier key whose key id is right. */
export function parseVkey(text: string, sha256: HashFunction): VerifierKey | null {
  const [, name = "", id = "", base64 = ""] = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/.exec(text) ?? [];
  const key = tryFromBase64(base64);
  if (!NAME.test(name) || key?.length !== 33 || key[0] !== ED25519) return null;
  const publicKey = key.slice(1);
  const expected = computeKeyId(name, publicKey, sha256);
  return toHex(expected) === id ? { name, keyId: expected, publicKey } : null;
}

export function formatNote(text: string, name: string, keyId: Uint8Array, signature: Uint8Array): string {
  const note = `${text}\n— ${name} ${toBase64(concatBytes([keyId, signature]))}\n`;
  if (parseNote(note)?.text !== text) throw new RangeError("Not a note: the text must end in a newline.");
  return note;
}

/** The notes of a file that several were appended to, with or without empty lines between them. */
export function splitNotes(text: string): string[] {
  return text.split(/(?<=^— .*\n)\n*(?!— |\n)/m).filter((note) => note !== "");
}

/** Parses a note without verifying it. Null unless it is well formed and has at least one signature line. */
export function parseNote(note: string): { text: string; signatures: Signature[] } | null {
  const split = note.lastIndexOf("\n\n");
  if (split < 0 || !note.endsWith("\n") || hasControls(note) || !note.isWellFormed()) return null;
  const lines = note.slice(split + 2, -1).split("\n");
  if (lines.length > SIGNATURES_MAX) return null;
  const signatures = lines.map(parseSignature).filter((line) => line !== null);
  return signatures.length === lines.length ? { text: note.slice(0, split + 1), signatures } : null;
}

/**
 * The text of a note signed by this key, else null. Lines of other keys are ignored, even under the same name; one bad
 * signature of this key invalidates the note.
 */
export function openNote(
  note: string,
  key: VerifierKey,
  verify: (publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array) => boolean,
): string | null {
  const parsed = parseNote(note);
  if (!parsed) return null;
  const ours = parsed.signatures.filter((line) => line.name === key.name && toHex(line.keyId) === toHex(key.keyId));
  const message = utf8(parsed.text);
  const good = ours.length > 0 && ours.every((line) => verify(key.publicKey, message, line.signature));
  return good ? parsed.text : null;
}

function parseSignature(line: string): Signature | null {
  const [, name = "", base64 = ""] = SIGNATURE_LINE.exec(line) ?? [];
  const bytes = tryFromBase64(base64);
  if (!bytes || bytes.length <= KEY_ID_BYTES) return null;
  return { name, keyId: bytes.slice(0, KEY_ID_BYTES), signature: bytes.slice(KEY_ID_BYTES) };
}

function hasControls(note: string): boolean {
  for (let i = 0; i < note.length; i++) if (note.charCodeAt(i) < 0x20 && note[i] !== "\n") return true;
  return false;
}

function tryFromBase64(base64: string): Uint8Array | null {
  try {
    return fromBase64(base64);
  } catch {
    return null;
  }
}
