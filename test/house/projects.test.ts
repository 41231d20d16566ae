// Every test file runs in exactly one project of vitest.config.ts, some again on PostgreSQL, and every project in what a
// change must pass.
import { matchesGlob } from "node:path";
import { describe, expect, it } from "vitest";
import { filesIn, readJson, readText } from "../../harness/repository.ts";
import config from "../../vitest.config.ts";

type Project = { name: string; include: string[]; exclude?: string[] };

const projects = (config.test?.projects ?? []).map((project) => (project as { test: Project }).test);
const { scripts } = readJson("package.json") as { scripts: Record<string, string> };

/** The names of the projects that an npm script runs. */
const namedBy = (script: string): string[] =>
  [...(scripts[script] ?? "").matchAll(/--project (\w+)/g)].map(([, name = ""]) => name);

describe("the projects of the test suite", () => {
  it("have every test file in exactly one, beside postgres, which runs many again", () => {
    const matches = (file: string, globs: readonly string[]): boolean => globs.some((glob) => matchesGlob(file, glob));
    const found = (file: string): string[] =>
      projects
        .filter(({ include, exclude = [] }) => matches(file, include) && !matches(file, exclude))
        .map(({ name }) => name);
    const files = filesIn("test", ".test.ts");
    expect(files.filter((file) => found(file).filter((name) => name !== "postgres").length !== 1)).toEqual([]);
    expect(files.filter((file) => found(file).includes("postgres")).length).toBeGreaterThan(100);
  });

  it("have no name in the list of long tests that no file has", () => {
    const files = filesIn("test", ".test.ts");
    const { include } = projects.find(({ name }) => name === "long") as Project;
    const each = include.flatMap((glob) => {
      const [, before = "", names, after = ""] = /^(.*)\{(.*)\}(.*)$/.exec(glob) ?? [];
      return names === undefined ? [glob] : names.split(",").map((name) => before + name + after);
    });
    expect(each.filter((glob) => !files.some((file) => matchesGlob(file, glob)))).toEqual([]);
  });

  it("are each run by npm test or npm run test:long, and both by .ci/run and .ci/nightly", () => {
    const names = projects.map(({ name }) => name);
    expect([...namedBy("test"), ...namedBy("test:long")].toSorted()).toEqual(names.toSorted());
    for (const script of [".ci/run", ".ci/nightly"])
      for (const command of ["npm test", "npm run test:long"])
        expect(readText(script), script).toMatch(new RegExp(`^(step )?${command}$`, "m"));
  });
});
