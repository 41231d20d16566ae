// Signs SHA256SUMS with the maintainer's own key, by ssh-keygen: it also asks for a passphrase and uses keys of an
// agent. Every new signature is verified as a user will do it before it is written.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllowedSigners } from "../../src/cli/commands/release/allowed-signers.ts";
import { fingerprint, verifySignature } from "../../src/cli/commands/release/ssh-signature.ts";
import { IDENTITY, NAMESPACE, SIGNATURE, SUMS } from "../../src/cli/commands/release/verify.ts";
import { ExitError, fileError } from "../../src/cli/ui/output.ts";

function signBytes(bytes: Uint8Array, signKeyFile: string): string {
  const args = ["-Y", "sign", "-q", "-f", signKeyFile, "-n", NAMESPACE];
  try {
    return execFileSync("ssh-keygen", args, { input: bytes, encoding: "utf8", stdio: ["pipe", "pipe", "pipe"] });
  } catch (error) {
    const { code, stderr } = error as NodeJS.ErrnoException & { stderr?: string };
    if (code === "ENOENT") throw new ExitError("ssh-keygen is not installed: apt-get install openssh-client", 2);
    throw new ExitError(`ssh-keygen cannot sign with ${signKeyFile}: ${stderr?.trim().split("\n").at(-1)}`, 2);
  }
}

/** The text of a list of keys. Throws unless all of it can be used. */
export function readKeys(keysFile: string): string {
  let text: string;
  try {
    text = readFileSync(keysFile, "utf8");
  } catch (error) {
    throw fileError("read", keysFile, error);
  }
  parseAllowedSigners(text, keysFile, IDENTITY);
  return text;
}

function signAndVerify(bytes: Uint8Array, signKeyFile: string, keysFile: string): { text: string; signer: string } {
  const listed = parseAllowedSigners(readKeys(keysFile), keysFile, IDENTITY);
  const text = signBytes(bytes, signKeyFile);
  try {
    return { text, signer: fingerprint(verifySignature(bytes, text, NAMESPACE, listed).key) };
  } catch (error) {
    throw new ExitError(`${signKeyFile} cannot sign a release: ${(error as Error).message} in ${keysFile}.`, 2);
  }
}

/** Throws unless the key can sign and is listed: for the start of a release, before anything is built. */
export function checkSignKey(signKeyFile: string, keysFile: string): void {
  signAndVerify(Buffer.alloc(0), signKeyFile, keysFile);
}

/**
 * Writes SHA256SUMS.sig beside the sums in `out` and returns the key's fingerprint. Refuses a key that is not listed.
 */
export function signSums(out: string, signKeyFile: string, keysFile: string): string {
  const { text, signer } = signAndVerify(readFileSync(join(out, SUMS)), signKeyFile, keysFile);
  writeFileSync(join(out, SIGNATURE), text);
  return signer;
}
