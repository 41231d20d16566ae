// The files and tests that docs/security.md names exist, and no line of its checklist is missing.
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const LINES = 29;
const at = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const page = readFileSync(at("docs/security.md"), "utf8");
const rows = [...page.matchAll(/^\| (\d+) \| (.*) \| (.*) \| (.*) \|$/gm)].map(
  ([, number, what = "", where = "", proof = ""]) => ({ number: Number(number), what, where, proof }),
);
const paths = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path);

describe("docs/security.md", () => {
  it("has every line of the checklist, once and in order", () => {
    expect(rows.map(({ number }) => number)).toEqual(Array.from({ length: LINES }, (_, i) => i + 1));
  });

  for (const { number, what, where, proof } of rows) {
    it(`line ${number} names files that exist, and tests that are in them`, () => {
      expect(paths(where).length).toBeGreaterThan(0);
      for (const path of paths(where)) expect(existsSync(at(path)), path).toBe(true);
      let file = "";
      let named = 0;
      for (const [, path, title] of proof.matchAll(/`([^`]+)`|"([^"]+)"/g)) {
        if (path) file = readFileSync(at(path), "utf8");
        else {
          named++;
          expect(file.includes(title ?? ""), `"${title}"`).toBe(true);
        }
      }
      // A line without a test says so.
      if (named === 0) expect(proof).toMatch(/^none/);
      if (proof === "none") expect(what).toContain("Not done");
    });
  }
});
