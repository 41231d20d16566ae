// Lists of keys in OpenSSH's allowed_signers format, as far as releases use it. A line that this file does not fully
// understand is an error: skipping an option such as valid-before would accept what ssh-keygen refuses.
import { ExitError } from "../../ui/output.ts";
import { BadSignature, decodePublicKey, type AllowedSigner } from "./ssh-signature.ts";

/** Principals, options if any, key type, key, comment. Quoted parts may contain spaces. */
const LINE = /^(\S+)(?:\s+((?:[^\s"]|"[^"]*")+))??\s+ssh-ed25519\s+([A-Za-z0-9+/=]+)(?:\s.*)?$/;
const NAMESPACES = /^namespaces="([^"]*)"$/i;

/** The keys that are listed for `identity`. `file` is for messages. */
export function parseAllowedSigners(text: string, file: string, identity: string): AllowedSigner[] {
  const signers: AllowedSigner[] = [];
  for (const [index, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) continue;
    const refuse = (reason: string): never => {
      throw new ExitError(`${file}, line ${index + 1}: ${reason}.`, 2);
    };
    const [, principals = "", options, key = ""] = LINE.exec(line) ?? refuse("not an Ed25519 key with its identity");
    const [, namespaces] =
      options === undefined ? [] : (NAMESPACES.exec(options) ?? refuse("only namespaces= is supported"));
    try {
      const signer = { key: decodePublicKey(key), namespaces: namespaces?.split(",") ?? null };
      if (principals.split(",").includes(identity)) signers.push(signer);
    } catch (error) {
      if (!(error instanceof BadSignature)) throw error;
      refuse("not an Ed25519 key");
    }
  }
  return signers;
}
