// `keyrack/sdk` from a checkout after `npm ci`, and from the package built from it.

import { execFile, execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readText } from "../../harness/repository.ts";
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

const APP = `import fastify from "fastify";
import { Hono } from "hono";
import { createKeyrack } from "@keyrack/sdk";
import { idempotent, protect } from "@keyrack/sdk/fastify";
import { protect as protectHono } from "@keyrack/sdk/hono";

const keyrack = createKeyrack({ url: "", secretKey: "", projectId: "" });
const onRequest = protect(keyrack);
const handler = idempotent(keyrack, async (request) => ({ tenant: request.keyrack?.tenantId }));
fastify().post("/", { onRequest }, handler).get("/", { onRequest }, (request) => request.keyrack?.tenantId);
new Hono().use(protectHono(keyrack)).get("/", (c) => c.json({ tenant: c.get("keyrack")?.tenantId }));
`;

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

describe("@keyrack/sdk installed from a checkout as documented", () => {
  const vendor = join(folder, "vendor/app");
  const [, command = ""] = /`(npm install [^`]*PATH\/dist\/sdk) /.exec(readText("docs/sdk.md")) ?? [];

  it("is a copy whose types extend the app's own fastify and hono, in other versions than the checkout's", async () => {
    mkdirSync(vendor, { recursive: true });
    writeFileSync(join(vendor, "package.json"), '{ "private": true }');
    const args = [...command.replace("PATH", clone).split(" ").slice(1), "--offline", "--no-audit", "--no-fund"];
    execFileSync("npm", [...args, "--silent"], { cwd: vendor });
    const installed = realpathSync(join(vendor, "node_modules/@keyrack/sdk"));
    expect(installed.startsWith(realpathSync(vendor))).toBe(true);
    // What the frameworks need is found a folder above.
    symlinkSync(join(root, "node_modules"), join(folder, "vendor/node_modules"));
    for (const name of ["fastify", "hono"]) {
      const own = join(vendor, "node_modules", name);
      cpSync(join(root, "node_modules", name), own, { recursive: true });
      const manifest = JSON.parse(readFileSync(join(own, "package.json"), "utf8")) as object;
      writeFileSync(join(own, "package.json"), JSON.stringify({ ...manifest, version: "5.0.1" }));
    }
    writeFileSync(join(vendor, "app.mts"), APP);
    const options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2024", "--module", "node16"];
    const types = ["--types", "node", "--typeRoots", join(root, "node_modules/@types")];
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const done = run(process.execPath, [tsc, ...options, ...types, "app.mts"], { cwd: vendor });
    expect(await done.then(({ stdout }) => stdout).catch((error: { stdout: string }) => error.stdout)).toBe("");
  });

  it("so are the libraries of the example applications", () => {
    const flags = command.split(" ").filter((word) => word.startsWith("--"));
    for (const name of ["express-app", "fastify-idempotent-payments", "hono-app"])
      expect(readText(`examples/${name}/README.md`)).toContain(
        `npm install --no-save ${flags.join(" ")} ../../dist/sdk`,
      );
  });
});
