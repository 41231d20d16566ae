// The mutation tester names sources and tests by path: each must exist, or an area is silently left out.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { filesIn, readText, root } from "../../harness/repository.ts";
import { AREAS, sourcesOf } from "../../tools/mutation/areas.ts";

describe("the areas of npm run mutate", () => {
  it("name sources that exist, each once", () => {
    const sources = AREAS.flatMap(sourcesOf);
    expect(sources.filter((file) => !existsSync(join(root, file)))).toEqual([]);
    expect(sources.filter((file, i) => sources.indexOf(file) !== i)).toEqual([]);
  });

  it("name tests that exist", () => {
    const files = filesIn("test", ".test.ts");
    const starts = AREAS.flatMap(({ tests }) => tests);
    expect(starts.filter((start) => !files.some((file) => file.startsWith(`test/${start}`)))).toEqual([]);
  });

  it("are those of the survivors that docs/mutation.md lists", () => {
    const sources = AREAS.flatMap(sourcesOf);
    const listed = [...readText("docs/mutation.md").matchAll(/^\| (src\/\S+) /gm)].map(([, file = ""]) => file);
    expect(listed.filter((file) => !sources.includes(file))).toEqual([]);
  });
});
