// The benchmark of fast paths edits their source; an edit that no longer applies would measure nothing.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { COSTS, SWITCHES } from "../../bench/fast-paths/switches.ts";

const read = (path: string): string => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");

describe("the switches of `npm run bench -- fast-paths` and `neighbours`", () => {
  for (const { name, edits } of [...SWITCHES, ...COSTS]) {
    it(`apply to the source: ${name}`, () => {
      for (const { file, find } of edits) expect(read(file).includes(find ?? ""), `${file}: ${find}`).toBe(true);
    });
  }
});
