// Every test file runs in exactly one project of vitest.config.ts, those of the API also on PostgreSQL, and every project
// in what a change must pass.
import { matchesGlob } from "node:path";
import { describe, expect, it } from "vitest";
import { filesIn, readJson, readText } from "../../harness/repository.ts";
import config from "../../vitest.config.ts";

const self = "test/house/projects.test.ts";

type Project = { name: string; include: string[]; exclude?: string[] };

const projects = (config.test?.projects ?? []).map((project) => (project as { test: Project }).test);
const { scripts } = readJson("package.json") as { scripts: Record<string, string> };

/** The names of the projects that an npm script runs. */
const namedBy = (script: string): string[] =>
  [...(scripts[script] ?? "").matchAll(/--project (\w+)/g)].map(([, name = ""]) => name);

describe("the projects of the test suite", () => {
  it("have every test file in exactly one, and in postgres too exactly those with the databases of the API", () => {
    const matches = (file: string, globs: readonly string[]): boolean => globs.some((glob) => matchesGlob(file, glob));
    const wrong = filesIn("test", ".test.ts").flatMap((file) => {
      const found = projects
        .filter(({ include, exclude = [] }) => matches(file, include) && !matches(file, exclude))
        .map(({ name }) => name);
      const once = found.filter((name) => name !== "postgres");
      const isOnPostgres = found.includes("postgres");
      const isComplete = isOnPostgres === (file !== self && /\bapiBackends\b/.test(readText(file)));
      return once.length === 1 && isComplete ? [] : [`${file}: ${found.join(" and ") || "none"}`];
    });
    expect(wrong).toEqual([]);
  });

  it("are each run by npm test or npm run test:long, and both by .ci/run and .ci/nightly", () => {
    const names = projects.map(({ name }) => name);
    expect([...namedBy("test"), ...namedBy("test:long")].toSorted()).toEqual(names.toSorted());
    for (const script of [".ci/run", ".ci/nightly"])
      for (const command of ["npm test", "npm run test:long"])
        expect(readText(script), script).toMatch(new RegExp(`^(step )?${command}$`, "m"));
  });
});
