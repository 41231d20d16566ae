// What users rely on by name, for the comparison of releases: endpoints with their fields, commands with their flags,
// exit codes, settings, metrics, and exports of the library. Read from the files of a checkout, so that any commit has one.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Of one endpoint. Fields are paths such as `data[].id`. */
type Operation = { parameters: string[]; body: string[]; required: string[]; answer: string[] };
export type Surface = {
  /** By "GET /v1/keys". */
  api: Record<string, Operation>;
  /** Flags by "keyrack key create". */
  commands: Record<string, string[]>;
  /** By code, as docs/cli.md says. */
  exit_codes: Record<string, string>;
  settings: string[];
  metrics: string[];
  /** Names by entry point. */
  sdk: Record<string, string[]>;
};

type Schema = {
  $ref?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: Schema | boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
};
type Content = Record<string, { schema?: Schema }>;
type Described = {
  parameters?: { name: string; in: string; required?: boolean }[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
};
type OpenApi = { paths: Record<string, Record<string, Described>>; components: { schemas: Record<string, Schema> } };

const sorted = (names: Iterable<string>): string[] => [...new Set(names)].toSorted();
const matches = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, name = ""]) => name);

export function surfaceOf(root: string): Surface {
  const read = (file: string): string => readFileSync(join(root, file), "utf8");
  const source = globSync("src/**/*.ts", { cwd: root }).map(read).join("\n");
  const { exports } = JSON.parse(read("package.json")) as { exports: Record<string, unknown> };
  const adapters = Object.keys(exports).flatMap((entry) => /^\.\/sdk\/(\w+)$/.exec(entry)?.[1] ?? []);
  return {
    api: operationsOf(JSON.parse(read("test/golden/openapi.json")) as OpenApi),
    commands: commandsOf(read("test/golden/help.txt")),
    exit_codes: exitCodesOf(read("docs/cli.md")),
    settings: sorted(matches(read("docs/configure.md"), /^\| `(KEYRACK_\w+)`/gm)),
    metrics: sorted(matches(source, /["'`](keyrack_[a-z0-9_]*[a-z0-9])\b/g)),
    sdk: {
      index: exportsOf(read("src/sdk/index.ts")),
      ...Object.fromEntries(adapters.map((name) => [name, exportsOf(read(`src/sdk/adapters/${name}.ts`))])),
    },
  };
}

/** What a user of the older surface would miss in the newer one, and what it requires that the older one did not. */
export function breaksOf(older: Surface, newer: Surface): string[] {
  const missing = (what: string, before: readonly string[], now: readonly string[] = []): string[] =>
    before.filter((name) => !now.includes(name)).map((name) => `${what}: ${name} is gone`);
  const endpoints = Object.entries(older.api).flatMap(([name, { parameters, body, required, answer }]) => {
    const now = newer.api[name];
    if (!now) return [`${name} is gone`];
    const demanded = now.required.filter((each) => !required.includes(each));
    return [
      ...missing(`${name} parameters`, parameters, now.parameters),
      ...missing(`${name} body`, body, now.body),
      ...missing(`${name} answer`, answer, now.answer),
      ...demanded.map((each) => `${name}: ${each} is required`),
    ];
  });
  const lists = (before: Record<string, string[]>, now: Record<string, string[]>): string[] =>
    Object.entries(before).flatMap(([name, each]) =>
      now[name] ? missing(name, each, now[name]) : [`${name} is gone`],
    );
  return [
    ...endpoints,
    ...lists(older.commands, newer.commands),
    ...missing("exit codes", Object.keys(older.exit_codes), Object.keys(newer.exit_codes)),
    ...missing("settings", older.settings, newer.settings),
    ...missing("metrics", older.metrics, newer.metrics),
    ...lists(older.sdk, newer.sdk),
  ];
}

function operationsOf({ paths, components }: OpenApi): Record<string, Operation> {
  const fields = (schema: Schema | undefined, at = ""): string[] => {
    if (!schema) return [];
    const { properties = {}, items, additionalProperties: more } = schema;
    const named = schema.$ref ? components.schemas[schema.$ref.replace(/.*\//, "")] : undefined;
    const alternatives = [schema.anyOf, schema.oneOf, schema.allOf].flatMap((list) => list ?? []);
    return [
      ...(named ? fields(named, at) : []),
      ...alternatives.flatMap((each) => fields(each, at)),
      ...Object.entries(properties).flatMap(([name, each]) => [`${at}${name}`, ...fields(each, `${at}${name}.`)]),
      ...fields(items, `${at.replace(/\.$/, "")}[].`),
      ...(typeof more === "object" ? fields(more, `${at}*.`) : []),
    ];
  };
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody, responses }]): [string, Operation] => {
      const body = Object.values(requestBody?.content ?? {}).map(({ schema }) => schema);
      const answers = Object.entries(responses)
        .filter(([status]) => status.startsWith("2"))
        .flatMap(([, { content = {} }]) => Object.values(content).map(({ schema }) => schema));
      return [
        `${method.toUpperCase()} ${path}`,
        {
          parameters: sorted(parameters.map(({ name }) => name)),
          body: sorted(body.flatMap((schema) => fields(schema))),
          required: sorted([
            ...parameters.filter(({ required }) => required).map(({ name }) => name),
            ...body.flatMap((schema) => schema?.required ?? []),
          ]),
          answer: sorted(answers.flatMap((schema) => fields(schema))),
        },
      ];
    }),
  );
  return Object.fromEntries(all);
}

function commandsOf(help: string): Record<string, string[]> {
  const pages = help.split(/^\$ (?=keyrack\b)/m).slice(1);
  return Object.fromEntries(
    pages.map((page) => [page.slice(0, page.indexOf(" --help")), sorted(matches(page, /^ {2}(?:-\w, )?(--[\w-]+)/gm))]),
  );
}

function exitCodesOf(text: string): Record<string, string> {
  const table = /^## Exit codes\n([^#]*)/m.exec(text)?.[1] ?? "";
  return Object.fromEntries(
    [...table.matchAll(/^\| (\d+) \| (.*) \|$/gm)].map(([, code = "", what = ""]) => [code, what]),
  );
}

/** Names that a file exports, types included. */
function exportsOf(text: string): string[] {
  const lists = matches(text, /^export (?:type )?\{([^}]*)\}/gm).flatMap((list) => list.split(","));
  const named = lists.map((each) => each.replace(/^\s*(?:type )?(?:.* as )?|\s*$/g, "")).filter(Boolean);
  return sorted([...named, ...matches(text, /^export (?:async )?(?:function|const|class|type|interface) (\w+)/gm)]);
}
