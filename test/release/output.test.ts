// The folder of a release: complete or absent, and nothing else is ever removed. The comparison that --check makes.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { firstDifference } from "../../tools/release/compare.ts";
import { writeManifest, writeSums } from "../../tools/release/manifest.ts";
import { replaceFolder } from "../../tools/release/output.ts";

const facts = {
  version: "1.2.3",
  commit: null,
  source_date_epoch: 0,
  node: "24.0.0",
  schema: 6,
  binutils: null,
  targets: {},
};

/** Fills a folder as a release does. */
const fill =
  (text: string) =>
  async (folder: string): Promise<void> => {
    writeFileSync(join(folder, "NOTES.md"), text);
    writeManifest(folder, facts);
    writeSums(folder);
  };

describe("the folder of a release", () => {
  it("is made with its parents, replaces an earlier release, and leaves nothing beside it", async () => {
    using temp = tempDir();
    const out = join(temp.dir, "dist/release");
    await replaceFolder(out, fill("one"));
    await replaceFolder(out, fill("two"));
    expect(readFileSync(join(out, "NOTES.md"), "utf8")).toBe("two");
    expect(readdirSync(out)).toEqual(["NOTES.md", "RELEASE.json", "SHA256SUMS"]);
    expect(readdirSync(join(temp.dir, "dist"))).toEqual(["release"]);
  });

  it("keeps the earlier release if making the new one fails", async () => {
    using temp = tempDir();
    const out = join(temp.dir, "release");
    await replaceFolder(out, fill("one"));
    const failing = async (folder: string): Promise<void> => {
      writeFileSync(join(folder, "NOTES.md"), "two");
      throw new Error("disk full");
    };
    await expect(replaceFolder(out, failing)).rejects.toThrow("disk full");
    expect(readFileSync(join(out, "NOTES.md"), "utf8")).toBe("one");
    expect(readdirSync(temp.dir)).toEqual(["release"]);
  });

  it("is refused with the name of a file that no release made, which stays", async () => {
    using temp = tempDir();
    const out = join(temp.dir, "release");
    await replaceFolder(out, fill("one"));
    writeFileSync(join(out, "thesis.txt"), "mine");
    const refusal = { exitCode: 2, message: expect.stringContaining("contains thesis.txt") as string };
    await expect(replaceFolder(out, fill("two"))).rejects.toMatchObject(refusal);
    expect(readdirSync(out)).toContain("thesis.txt");
    expect(readFileSync(join(out, "NOTES.md"), "utf8")).toBe("one");
  });

  it("may be an empty folder, but not a folder or file of another kind", async () => {
    using temp = tempDir();
    mkdirSync(join(temp.dir, "empty"));
    await replaceFolder(join(temp.dir, "empty"), fill("one"));
    expect(readdirSync(join(temp.dir, "empty")).length).toBe(3);
    mkdirSync(join(temp.dir, "photos/2026"), { recursive: true });
    await expect(replaceFolder(join(temp.dir, "photos"), fill("two"))).rejects.toMatchObject({ exitCode: 2 });
    await expect(replaceFolder(join(temp.dir, "empty/NOTES.md"), fill("two"))).rejects.toMatchObject({ exitCode: 2 });
  });
});

describe("the lists of a release", () => {
  it("name every file with its size and hash: RELEASE.json the contents, SHA256SUMS also RELEASE.json", async () => {
    using temp = tempDir();
    await fill("one")(temp.dir);
    const sha256 = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    const manifest = JSON.parse(readFileSync(join(temp.dir, "RELEASE.json"), "utf8")) as unknown;
    expect(manifest).toEqual({ ...facts, files: [{ name: "NOTES.md", size: 3, sha256 }] });
    const sums = readFileSync(join(temp.dir, "SHA256SUMS"), "utf8");
    expect(sums).toMatch(new RegExp(`^${sha256}  NOTES.md\n[0-9a-f]{64}  RELEASE.json\n$`));
  });
});

describe("the comparison of two builds", () => {
  const pair = () => {
    const temp = tempDir();
    const folders = ["a", "b"].map((name) => join(temp.dir, name));
    for (const folder of folders) {
      mkdirSync(folder);
      writeFileSync(join(folder, "one"), "same");
      writeFileSync(join(folder, "two"), "0123456789");
    }
    const [a = "", b = ""] = folders;
    return { a, b, [Symbol.dispose]: () => temp[Symbol.dispose]() };
  };

  it("finds nothing in equal folders", () => {
    using p = pair();
    expect(firstDifference(p.a, p.b)).toBeNull();
  });

  it("names the file and the offset of the first byte that differs", () => {
    using p = pair();
    writeFileSync(join(p.b, "two"), "0123x567x9");
    expect(firstDifference(p.a, p.b)).toBe("two differs at offset 4");
  });

  it("names the offset where the shorter file ends, whichever it is", () => {
    using p = pair();
    writeFileSync(join(p.b, "two"), "01234567890");
    expect(firstDifference(p.a, p.b)).toBe("two differs at offset 10");
    expect(firstDifference(p.b, p.a)).toBe("two differs at offset 10");
  });

  it("names a file that only one build made", () => {
    using p = pair();
    writeFileSync(join(p.b, "onf"), "");
    expect(firstDifference(p.a, p.b)).toBe("onf was made only once");
  });
});
