// A small release for tests of verification and installation: the real layout, with a shell script as its binary.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SshKey } from "./ssh-key.ts";

type SmallRelease = { version?: string; binary?: string; key?: SshKey };

/** A program that answers `version` as the binary does. */
export const smallBinary = (version: string, schema = 1): string => `#!/bin/sh
case "$*" in
  version) echo ${version} ;;
  "version --json") echo '{"version":"${version}","schema":${schema}}' ;;
  *) exit 1 ;;
esac
`;

function writeTarball(dir: string, name: string, files: Record<string, string>): void {
  const folder = join(dir, name);
  mkdirSync(folder);
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text);
  chmodSync(join(folder, "keyrack"), 0o755);
  execFileSync("tar", ["-czf", join(dir, `${name}.tar.gz`), "-C", dir, name]);
  rmSync(folder, { recursive: true });
}

/** Writes SHA256SUMS over all other files, and its signature if there is a key. */
export function writeSums(dir: string, key?: SshKey): void {
  const names = readdirSync(dir).filter((name) => !name.startsWith("SHA256SUMS"));
  const sum = (name: string): string =>
    createHash("sha256")
      .update(readFileSync(join(dir, name)))
      .digest("hex");
  const text = names
    .toSorted()
    .map((name) => `${sum(name)}  ${name}\n`)
    .join("");
  writeFileSync(join(dir, "SHA256SUMS"), text);
  if (key) writeFileSync(join(dir, "SHA256SUMS.sig"), key.sign(Buffer.from(text)));
}

/** Fills a folder with a release for both architectures. */
export function writeSmallRelease(dir: string, { version = "1.2.3", binary, key }: SmallRelease = {}): void {
  mkdirSync(dir, { recursive: true });
  for (const arch of ["x64", "arm64"])
    writeTarball(dir, `keyrack-${version}-linux-${arch}`, {
      keyrack: binary ?? smallBinary(version),
      "keyrack.service": "[Service]\nExecStart=/usr/local/bin/keyrack serve\nStateDirectory=keyrack\n",
      README: arch,
    });
  writeFileSync(join(dir, "NOTES.md"), "Notes.\n");
  writeSums(dir, key);
}
