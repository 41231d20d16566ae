// The package @keyrack/sdk as a release has it: installed offline into an empty folder, and run on every available
// Node.

import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { publint } from "publint";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { IS_NIGHT } from "../../harness/rounds.ts";
import { nodes } from "../../harness/sdk/nodes.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { ENTRY_POINTS, makeTypedApp, typedSources, typeErrors } from "../../harness/sdk/typed-app.ts";

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "keyrack-sdk-"));
const root = join(import.meta.dirname, "../..");
let [app, tarball, built] = ["", "", ""];

/** Name and text of every type file. */
function declarations(): [string, string][] {
  const folder = join(built, "esm/types");
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".d.ts"));
  return files.map((name) => [name, readFileSync(join(folder, name), "utf8")]);
}

beforeAll(() => {
  ({ app, tarball, built } = makeTypedApp(folder));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const manifest = () => JSON.parse(readFileSync(join(built, "package.json"), "utf8")) as Record<string, unknown>;

describe("the package", () => {
  it("has exactly its manifest, README, LICENSE and both formats, without source maps or paths of this machine", () => {
    expect(readdirSync(built).toSorted()).toEqual(["LICENSE", "README.md", "cjs", "esm", "package.json"]);
    const files = readdirSync(built, { recursive: true, encoding: "utf8" });
    expect(files.filter((name) => name.endsWith(".map"))).toEqual([]);
    const texts = files
      .filter((name) => /\.(js|ts|json)$/.test(name))
      .map((name) => readFileSync(join(built, name), "utf8"));
    expect(texts.some((text) => text.includes(root) || text.includes("sourceMappingURL"))).toBe(false);
    expect(statSync(tarball).size).toBeLessThan(130_000);
  });

  it("has no dependency, no script and no server code", () => {
    for (const kind of ["dependencies", "optionalDependencies", "scripts"]) expect(manifest()).not.toHaveProperty(kind);
    expect(readdirSync(join(app, "node_modules")).filter((name) => !name.startsWith("."))).toEqual(["@keyrack"]);
    expect(readdirSync(join(app, "node_modules/@keyrack"))).toEqual(["sdk"]);
    for (const file of ["esm/index.js", "cjs/index.js"]) {
      expect(/require\("(?!\.)|from "(?!\.)|kysely|sqlite/.test(readFileSync(join(built, file), "utf8"))).toBe(false);
    }
  });

  it("has types of Node only for the adapters of its servers", () => {
    const named = declarations().filter(([, text]) => /"node:|\bNodeJS\./.test(text));
    expect(named.map(([name]) => name).toSorted()).toEqual(
      ["express", "fastify", "node"].map((name) => `sdk/adapters/${name}.d.ts`),
    );
  });

  it("declares every package that its types import, as an optional peer of any version", () => {
    const imported = declarations().flatMap(([, text]) =>
      Array.from(text.matchAll(/^(?:import|export) .*from "((?!\.|node:)[^"]+)"/gm), ([, name = ""]) => name),
    );
    const declared = [...new Set(imported)].map((name) => (name === "express" ? "@types/express" : name)).toSorted();
    expect(declared).toEqual(["@types/express", "fastify", "hono"]);
    expect(manifest()).toMatchObject({
      peerDependencies: Object.fromEntries(declared.map((name) => [name, "*"])),
      peerDependenciesMeta: Object.fromEntries(declared.map((name) => [name, { optional: true }])),
    });
  });

  it("says where it comes from, and is published for everyone with provenance", () => {
    expect(manifest()).toMatchObject({
      name: "@keyrack/sdk",
      license: "Apache-2.0",
      repository: { type: "git", url: expect.stringMatching(/^git\+https:/) as string },
      homepage: expect.stringMatching(/^https:/) as string,
      bugs: expect.stringMatching(/^https:/) as string,
      keywords: expect.arrayContaining(["api-keys"]) as string[],
      publishConfig: { access: "public", provenance: true },
    });
    expect(JSON.parse(readFileSync(join(root, "package.json"), "utf8"))).toMatchObject({ private: true });
  });

  it("has no fault that publint finds", async () => {
    expect((await publint({ pkgDir: built, strict: true, pack: false })).messages).toEqual([]);
  });

  it.runIf(IS_NIGHT)("has no fault that attw finds", () => {
    const attw = join(root, "node_modules/@arethetypeswrong/cli/dist/index.js");
    const { status, stdout } = spawnSync(process.execPath, [attw, "--profile", "node16", tarball], {
      encoding: "utf8",
    });
    expect(status === 0 ? "" : stdout).toBe("");
  });

  it("has an entry point for every framework in both module formats, with types", () => {
    const exports = manifest().exports as Record<string, object>;
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

  it("type-checks in modules, in CommonJS and in both at once, as do its declarations and the documented TypeScript", async () => {
    const text = readFileSync(join(root, "docs/sdk.md"), "utf8");
    const documented = Array.from(text.matchAll(/^```ts\n(.*?)^```$/gms), ([, code = ""], i) => [`docs${i}.mts`, code]);
    expect(documented.length).toBeGreaterThan(0);
    for (const [name = "", code = ""] of documented) writeFileSync(join(app, name), `${code}export {};\n`);
    const files = [
      "mixed.mts",
      ...typedSources("mts"),
      ...typedSources("cts"),
      ...documented.map(([name = ""]) => name),
    ];
    // The declarations are checked here only: with those of Node and of the frameworks that takes most of the time.
    const resolution = ["--skipDefaultLibCheck", "--module", "node16", "--moduleResolution", "node16"];
    expect(await typeErrors(app, resolution, files)).toBe("");
  });
});
