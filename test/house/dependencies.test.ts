// docs/dependencies.md explains every package that Keyrack runs with, and package-lock.json fixes what is installed.
import { describe, expect, it } from "vitest";
import { readJson, readText } from "../../harness/repository.ts";

type Manifest = { dependencies: Record<string, string>; license?: string };
type Locked = { version?: string; integrity?: string; resolved?: string; link?: boolean };

const { dependencies } = readJson("package.json") as Manifest;

/** The cells of every row, without the heading. */
const rows = readText("docs/dependencies.md")
  .split("\n")
  .filter((line) => line.startsWith("| `"))
  .map((line) =>
    line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim()),
  );

describe("docs/dependencies.md", () => {
  it("has a row for every production dependency, and no other", () => {
    expect(rows.map(([name]) => name)).toEqual(Object.keys(dependencies).map((name) => `\`${name}\``));
  });

  it("says of each what it does, why it is not our own code, and what would replace it", () => {
    expect(rows.filter((cells) => cells.length !== 5 || cells.some((cell) => cell === ""))).toEqual([]);
  });

  it("names the licence that the package declares", () => {
    const declared = Object.keys(dependencies).map(
      (name) => (readJson(`node_modules/${name}/package.json`) as Manifest).license,
    );
    expect(rows.map((cells) => cells[2])).toEqual(declared);
  });
});

/** What is wrong with the entries of a lock file. The folders in tools/ are our own. */
function unsafeEntries(packages: Record<string, Locked>): string[] {
  return Object.entries(packages).flatMap(([path, { integrity, resolved = "", link }]) => {
    if (path === "" || path.startsWith("tools/")) return [];
    if (link) return resolved.startsWith("tools/") ? [] : [`${path} is a link to ${resolved}`];
    if (resolved !== "" && !resolved.startsWith("https://")) return [`${path} comes from ${resolved}`];
    return integrity?.startsWith("sha512-") ? [] : [`${path} has no sha512 checksum`];
  });
}

describe("package-lock.json", () => {
  const { packages } = readJson("package-lock.json") as { packages: Record<string, Locked> };

  it("has a SHA-512 for every package, and none from git or a folder outside tools/", () => {
    expect(Object.keys(packages).length).toBeGreaterThan(100);
    expect(unsafeEntries(packages)).toEqual([]);
  });

  it.each<[string, Locked]>([
    ["no checksum", { version: "1.0.0" }],
    ["a weak checksum", { version: "1.0.0", integrity: "sha1-abc" }],
    ["a git source", { resolved: "git+ssh://git@example.com/a.git", integrity: "sha512-abc" }],
    ["a file source", { resolved: "file:../a.tgz", integrity: "sha512-abc" }],
    ["a linked folder", { resolved: "../a", link: true }],
  ])("would be refused with %s", (_why, entry) => {
    expect(unsafeEntries({ "node_modules/a": entry })).toHaveLength(1);
  });
});
