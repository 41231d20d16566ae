// Ed25519 keys that sign as `ssh-keygen -Y sign` does, without ssh-keygen: for releases made by tests, and for
// signatures that ssh-keygen would not make.
import { generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import { encodePublicKey, signedBytes } from "../../src/cli/commands/release/ssh-signature.ts";
import { IDENTITY, NAMESPACE } from "../../src/cli/commands/release/verify.ts";

export function field(bytes: Uint8Array | string): Buffer {
  const content = Buffer.from(bytes);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content.length);
  return Buffer.concat([length, content]);
}

export function armor(blob: Buffer): string {
  const lines = blob.toString("base64").match(/.{1,70}/g) ?? [];
  return ["-----BEGIN SSH SIGNATURE-----", ...lines, "-----END SSH SIGNATURE-----", ""].join("\n");
}

export class SshKey {
  readonly #private: KeyObject;
  /** Raw 32 bytes. */
  readonly publicKey: Buffer;

  constructor() {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    this.#private = privateKey;
    this.publicKey = publicKey.export({ format: "der", type: "spki" }).subarray(-32);
  }

  /** A line of an allowed_signers file. */
  get line(): string {
    return `${IDENTITY} namespaces="${NAMESPACE}" ssh-ed25519 ${encodePublicKey(this.publicKey).toString("base64")}\n`;
  }

  sign(message: Uint8Array, { namespace = NAMESPACE, algorithm = "sha512", reserved = "" } = {}): string {
    const signature = sign(null, signedBytes(message, Buffer.from(namespace), algorithm), this.#private);
    const version = Buffer.from([0, 0, 0, 1]);
    const parts = [encodePublicKey(this.publicKey), namespace, reserved, algorithm];
    const last = Buffer.concat([field("ssh-ed25519"), field(signature)]);
    return armor(Buffer.concat([Buffer.from("SSHSIG"), version, ...parts.map(field), field(last)]));
  }
}
