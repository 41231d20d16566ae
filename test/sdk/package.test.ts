// The package @keyrack/sdk: built, packed, installed offline into an empty folder, and run on every available Node.

import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodes } from "../../harness/sdk/nodes.ts";
import { installSdk, packSdk } from "../../harness/sdk/package.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "keyrack-sdk-"));
const built = join(folder, "built");
const app = join(folder, "app");
const ENTRY_POINTS = ["express", "fastify", "hono", "h3", "node", "fetch"];
let tarball = "";

beforeAll(async () => {
  tarball = packSdk(folder);
  installSdk(tarball, app);
  const source = join(import.meta.dirname, "../../harness/sdk/installed");
  // Files for the compiler end in .txt here, because this repository's compiler would read them without the package.
  for (const name of readdirSync(source)) cpSync(join(source, name), join(app, name.replace(/\.txt$/, "")));
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the package", () => {
  it("has no dependency and no server code, and is under 100 kB", () => {
    const manifest = JSON.parse(readFileSync(join(built, "package.json"), "utf8")) as Record<string, unknown>;
    for (const kind of ["dependencies", "peerDependencies", "optionalDependencies", "scripts"])
      expect(manifest).not.toHaveProperty(kind);
    expect(readdirSync(join(app, "node_modules")).filter((name) => !name.startsWith("."))).toEqual(["@keyrack"]);
    expect(readdirSync(join(app, "node_modules/@keyrack"))).toEqual(["sdk"]);
    expect(statSync(tarball).size).toBeLessThan(100_000);
    for (const file of ["esm/index.js", "cjs/index.js"]) {
      expect(readFileSync(join(built, file), "utf8")).not.toMatch(/require\("(?!\.)|from "(?!\.)|kysely|sqlite/);
    }
  });

  it("has an entry point for every framework in both module formats, with types", () => {
    const { exports } = JSON.parse(readFileSync(join(built, "package.json"), "utf8")) as {
      exports: Record<string, object>;
    };
    expect(Object.keys(exports).toSorted()).toEqual(
      [".", "./package.json", ...ENTRY_POINTS.map((name) => `./${name}`)].toSorted(),
    );
    const targets = JSON.stringify(exports).match(/\.\/(esm|cjs)[^"]+/g) ?? [];
    expect(targets.length).toBe(28);
    expect(targets.filter((target) => !existsSync(join(built, target)))).toEqual([]);
  });

  for (const { path, version } of nodes) {
    it(`runs as installed on Node ${version}, as an ES module, as CommonJS, and as both at once`, async () => {
      await using plane = await FakeControlPlane.start();
      const { key } = plane.mint({ scopes: ["read"] });
      const env = {
        PATH: "",
        PLANE_URL: plane.url,
        SECRET_KEY: plane.secretKey,
        PROJECT_ID: plane.projectId,
        KEY: key,
      };
      const { stdout } = await run(path, ["--test", "--test-reporter=tap", "app.test.mjs", "app.test.cjs"], {
        cwd: app,
        env,
      });
      expect(stdout).toMatch(/# pass 4\b/);
      expect(stdout).toMatch(/# fail 0\b/);
      expect(plane.ingest.events.length).toBe(4);
    });
  }

  it("type-checks in a module and in CommonJS", async () => {
    const root = join(import.meta.dirname, "../..");
    const options = [
      "--noEmit",
      "--strict",
      "--module",
      "nodenext",
      "--target",
      "es2024",
      "--types",
      "node",
      "--typeRoots",
    ];
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    await run(process.execPath, [tsc, ...options, join(root, "node_modules/@types"), "typed.mts", "typed.cts"], {
      cwd: app,
    }).catch(({ stdout }: { stdout: string }) => expect(stdout).toBe(""));
  });
});
