// Documents outside the repository: in packages, on npm, and as the text of a release.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { root } from "../../harness/repository.ts";
import { buildSdk } from "../../tools/build-sdk.ts";
import { buildDeb } from "../../tools/release/deb.ts";
import { absoluteLinks, readDocument } from "../../tools/release/links.ts";
import { buildTarball } from "../../tools/release/tarball.ts";

const VERSION = "1.2.3";
const OURS = `https://github.com/keyrack/keyrack/`;

/** Links except those within a page, and what our own lead to in the repository. */
function linksIn(text: string): { relative: string[]; missing: string[] } {
  const prose = text.replaceAll(/^```[\s\S]*?^```/gm, "").replaceAll(/`[^`\n]*`/g, "");
  const all = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  const own = all.filter((target) => target.startsWith(OURS)).map((target) => target.slice(OURS.length));
  const paths = own.flatMap((target) => /^(?:blob|raw)\/v1\.2\.3\/([^#]*)/.exec(target)?.[1] ?? []);
  return {
    relative: all.filter((target) => !/^(?:#|https?:|mailto:)/.test(target)),
    missing: paths.filter((path) => !existsSync(join(root, path))),
  };
}

it("leads to the tag of a release, to the commit of a snapshot, and for pictures to their bytes", () => {
  const text = "[a](keys.md#b) ![c](images/d.png) [e](../LICENSE) [f](#g) [h](https://i.example) `[j](k)`\n";
  const links = (version: string) => absoluteLinks(text, "docs/sdk.md", version);
  expect(links(VERSION)).toBe(
    `[a](${OURS}blob/v1.2.3/docs/keys.md#b) ![c](${OURS}raw/v1.2.3/docs/images/d.png) [e](${OURS}blob/v1.2.3/LICENSE) ` +
      "[f](#g) [h](https://i.example) `[j](k)`\n",
  );
  expect(links("1.2.3-dev.0123456789ab")).toContain(`(${OURS}blob/0123456789ab/docs/keys.md#b)`);
  expect(links("1.2.3-dev.modified")).toContain(`(${OURS}blob/main/docs/keys.md#b)`);
  const code = "```ts\nlist[0](first)\n```\n";
  expect(absoluteLinks(code, "README.md", VERSION)).toBe(code);
});

it("leaves no relative link in the library's README, the tarball, the Debian package and the notes", async () => {
  using temp = tempDir();
  const at = (...parts: string[]): string => join(temp.dir, ...parts);
  for (const folder of ["work", "out", "tar", "deb"]) mkdirSync(at(folder));
  for (const file of ["keyrack", "notices"]) writeFileSync(at(file), "");
  const common = { binary: at("keyrack"), target: "linux-x64", version: VERSION, epoch: 0 } as const;
  const installation = { "install.sh": "", "keyrack.service": "" };
  await buildTarball({ ...common, out: at("out"), work: at("work"), notices: at("notices"), installation });
  await buildDeb({ ...common, out: at("out/keyrack.deb"), notices: "" });
  await buildSdk(at("sdk"), VERSION);
  execFileSync("tar", ["-xzf", at("out/keyrack-1.2.3-linux-x64.tar.gz"), "-C", at("tar"), "--strip-components=1"]);
  execFileSync("dpkg-deb", ["--extract", at("out/keyrack.deb"), at("deb")]);
  execFileSync("gunzip", [at("deb/usr/share/doc/keyrack/changelog.gz")]);
  const documents = [
    ...["README.md", "CHANGELOG.md", "SECURITY.md"].map((name) => at("tar", name)),
    ...["README.md", "changelog"].map((name) => at("deb/usr/share/doc/keyrack", name)),
    at("sdk/README.md"),
  ].map((file) => readFileSync(file, "utf8"));
  const notes = readDocument("CHANGELOG.md", VERSION);
  for (const text of [...documents, notes]) expect(linksIn(text)).toEqual({ relative: [], missing: [] });
});
