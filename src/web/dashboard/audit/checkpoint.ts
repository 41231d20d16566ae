// Reads a signed checkpoint of the audit log. The signature is checked where the browser has Ed25519, which it has only
// on encrypted connections and on this machine.
import { toHex, utf8 } from "../../../kernel/crypto/bytes.ts";
import { sha256 } from "../../../kernel/crypto/sha256.ts";
import {
  parseCheckpoint,
  parseNote,
  parseVkey,
  type Checkpoint,
  type VerifierKey,
} from "../../../kernel/crypto/signed-note.ts";

export type Opened = {
  /** Null for a note that is malformed or of another log. */
  checkpoint: Checkpoint | null;
  /** Null if the browser cannot check it. */
  signed: boolean | null;
};

async function isSigned(note: string, key: VerifierKey): Promise<boolean | null> {
  // The type claims that it always exists; on plain HTTP it does not.
  const subtle = crypto.subtle as SubtleCrypto | undefined;
  const parsed = parseNote(note);
  if (!parsed) return false;
  const ours = parsed.signatures.filter(({ name, keyId }) => name === key.name && toHex(keyId) === toHex(key.keyId));
  try {
    const imported = await subtle?.importKey("raw", Uint8Array.from(key.publicKey), "Ed25519", false, ["verify"]);
    if (!subtle || !imported) return null;
    const message = Uint8Array.from(utf8(parsed.text));
    const checks = ours.map(({ signature }) => subtle.verify("Ed25519", imported, Uint8Array.from(signature), message));
    return ours.length > 0 && (await Promise.all(checks)).every((valid) => valid);
  } catch {
    return null; // an older browser, without Ed25519
  }
}

export async function openCheckpoint(note: string, vkey: string, workspaceId: string): Promise<Opened> {
  const key = parseVkey(vkey, sha256);
  const parsed = parseNote(note);
  const checkpoint = parsed && parseCheckpoint(parsed.text);
  const isOurs = checkpoint?.origin === key?.name && checkpoint?.origin.endsWith(`/audit/${workspaceId}`);
  if (!key || !checkpoint || !isOurs) return { checkpoint: null, signed: false };
  return { checkpoint, signed: await isSigned(note, key) };
}
