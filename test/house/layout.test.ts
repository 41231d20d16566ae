// The shape of the repository: small folders, small files, and tests where a reader looks for them.
import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { filesIn, readText, root } from "../../harness/repository.ts";

const FILES_MAX = 20;
const LOOSE_MAX = 4;
const LINES_MAX = 300;
/** One file per noun, however many nouns there are. */
const UNLIMITED = ["src/store/queries"];
/** Folders of test/ that mirror nothing in src. */
const EXTRAS = ["browser", "deploy", "examples", "fixtures", "golden", "house", "prove", "release"];

const src = filesIn("src");
const counts = new Map<string, number>();
for (const file of src) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1);

function foldersIn(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .flatMap((entry) => [`${folder}/${entry.name}`, ...foldersIn(`${folder}/${entry.name}`)]);
}

describe("layout", () => {
  it(`has at most ${FILES_MAX} files in a folder of src`, () => {
    const large = [...counts].filter(([folder, count]) => count > FILES_MAX && !UNLIMITED.includes(folder));
    expect(large).toEqual([]);
  });

  it("is what docs/architecture.md shows: every folder down to the second level", () => {
    const [, tree = ""] = /## Source tree\n+```\n([^`]*)```/.exec(readText("docs/architecture.md")) ?? [];
    const shown = new Set(tree.match(/[\w-]+(?=\/)/g));
    const folders = ["src/api", "src/http", "src/kernel", "src/domain", "src/store", "src/server"].flatMap(foldersIn);
    expect(folders.filter((folder) => !shown.has(folder.split("/").at(-1) ?? ""))).toEqual([]);
  });

  it(`has at most ${LOOSE_MAX} files directly in src`, () => {
    expect(counts.get("src")).toBeLessThanOrEqual(LOOSE_MAX);
  });

  it(`has at most ${FILES_MAX} files in a folder of harness`, () => {
    const large = ["harness", ...foldersIn("harness")].filter(
      (folder) =>
        folder !== "harness/fixtures" && // one for each migration
        readdirSync(join(root, folder)).filter((name) => statSync(join(root, folder, name)).isFile()).length >
          FILES_MAX,
    );
    expect(large).toEqual([]);
  });

  it("has a folder of src, or a file directly in src, for every folder of test", () => {
    const mirrored = foldersIn("test").map((folder) => folder.slice("test/".length));
    const odd = mirrored.filter((folder) => {
      if (EXTRAS.includes(folder.split("/")[0] ?? "")) return false;
      return !existsSync(join(root, "src", folder)) && !existsSync(join(root, `src/${folder}.ts`));
    });
    expect(odd).toEqual([]);
    for (const extra of EXTRAS) expect(existsSync(join(root, "src", extra)), extra).toBe(false);
  });

  it(`has no test, harness, prove, bench or tools file over ${LINES_MAX} lines`, () => {
    const files = ["test", "harness", "prove", "bench", "tools"].flatMap((folder) => filesIn(folder, ".ts"));
    expect(files.filter((file) => readText(file).split("\n").length - 1 > LINES_MAX)).toEqual([]);
  });
});
