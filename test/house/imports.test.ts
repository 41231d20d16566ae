// Which folder may import which, as tables. A request goes straight down through src; nothing imports upwards.
import { describe, expect, it } from "vitest";
import { CODE_FOLDERS, filesIn, importCycles, importsOf, targetOf } from "../../harness/repository.ts";

/** Files of src that are in no folder. */
const LOOSE = ["client", "gateway", "globals.d"];

/** Folder → folders it may import. `types:` = types only. A folder may always import itself. */
const RULES: Record<string, string[]> = {
  kernel: [],
  config: ["kernel"],
  fairness: ["kernel", "types:config"],
  platform: ["kernel", "fairness"],
  store: ["kernel", "fairness", "platform"],
  ratelimit: ["kernel", "fairness"],
  domain: ["kernel", "fairness", "store", "ratelimit", "platform", "types:config"],
  backup: ["kernel", "store", "domain", "types:config", "platform"],
  http: ["kernel", "fairness", "domain", "platform"],
  api: ["kernel", "domain", "http", "platform"],
  server: ["kernel", "fairness", "store", "ratelimit", "domain", "backup", "http", "api", "config", "platform"],
  cli: ["*"],
  sdk: ["kernel"],
  gateway: ["sdk"],
  client: ["types:api"],
  web: ["types:kernel", "types:api", "types:client"],
  // Checks hashes and credentials in the browser with the same code as the server.
  "web/dashboard": ["kernel", "web", "types:api", "types:client"],
};

/** Folders of the dashboard, each of which may import those before it. All others are pages, which may import them all. */
const DASHBOARD = [["api"], ["components"], ["forms"], ["shell", "palette"]];

/** Outside package → the folders of src that may import it. */
const PACKAGES: Record<string, string[]> = {
  kysely: ["store"],
  "kysely/helpers/postgres": ["store"],
  "kysely/helpers/sqlite": ["store"],
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
  preact: ["web/dashboard"],
  "preact/hooks": ["web/dashboard"],
  "@preact/signals": ["web/dashboard"],
};

/** Top folder → top folders it may import, beside itself. `prove`, `bench` and `test` never import each other. */
const TOP: Record<string, string[]> = {
  src: [],
  harness: ["src"],
  prove: ["src", "harness"],
  bench: ["src", "harness"],
  tools: ["src", "harness"],
  test: ["src", "harness", "tools"],
  "test/prove": ["src", "harness", "test", "prove"],
  "test/house": ["src", "harness", "test", "tools", "bench"],
};

const src = filesIn("src", ".ts", ".tsx");
const folderOf = (path: string): string =>
  path.startsWith("src/web/dashboard/") ? "web/dashboard" : (path.split("/")[1] ?? "").replace(/\.ts$/, "");
const topOf = (path: string): string => {
  const [first = "", second = ""] = path.split("/");
  return `${first}/${second}` in TOP ? `${first}/${second}` : first;
};
const all = src.flatMap(importsOf);

describe("imports within src", () => {
  it("have a rule for every folder", () => {
    for (const file of src) expect([...Object.keys(RULES), ...LOOSE]).toContain(folderOf(file));
  });

  it("have a table that leads down only: no folder reaches itself", () => {
    const reach = (folder: string, seen: Set<string>): Set<string> => {
      for (const entry of RULES[folder] ?? []) {
        const next = entry.replace("types:", "");
        if (!seen.has(next)) reach(next, seen.add(next));
      }
      return seen;
    };
    expect(Object.keys(RULES).filter((folder) => reach(folder, new Set()).has(folder))).toEqual([]);
  });

  it("keep to the table", () => {
    const broken: string[] = [];
    for (const each of all.filter(({ target }) => target.startsWith("."))) {
      const [from, to] = [folderOf(each.file), folderOf(targetOf(each))];
      const allowed = RULES[from] ?? [];
      const typesOk = each.typeOnly && allowed.includes(`types:${to}`);
      const ok = from === to || allowed.includes("*") || allowed.includes(to) || typesOk;
      if (!ok) broken.push(`${each.file} imports ${to}`);
    }
    expect(broken).toEqual([]);
  });

  it("lead down within the dashboard: api, components, forms, shell, pages", () => {
    const root = "src/web/dashboard/";
    const levelOf = (path: string): number => {
      const folder = path.slice(root.length).split("/")[0] ?? "";
      const level = DASHBOARD.findIndex((folders) => folders.includes(folder));
      return level === -1 ? DASHBOARD.length : level;
    };
    // Files in no folder: the address is below everything, the start of the page above it.
    const isInFolder = (path: string): boolean => path.startsWith(root) && path.slice(root.length).includes("/");
    const broken = all
      .filter(({ file, target }) => isInFolder(file) && target.startsWith("."))
      .filter((each) => isInFolder(targetOf(each)) && levelOf(targetOf(each)) > levelOf(each.file))
      .map((each) => `${each.file} imports ${targetOf(each)}`);
    expect(broken).toEqual([]);
  });

  it("give each outside package to the folders that own it", () => {
    const broken: string[] = [];
    for (const { file, target, typeOnly } of all) {
      if (target.startsWith(".") || target.startsWith("node:") || typeOnly || file.endsWith(".d.ts")) continue;
      if (!PACKAGES[target]?.includes(folderOf(file))) broken.push(`${file} imports ${target}`);
    }
    expect(broken).toEqual([]);
  });

  it("keep node: out of the kernel", () => {
    const broken = all.filter(({ file, target }) => folderOf(file) === "kernel" && target.startsWith("node:"));
    expect(broken).toEqual([]);
  });
});

describe("imports between top folders", () => {
  const files = CODE_FOLDERS.flatMap((folder) => filesIn(folder, ".ts", ".tsx"));

  it("go from tests, campaigns, benchmarks and tools to the harness and src only", () => {
    const broken: string[] = [];
    for (const each of files.flatMap(importsOf).filter(({ target }) => target.startsWith("."))) {
      const [from, to] = [topOf(each.file), topOf(targetOf(each))];
      if (from !== to && to in TOP && !TOP[from]?.includes(to)) broken.push(`${each.file} imports ${targetOf(each)}`);
    }
    expect(broken).toEqual([]);
  });

  it("form no cycle, type-only imports included", () => {
    expect(importCycles(files)).toEqual([]);
  });
});
