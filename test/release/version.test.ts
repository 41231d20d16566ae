// One version everywhere, and the script that sets it.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { filesIn, readText, root } from "../../harness/repository.ts";
import { newestVersion } from "../../tools/version/changelog.ts";
import { PLACEHOLDER, versionsIn } from "../../tools/version/places.ts";
import { setVersion } from "../../tools/version/set.ts";

const COPIED = [
  "package.json",
  "package-lock.json",
  "src/platform/version.ts",
  "src/sdk/version.ts",
  "README.md",
  "test/golden/openapi.json",
  "examples/hono-app/package.json",
];
const CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n- News.\n\n## 0.1.0 - 2026-11-16\n\n- Olds.\n";
const MANIFEST = `image: ghcr.io/keyrack/keyrack:0.1.0
url: http://keyrack:4747
app.kubernetes.io/version: "0.1.0"
newTag: 0.1.0
proxy: caddy:2.10
`;

/** The files with a version, all 0.1.0, and a deployment file. */
function checkout() {
  const temp = tempDir();
  const at = (file: string): string => join(temp.dir, file);
  const write = (file: string, text: string): void => {
    mkdirSync(dirname(at(file)), { recursive: true });
    writeFileSync(at(file), text);
  };
  for (const file of COPIED) cpSync(join(root, file), at(file));
  const read = (file: string): string => readFileSync(at(file), "utf8");
  for (const { file, version } of versionsIn(temp.dir)) write(file, read(file).replaceAll(`"${version}"`, '"0.1.0"'));
  write("examples/hono-app/package.json", read("examples/hono-app/package.json").replace(/\^\d+\.\d+\.\d+/, "^0.1.0"));
  write("README.md", "VERSION=0.1.0\n");
  write("docs/sdk.md", "# The library\n");
  write("CHANGELOG.md", CHANGELOG);
  write("deploy/kubernetes/app.yaml", MANIFEST);
  return { dir: temp.dir, read, write, [Symbol.dispose]: () => temp[Symbol.dispose]() };
}

const distinct = (dir: string): string[] => [...new Set(versionsIn(dir).map(({ version }) => version))];

describe("the version", () => {
  it("is the same in every place and in the newest heading of the changelog", () => {
    const version = (JSON.parse(readText("package.json")) as { version: string }).version;
    const other = versionsIn(root).filter((place) => place.version !== version);
    // 0.1.0 has no packages that the README could install.
    expect(other).toEqual(version === "0.1.0" ? [{ file: "README.md", version: PLACEHOLDER }] : []);
    expect(newestVersion(readText("CHANGELOG.md"))).toBe(version);
  });

  for (const file of [...COPIED, "deploy/kubernetes/app.yaml"]) {
    it(`that differs in ${file} is found`, () => {
      using c = checkout();
      expect(distinct(c.dir)).toEqual(["0.1.0"]);
      c.write(file, c.read(file).replace("0.1.0", "0.1.7"));
      expect(versionsIn(c.dir).filter(({ version }) => version !== "0.1.0")).toEqual([{ file, version: "0.1.7" }]);
    });
  }

  it("is found where a deployment file says latest", () => {
    using c = checkout();
    c.write("deploy/kubernetes/app.yaml", "image: keyrack:latest\n");
    expect(distinct(c.dir)).toEqual(["0.1.0", "latest"]);
  });
});

it("is a placeholder in the documents, which version:set does not write", () => {
  const pages = filesIn("docs").filter((file) => file.endsWith(".md"));
  const found = pages.flatMap((file) => readText(file).match(/\bkeyrack[-_:]v?\d+\.\d+\.\d+/g) ?? []);
  expect(pages.length).toBeGreaterThan(20);
  expect(found).toEqual([]);
});

describe("version:set", () => {
  it("writes every place and gives the unreleased changes their heading under a new empty one", () => {
    using c = checkout();
    const changed = setVersion(c.dir, "0.2.0", "2026-12-01");
    expect(changed.toSorted()).toEqual([...COPIED, "CHANGELOG.md", "deploy/kubernetes/app.yaml"].toSorted());
    expect(distinct(c.dir)).toEqual(["0.2.0"]);
    expect(c.read("CHANGELOG.md")).toBe(
      CHANGELOG.replace("## Unreleased\n", "## Unreleased\n\n## 0.2.0 - 2026-12-01\n"),
    );
    expect(c.read("deploy/kubernetes/app.yaml")).toBe(MANIFEST.replaceAll("0.1.0", "0.2.0"));
    expect(JSON.parse(c.read("package-lock.json"))).toMatchObject({
      version: "0.2.0",
      packages: { "": { version: "0.2.0" } },
    });
  });

  it("replaces the placeholder of the README, and what the documents say until there is a release", () => {
    using c = checkout();
    const isAhead = readText("README.md").includes(`VERSION=${PLACEHOLDER}\n`);
    c.write("README.md", readText("README.md").replace(/^VERSION=.*$/m, `VERSION=${PLACEHOLDER}`));
    c.write("docs/sdk.md", readText("docs/sdk.md"));
    const ahead = /main branch|latest release|next (release|version)|after 0\.1\.0|until .* is released/i;
    for (const file of ["README.md", "docs/sdk.md"]) expect([file, ahead.test(c.read(file))]).toEqual([file, isAhead]);
    setVersion(c.dir, "0.2.0", "2026-12-01");
    for (const file of ["README.md", "docs/sdk.md"]) expect([file, ahead.test(c.read(file))]).toEqual([file, false]);
    expect(c.read("README.md")).toMatch(/^VERSION=0\.2\.0$/m);
    expect(c.read("README.md")).toMatch(/^\*\*From a release\.\*\* `install\.sh` verifies/m);
    expect(c.read("docs/sdk.md")).toMatch(/a file of each \[release\]\(releases\.md\)\.$/m);
  });

  it("refuses a patch release with a migration", () => {
    using c = checkout();
    c.write("facts.json", '{"schema": 6}');
    c.write("test/fixtures/.keep", "");
    execFileSync("tar", ["-czf", join(c.dir, "test/fixtures/release-0.1.0.tar.gz"), "-C", c.dir, "./facts.json"]);
    c.write("migrations/0006_leaks.sql", "");
    c.write("migrations/0007_more.sql", "");
    expect(() => setVersion(c.dir, "0.1.1", "2026-12-01")).toThrow("0.1.0 has schema 6, this is schema 7");
    expect(distinct(c.dir)).toEqual(["0.1.0"]);
    rmSync(join(c.dir, "migrations/0007_more.sql"));
    setVersion(c.dir, "0.1.1", "2026-12-01");
    expect(distinct(c.dir)).toEqual(["0.1.1"]);
  });

  for (const [why, version, changelog] of [
    ["is not higher", "0.1.0", CHANGELOG],
    ["is lower", "0.0.9", CHANGELOG],
    ["is not of the form X.Y.Z", "0.2", CHANGELOG],
    ["has a suffix", "0.2.0-rc.1", CHANGELOG],
    ["would have no notes", "0.2.0", CHANGELOG.replace("### Added\n- News.\n\n", "")],
  ] as const) {
    it(`refuses a version that ${why}, and changes nothing`, () => {
      using c = checkout();
      c.write("CHANGELOG.md", changelog);
      expect(() => setVersion(c.dir, version, "2026-12-01")).toThrow(expect.objectContaining({ exitCode: 2 }));
      expect(distinct(c.dir)).toEqual(["0.1.0"]);
      expect(c.read("CHANGELOG.md")).toBe(changelog);
    });
  }
});
