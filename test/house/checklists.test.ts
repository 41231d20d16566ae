// The checklists of CONTRIBUTING.md. When something is half-added, the failure names the place that is missing.
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { filesIn, importsOf, readText, root, targetOf } from "../../harness/repository.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { endpoints } from "../../src/api/index.ts";
import { WAIT_TEXTS } from "../../src/cli/api/change-and-wait.ts";
import type { CommandSpecs } from "../../src/cli/api/command-spec.ts";
import { buildFullProgram, commandTable } from "../../src/cli/command-table.ts";
import { listCompletions } from "../../src/cli/commands/completion.ts";
import { envOf, settingNames, settingNamesByGroup } from "../../src/config/settings.ts";
import { access } from "../../src/http/access.ts";
import type { Endpoint } from "../../src/http/endpoint.ts";
import { jobs } from "../../src/server/jobs.ts";
import { openStore } from "../../src/store/database.ts";
import { loadMigrations } from "../../src/store/schema/migrate.ts";
import { unmappedRoutes } from "../../tools/commands.ts";
import { leafCommands } from "../../tools/help.ts";
import { unlistedQueries } from "../../tools/statements.ts";

const missing = (what: readonly string[], place: string): string[] => what.map((each) => `${each} is not in ${place}`);

describe("an endpoint", () => {
  const names = endpoints.map(({ name }) => name);

  it("that is declared is in src/api/planes.ts", async () => {
    const declared: string[] = [];
    for (const file of filesIn("src/api", ".ts")) {
      const module = (await import(pathToFileURL(join(root, file)).href)) as Record<string, Partial<Endpoint> | null>;
      for (const value of Object.values(module))
        if (value?.access && value.path && value.method) declared.push(`${value.method} ${value.path}`);
    }
    const lost = declared.filter((name) => !names.includes(name));
    expect(missing(lost, "src/api/planes.ts")).toEqual([]);
  });

  it("is in test/golden/openapi.json and docs/api.md (npm run docs)", () => {
    const { paths } = JSON.parse(readText("test/golden/openapi.json")) as { paths: Record<string, object> };
    const inGolden = ({ method, path }: Endpoint): boolean => method.toLowerCase() in (paths[path] ?? {});
    const page = readText("docs/api.md");
    const unlisted = names.filter((name) => !page.includes(`| [\`${name}\`](#`) || !page.includes(`### ${name}\n`));
    const lost = endpoints.filter((endpoint) => !inGolden(endpoint)).map(({ name }) => name);
    expect([...missing(lost, "test/golden/openapi.json"), ...missing(unlisted, "docs/api.md")]).toEqual([]);
  });

  it("has a row in src/http/access.ts, and every row has an endpoint", () => {
    const without = endpoints.filter((endpoint) => !(endpoint.access in access)).map(({ name }) => name);
    const used = new Set<string>(endpoints.map((endpoint) => endpoint.access));
    const unused = Object.keys(access).filter((name) => !used.has(name));
    expect([...missing(without, "src/http/access.ts"), ...unused.map((name) => `no endpoint has ${name}`)]).toEqual([]);
  });

  it("is a command, or tools/commands-map.ts gives the reason why not", () => {
    expect(missing(unmappedRoutes(endpoints), "tools/commands-map.ts")).toEqual([]);
  });

  it("is called by a test", () => {
    const tests = filesIn("test", ".ts").filter((file) => !file.startsWith("test/house"));
    const texts = [...tests, ...filesIn("harness", ".ts")].map(readText);
    const called = ({ method, path }: Endpoint): boolean => {
      const spelled = path.replaceAll(".", "\\.").replace(/\{\w+\}/g, "(?:\\$\\{[^}]*\\}|[^/?\"'`\\s]+)");
      const verb = method === "GET" ? "(?:GET |get\\([\"'`])" : `${method} `;
      const route = new RegExp(`\\b${verb}${spelled}(?=[?"'\`\\s]|$)`, "m");
      // A test may name the last part apart: `POST /v1/idempotency/${verb}` with "claim".
      const end = path.lastIndexOf("/") + 1;
      const apart = [`${method} ${path.slice(0, end)}\${`, `"${path.slice(end)}"`];
      return texts.some((text) => route.test(text) || apart.every((part) => text.includes(part)));
    };
    const uncalled = endpoints.filter((endpoint) => !called(endpoint)).map(({ name }) => name);
    expect(missing(uncalled, "any test")).toEqual([]);
  });
});

