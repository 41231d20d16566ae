// Makes a release: the packages, the documents, and the lists that cover them.
import { execFileSync } from "node:child_process";
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ExitError } from "../../src/cli/ui/output.ts";
import { schemaVersion } from "../../src/store/schema/migrate.ts";
import { lockedSha512 } from "../inventory/lock.ts";
import { sbomText } from "../inventory/sbom.ts";
import { root, targets, type Target } from "../sea/targets.ts";
import { securityTxt } from "../security-txt.ts";
import { assertNothingUnreleased, releaseNotes, unreleasedNotes } from "../version/changelog.ts";
import { releasedInstallScript } from "./install-script.ts";
import { absoluteLinks } from "./links.ts";
import { writeManifest, writeSums } from "./manifest.ts";
import type { Options } from "./options.ts";
import { replaceFolder, type Fill } from "./output.ts";
import { buildPackages, type Built } from "./packages.ts";
import { assertTools } from "./required-tools.ts";
import { checkSignKey, readKeys, signSums } from "./sign.ts";
import { commitOf, epochOf, releaseOf, snapshotOf, type Source } from "./source.ts";
import { systemdUnit } from "./unit.ts";

export const readChangelog = (): string => readFileSync(join(root, CHANGELOG), "utf8");

const CHANGELOG = "CHANGELOG.md";
/** Where install.sh puts the binary for root. */
const INSTALLED_BINARY = "/usr/local/bin/keyrack";

export async function makeRelease(options: Options): Promise<void> {
  assertTools(options);
  if (!options.snapshot) assertNothingUnreleased(readChangelog());
  const identity = options.snapshot ? snapshotOf : releaseOf;
  const source = { ...identity(commitOf(root)), epoch: epochOf(root) };
  if (source.commit === null) console.error("the files differ from the last commit: this release names no commit");
  const installation = installationFiles(readKeys(options.keysFile));
  await finishRelease(options, async (folder, work) => {
    const built = await buildPackages({ options, source, folder, work, installation });
    for (const [name, text] of Object.entries(documents(options, source, built, installation)))
      writeFileSync(join(folder, name), text);
    chmodSync(join(folder, "install.sh"), 0o755);
    writeManifest(folder, manifest(source, built));
    writeSums(folder);
  });
}

/** Signs what `fill` made, if there is a key, and puts it in place. */
export async function finishRelease(options: Options, fill: Fill): Promise<void> {
  const { signKey, keysFile, out } = options;
  if (signKey) checkSignKey(signKey, keysFile);
  let last = "unsigned: --sign-key FILE signs SHA256SUMS";
  await replaceFolder(out, async (folder, work) => {
    await fill(folder, work);
    if (signKey) last = `signed by ${signSums(folder, signKey, keysFile)}`;
  });
  for (const name of readdirSync(out)) console.log(`${name}  ${statSync(join(out, name)).size} bytes`);
  console.log(last);
}

function installationFiles(keys: string): Record<string, string> {
  const script = readFileSync(join(root, "install.sh"), "utf8");
  return {
    "install.sh": releasedInstallScript(script, keys),
    "keyrack.service": systemdUnit(INSTALLED_BINARY),
  };
}

function documents(options: Options, source: Source, built: Built, installation: Record<string, string>) {
  const { version, epoch, release } = source;
  const contact = process.env.KEYRACK_SECURITY_CONTACT;
  const archives = (Object.keys(built.codeCaches) as Target[]).map((target): [string, string] => [
    target,
    lockedSha512(root, `node_modules/node-${target}`),
  ]);
  const notes = release ? releaseNotes(readChangelog(), version) : unreleasedNotes(readChangelog());
  const { components } = built;
  return {
    [`keyrack-${version}.cdx.json`]: sbomText({
      version,
      epoch,
      components,
      nodeArchives: Object.fromEntries(archives),
    }),
    "install.sh": installation["install.sh"] ?? "",
    "release-keys": readKeys(options.keysFile),
    "NOTES.md": absoluteLinks(notes, CHANGELOG, version),
    ...(contact ? { "security.txt": securityTxt(contact, epoch * 1000) } : {}),
  };
}

function manifest({ version, commit, epoch }: Source, { codeCaches }: Built) {
  const built = Object.entries(codeCaches) as [Target, boolean][];
  const versions = new Set(built.map(([target]) => binutilsVersion(targets[target].strip.name)));
  return {
    version,
    commit,
    source_date_epoch: epoch,
    node: process.versions.node,
    schema: schemaVersion(),
    binutils: built.length === 0 ? null : [...versions].join(", "),
    targets: Object.fromEntries(built.map(([target, codeCache]) => [target, { code_cache: codeCache }])),
  };
}

function binutilsVersion(strip: string): string {
  const version = /(\d[\d.]*)$/m.exec(execFileSync(strip, ["--version"]).toString())?.[1];
  if (version === undefined) throw new ExitError(`${strip} --version names no version`, 2);
  return version;
}
