// The tarball of one target: a folder with the binary, what installs it, and the documents.
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root, type Target } from "../sea/targets.ts";
import { packFolder } from "./archive.ts";
import { readDocument } from "./links.ts";

const DOCUMENTS = ["README.md", "CHANGELOG.md", "SECURITY.md"];

type TarballInput = {
  binary: string;
  target: Target;
  version: string;
  /** The folder that takes the tarball. */
  out: string;
  work: string;
  epoch: number;
  /** The path of THIRD_PARTY_NOTICES.txt. */
  notices: string;
  /** Names and texts of the further files. */
  installation: Record<string, string>;
};

export async function buildTarball(input: TarballInput): Promise<void> {
  const name = `keyrack-${input.version}-${input.target}`;
  const folder = join(input.work, name);
  mkdirSync(folder);
  copyFileSync(input.binary, join(folder, "keyrack"));
  for (const file of DOCUMENTS) writeFileSync(join(folder, file), readDocument(file, input.version));
  copyFileSync(join(root, "LICENSE"), join(folder, "LICENSE"));
  copyFileSync(input.notices, join(folder, "THIRD_PARTY_NOTICES.txt"));
  for (const [file, text] of Object.entries(input.installation)) writeFileSync(join(folder, file), text);
  chmodSync(join(folder, "install.sh"), 0o755);
  await packFolder(input.work, name, join(input.out, `${name}.tar.gz`), input.epoch);
}
