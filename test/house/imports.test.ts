// Who may import whom, as a table. A request falls straight down; nothing reaches up.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const src = fileURLToPath(new URL("../../src", import.meta.url));
const LOOSE = ["client", "gateway", "globals.d"];

/** Folder → folders it may import. `types:` = types only. A folder may always import itself. */
const RULES: Record<string, string[]> = {
  kernel: [],
  platform: ["kernel"],
  config: [],
  store: ["kernel", "platform"],
  ratelimit: ["kernel"],
  domain: ["kernel", "store", "ratelimit", "platform", "types:config"],
  backup: ["kernel", "store", "domain", "config", "server", "platform"],
  http: ["kernel", "domain", "platform"],
  api: ["kernel", "domain", "http", "platform"],
  server: ["kernel", "store", "ratelimit", "domain", "backup", "http", "api", "config", "platform"],
  cli: ["*"],
  sdk: ["kernel"],
  gateway: ["sdk"],
  client: ["types:api"],
  web: ["types:kernel", "types:api", "types:client"],
};

/** Each outside package has one room that owns it. */
const PACKAGES: Record<string, string[]> = {
  kysely: ["store"],
  "better-sqlite3": ["store"],
  pg: ["store"],
  ioredis: ["ratelimit", "domain"],
  zod: ["api", "http"],
  h3: ["http", "sdk"],
  "srvx/node": ["http"],
  jose: ["domain"],
  argon2: ["domain"],
  nodemailer: ["domain"],
  commander: ["cli"],
  "@clack/prompts": ["cli"],
  "smol-toml": ["config", "cli"],
};

type Import = { file: string; target: string; typeOnly: boolean };

function* files(dir: string): Generator<string> {
  for (const entry of readdirSync(dir, { withFileTypes: true })) {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) yield* files(path);
    else if (path.endsWith(".ts")) yield path;
  }
}

function* importsOf(file: string): Generator<Import> {
  const text = readFileSync(file, "utf8");
  for (const match of text.matchAll(/^(?:import|export)\s+(type\s)?[^;]*?from\s+"([^"]+)"/gm)) {
    yield { file, target: match[2] as string, typeOnly: match[1] !== undefined };
  }
  for (const match of text.matchAll(/(typeof )?\bimport\("([^"]+)"\)/g)) {
    yield { file, target: match[2] as string, typeOnly: match[1] !== undefined };
  }
}

function roomOf(path: string): string {
  const [first = ""] = relative(src, path).split("/");
  return first.replace(/\.ts$/, "");
}

const all = [...files(src)].flatMap((file) => [...importsOf(file)]);

describe("the import rule", () => {
  it("knows every room", () => {
    for (const file of files(src)) expect([...Object.keys(RULES), ...LOOSE]).toContain(roomOf(file));
  });

  it("is kept by every import", () => {
    const broken: string[] = [];
    for (const { file, target, typeOnly } of all.filter(({ target }) => target.startsWith("."))) {
      const [from, to] = [roomOf(file), roomOf(resolve(dirname(file), target))];
      const allowed = RULES[from] ?? [];
      const ok =
        from === to || allowed.includes("*") || allowed.includes(to) || (typeOnly && allowed.includes(`types:${to}`));
      if (!ok) broken.push(`${relative(src, file)} imports ${to}`);
    }
    expect(broken).toEqual([]);
  });

  it("gives each outside package to one room", () => {
    const broken: string[] = [];
    for (const { file, target, typeOnly } of all) {
      if (target.startsWith(".") || target.startsWith("node:") || typeOnly || file.endsWith(".d.ts")) continue;
      if (!PACKAGES[target]?.includes(roomOf(file))) broken.push(`${relative(src, file)} imports ${target}`);
    }
    expect(broken).toEqual([]);
  });

  it("keeps node: out of the kernel", () => {
    const broken = all.filter(({ file, target }) => roomOf(file) === "kernel" && target.startsWith("node:"));
    expect(broken).toEqual([]);
  });
});
