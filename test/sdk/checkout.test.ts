// `keyrack/sdk` from a checkout after `npm ci`, and from the package built from it.

import { execFile, execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodes } from "../../harness/sdk/nodes.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "keyrack-checkout-"));
const clone = join(folder, "clone");
const app = join(folder, "app");
const DOORS = ["express", "fastify", "hono", "h3", "node", "fetch"];

type Exports = Record<string, { import: Record<string, string>; require: Record<string, string> }>;
const exportsOf = (path: string): Exports =>
  (JSON.parse(readFileSync(join(path, "package.json"), "utf8")) as { exports: Exports }).exports;

beforeAll(() => {
  const left = new Set(["node_modules", "dist", ".git", "keyrack-data", "coverage"]);
  cpSync(root, clone, { recursive: true, filter: (path) => !left.has(basename(path)) });
  symlinkSync(join(root, "node_modules"), join(clone, "node_modules"));
  execFileSync("npm", ["run", "--silent", "prepare"], { cwd: clone, stdio: ["ignore", "ignore", "inherit"] });
  execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], { cwd: clone });
  mkdirSync(join(app, "node_modules"), { recursive: true });
  execFileSync("sh", ["-c", `tar -xzf ${folder}/*.tgz -C ${app} && mv ${app}/package ${app}/node_modules/keyrack`]);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const WANT = Object.fromEntries(["", ...DOORS.map((door) => `/${door}`)].map((door) => [door, true]));
const ESM = `const found = {};
for (const door of ${JSON.stringify(Object.keys(WANT))}) {
  const loaded = await import("keyrack/sdk" + door);
  found[door] = typeof (door ? loaded.protect : loaded.createKeyrack) === "function";
}
console.log(JSON.stringify(found));`;
const CJS = ESM.replace("await import(", "require(");

describe("keyrack/sdk", () => {
  for (const { path, version } of nodes) {
    for (const [where, cwd] of [
      ["a checkout after npm ci", clone],
      ["the package", app],
    ] as const) {
      it(`every entry point loads in ${where} on Node ${version}, by import and by require`, async () => {
        const esm = await run(path, ["--input-type=module", "-e", ESM], { cwd });
        const cjs = await run(path, ["--input-type=commonjs", "-e", CJS], { cwd });
        expect([JSON.parse(esm.stdout), JSON.parse(cjs.stdout)]).toEqual([WANT, WANT]);
        expect(esm.stderr + cjs.stderr).toBe("");
      });
    }
  }

  it("has the same entry points as @keyrack/sdk, with types for both module formats", () => {
    const own = exportsOf(clone);
    const alone = exportsOf(join(clone, "dist/sdk"));
    for (const [door, entry] of Object.entries(alone)) {
      if (door === "./package.json") continue;
      const moved = JSON.parse(JSON.stringify(entry).replaceAll('"./', '"./dist/sdk/')) as unknown;
      expect(own[`./sdk${door.slice(1)}`], door).toEqual(moved);
    }
    const targets = JSON.stringify(own).match(/\.\/dist\/sdk[^"]+/g) ?? [];
    expect(targets.length).toBe(28);
    expect(targets.filter((target) => !existsSync(join(app, "node_modules/keyrack", target)))).toEqual([]);
  });

  it("the package contains no source and no file of a data dir", async () => {
    const { stdout } = await run("find", ["node_modules/keyrack", "-type", "f"], { cwd: app });
    const outside = stdout.split("\n").filter((path) => !/^node_modules\/keyrack\/dist\/(sdk|web)\//.test(path));
    expect(outside.map((path) => basename(path)).toSorted()).toEqual([
      "",
      "LICENSE",
      "README.md",
      "keyrack",
      "package.json",
    ]);
  });
});