describe("a column", () => {
  /** Table → its columns, as the types of src/store/schema declare them. */
  function declaredColumns(): Record<string, string[]> {
    const text = filesIn("src/store/schema", ".ts").map(readText).join("\n");
    const types = new Map(
      [...text.matchAll(/^(?:export )?type (\w+) = \{([^}]*)\};/gm)].map(([, name = "", body = ""]) => [
        name,
        [...body.replace(/\/\*[\s\S]*?\*\//g, "").matchAll(/(?:^|[;{\n])\s*(\w+)\??:/g)].map(([, field = ""]) => field),
      ]),
    );
    const lists = text.matchAll(/(?:export )?type \w*Tables = (?:\w+ & )?\{([^}]*)\}/g);
    const tables = [...lists].map(([, list]) => list).join("\n");
    return Object.fromEntries(
      [...tables.matchAll(/(\w+): (\w+);/g)].map(([, table = "", type = ""]) => [table, types.get(type) ?? []]),
    );
  }

  async function migratedColumns(): Promise<Record<string, string[]>> {
    const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
    try {
      const target = { kind: "sqlite", file: join(dir, "keyrack.db") } as const;
      const store = await openStore(target, { now: Date.now, fatal: () => {} });
      await store.close();
      const rows = await rawSql(
        target,
        `select m.name as "table", c.name as "column" from sqlite_schema m, pragma_table_info(m.name) c
          where m.type = 'table' and m.name not like 'sqlite_%' and m.name <> 'schema_migrations'`,
      );
      const columns: Record<string, string[]> = {};
      for (const row of rows) (columns[String(row.table)] ??= []).push(String(row.column));
      return columns;
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  }

  it("of a migration is in the types of src/store/schema, and the other way round", async () => {
    const flat = (tables: Record<string, string[]>): string[] =>
      Object.entries(tables).flatMap(([table, columns]) => columns.map((column) => `${table}.${column}`));
    const [made, declared] = [flat(await migratedColumns()), flat(declaredColumns())];
    expect(made.length).toBeGreaterThan(100);
    expect([
      ...missing(
        made.filter((column) => !declared.includes(column)),
        "src/store/schema/tables*.ts",
      ),
      ...missing(
        declared.filter((column) => !made.includes(column)),
        "any migration",
      ),
    ]).toEqual([]);
  });

  it("has a fixture database of its migration (npm run fixtures), and both dialects", () => {
    const files = filesIn("migrations", ".sql");
    const twin = (file: string): string =>
      file.includes(".sqlite.") ? file.replace(".sqlite.", ".postgres.") : file.replace(".postgres.", ".sqlite.");
    const fixture = (version: number): string => `harness/fixtures/schema-${String(version).padStart(4, "0")}.db.gz`;
    const wanted = [...files.map(twin), ...loadMigrations("sqlite").map(({ version }) => fixture(version))];
    expect(wanted.filter((file) => !existsSync(join(root, file))).map((file) => `${file} is missing`)).toEqual([]);
  });

  it("that a function of src/store/queries reads is in tools/statements.ts, if the function builds its SQL", async () => {
    expect(missing(await unlistedQueries(), "tools/statements.ts")).toEqual([]);
  });

  it("that is sealed by the master key is sealed again by its rotation", async () => {
    // A stored response is sealed under a key made from the caller's credential, which the server does not keep.
    const others = ["sealed_body"];
    const sealed = Object.values(await migratedColumns()).flatMap((columns) =>
      columns.filter((column) => column.startsWith("sealed_") && !others.includes(column)),
    );
    const text = readText("src/store/queries/sealed-values.ts");
    const lost = sealed.filter((column) => !text.includes(column));
    expect(missing(lost, "src/store/queries/sealed-values.ts")).toEqual([]);
  });
});

describe("a CLI command", () => {
  it("with --wait has the texts of its verb in src/cli/api/change-and-wait.ts", () => {
    const specs = JSON.parse(readText("src/cli/api/commands.gen.json")) as CommandSpecs;
    const verbs = Object.values(specs).flatMap((byVerb) =>
      Object.entries(byVerb).flatMap(([verb, { flags }]) => (flags.some(({ flag }) => flag === "wait") ? [verb] : [])),
    );
    expect([...new Set(verbs)].toSorted()).toEqual(Object.keys(WAIT_TEXTS).toSorted());
  });

  it("that has a file is loaded by src/cli/command-table.ts", () => {
    const reached = new Set<string>();
    const visit = (file: string): void => {
      if (reached.has(file) || !existsSync(join(root, file))) return;
      reached.add(file);
      for (const each of importsOf(file)) if (each.target.startsWith(".")) visit(targetOf(each));
    };
    visit("src/cli/command-table.ts");
    const files = filesIn("src/cli/commands", ".ts");
    const texts = ["src/cli/command-table.ts", ...files].map((file) => ({ file, text: readText(file) }));
    const unused = files.flatMap((file) =>
      [...readText(file).matchAll(/^export (?:async )?function (add\w*Commands?)\b/gm)]
        .map(([, name = ""]) => name)
        .filter((name) => !texts.some((other) => other.file !== file && new RegExp(`\\b${name}\\b`).test(other.text)))
        .map((name) => `${name} of ${file}`),
    );
    const lost = files.filter((file) => !reached.has(file));
    expect(missing([...lost, ...unused], "src/cli/command-table.ts")).toEqual([]);
  });

  it("is in test/golden/help.txt (npm run docs), in the completion, and tried by test/cli/sweep.test.ts", async () => {
    const leaves = (await leafCommands()).map(({ words }) => words.join(" "));
    const help = readText("test/golden/help.txt");
    const known = new Set(listCompletions(await buildFullProgram()).map(({ command }) => command));
    const sweep = filesIn("test/cli", ".ts").map(readText).join("\n");
    expect([
      ...missing(
        leaves.filter((name) => !help.includes(`$ keyrack ${name} --help\n`)),
        "test/golden/help.txt",
      ),
      ...missing(
        leaves.filter((name) => !known.has(name)),
        "the completion",
      ),
      ...missing(
        leaves.filter((name) => !new RegExp(`["']?\\b${name}\\b["']?`).test(sweep)),
        "test/cli",
      ),
    ]).toEqual([]);
    expect(leaves.length).toBeGreaterThan(Object.keys(commandTable).length);
  });
});

describe("a job", () => {
  it("is in the table of docs/jobs.md (npm run docs)", () => {
    const page = readText("docs/jobs.md");
    const lost = jobs.map(({ name }) => name).filter((name) => !page.includes(`| ${name} |`));
    expect(missing(lost, "docs/jobs.md")).toEqual([]);
  });

  it("is declared in src/server/jobs.ts: every function that reaps, maintains or is due has a line there", () => {
    const table = readText("src/server/jobs.ts");
    const written = ["src/domain", "src/backup", "src/store/queries"].flatMap((folder) =>
      filesIn(folder, ".ts").flatMap((file) =>
        [...readText(file).matchAll(/^export (?:(?:async )?function|const) ((?:reap|runDue|maintain)\w+)/gm)].map(
          ([, name = ""]) => ({ file, name }),
        ),
      ),
    );
    const elsewhere = (name: string, own: string): boolean =>
      ["src/domain", "src/backup"].some((folder) =>
        filesIn(folder, ".ts").some((file) => file !== own && new RegExp(`\\b${name}\\b`).test(readText(file))),
      );
    const lost = written.filter(({ file, name }) => !table.includes(name) && !elsewhere(name, file));
    expect(written.length).toBeGreaterThan(10);
    expect(
      missing(
        lost.map(({ file, name }) => `${name} of ${file}`),
        "src/server/jobs.ts",
      ),
    ).toEqual([]);
  });
});

describe("a setting", () => {
  it("is in exactly one group, and every group is in src/config/settings.ts", () => {
    const declared = filesIn("src/config/groups", ".ts").flatMap((file) =>
      [...readText(file).matchAll(/^ {2}(\w+): setting\(/gm)].map(([, name = ""]) => name),
    );
    const grouped = settingNamesByGroup.flatMap(({ names }) => names);
    expect([declared.toSorted(), grouped.toSorted()]).toEqual([settingNames.toSorted(), settingNames.toSorted()]);
  });

  it("is in docs/configure.md (npm run docs) and read somewhere in src", () => {
    const page = readText("docs/configure.md");
    const files = filesIn("src", ".ts").filter((file) => !file.startsWith("src/config/"));
    const text = files.map(readText).join("\n");
    const undocumented = settingNames.filter((name) => !page.includes(`| \`${envOf(name)}\` |`));
    const unread = settingNames.filter((name) => !new RegExp(`\\b${name}\\b`).test(text));
    expect([...missing(undocumented, "docs/configure.md"), ...missing(unread, "any file that reads it")]).toEqual([]);
  });
});
