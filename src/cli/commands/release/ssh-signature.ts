// SSH signatures as `ssh-keygen -Y sign` makes them (OpenSSH's PROTOCOL.sshsig), read without ssh-keygen. Strict: only
// Ed25519, only the namespace and the keys asked for, only the canonical encoding, so that no changed bit is accepted.
import { hash } from "node:crypto";
import { verifyEd25519 } from "../../../platform/crypto.ts";

/** A key that may sign; `namespaces` is null when it may sign for any. */
export type AllowedSigner = { key: Buffer; namespaces: string[] | null };

/** The signature is not acceptable. The message completes "SHA256SUMS.sig: …". */
export class BadSignature extends Error {}

const ARMOR = /^-----BEGIN SSH SIGNATURE-----\r?\n([A-Za-z0-9+/=\r\n]+?)\r?\n-----END SSH SIGNATURE-----(?:\r?\n)?$/;
const MAGIC = Buffer.from("SSHSIG");
const VERSION = 1;
const KEY_TYPE = "ssh-ed25519";
const HASHES = ["sha256", "sha512"];

/** Reads SSH's length-prefixed fields. Throws past the end. */
class Fields {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  take(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new BadSignature("cut off");
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }

  number(): number {
    return this.take(4).readUInt32BE();
  }

  string(): Buffer {
    return this.take(this.number());
  }

  end(): void {
    if (this.#at !== this.#bytes.length) throw new BadSignature("data after the signature");
  }
}

/** Decodes base64, refusing every text but the one that encodes these bytes. */
function decodeBase64(text: string): Buffer {
  const bytes = Buffer.from(text, "base64");
  if (bytes.toString("base64") !== text) throw new BadSignature("not base64");
  return bytes;
}

/** The 32 or 64 bytes in `string type, string bytes`, the form of both keys and signatures. */
function ed25519Part(blob: Buffer, length: number): Buffer {
  const fields = new Fields(blob);
  if (fields.string().toString("latin1") !== KEY_TYPE) throw new BadSignature("not Ed25519");
  const part = fields.string();
  fields.end();
  if (part.length !== length) throw new BadSignature("not Ed25519");
  return part;
}

/** A public key as OpenSSH writes it in base64. */
export function decodePublicKey(base64: string): Buffer {
  return ed25519Part(decodeBase64(base64), 32);
}

const field = (bytes: Buffer): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
};

export function encodePublicKey(key: Buffer): Buffer {
  return Buffer.concat([field(Buffer.from(KEY_TYPE)), field(key)]);
}

/** As ssh-keygen -l prints it. */
export function fingerprint(key: Buffer): string {
  return `SHA256:${hash("sha256", encodePublicKey(key), "base64").replace(/=+$/, "")}`;
}

/**
 * What the key really signs: never the message itself, so that a signature for another use cannot pass for this one.
 */
export function signedBytes(message: Uint8Array, namespace: Buffer, algorithm: string): Buffer {
  const reserved = Buffer.alloc(0);
  const parts = [namespace, reserved, Buffer.from(algorithm), hash(algorithm, message, "buffer")];
  return Buffer.concat([MAGIC, ...parts.map(field)]);
}

type Signature = { key: Buffer; namespace: Buffer; algorithm: string; signature: Buffer };

function parseSignature(text: string): Signature {
  const [, body] = ARMOR.exec(text) ?? [];
  if (body === undefined) throw new BadSignature("not an SSH signature");
  const fields = new Fields(decodeBase64(body.replace(/\r?\n/g, "")));
  if (!fields.take(MAGIC.length).equals(MAGIC) || fields.number() !== VERSION)
    throw new BadSignature("not an SSH signature of version 1");
  const key = ed25519Part(fields.string(), 32);
  const namespace = fields.string();
  if (fields.string().length > 0) throw new BadSignature("its reserved field is not empty");
  const algorithm = fields.string().toString("latin1");
  if (!HASHES.includes(algorithm)) throw new BadSignature("its hash is neither sha256 nor sha512");
  const signature = ed25519Part(fields.string(), 64);
  fields.end();
  return { key, namespace, algorithm, signature };
}

/** Returns the signer that made this signature of `message`. Throws BadSignature, with the reason. */
export function verifySignature(
  message: Uint8Array,
  text: string,
  namespace: string,
  signers: readonly AllowedSigner[],
): AllowedSigner {
  const parsed = parseSignature(text);
  if (!parsed.namespace.equals(Buffer.from(namespace)))
    throw new BadSignature(`signed for "${parsed.namespace.toString("latin1")}" instead of "${namespace}"`);
  const signer = signers.find(
    ({ key, namespaces }) => key.equals(parsed.key) && (namespaces?.includes(namespace) ?? true),
  );
  if (!signer) throw new BadSignature(`signed by ${fingerprint(parsed.key)}, which is not a listed key`);
  if (!verifyEd25519(parsed.key, signedBytes(message, parsed.namespace, parsed.algorithm), parsed.signature))
    throw new BadSignature("not a signature of this SHA256SUMS");
  return signer;
}
