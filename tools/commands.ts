// Writes src/cli/api/commands.gen.json: the commands that are one call, from the endpoint declarations and commands-map.ts.
// The command line reads that file and so needs neither zod nor anything else of the server. `npm run docs` runs it.
import { z } from "zod";
import type { Flag, Noun, Verb } from "../src/cli/api/command-spec.ts";
import type { Endpoint, Schema } from "../src/http/endpoint.ts";
import { elsewhere, machinePaths, nouns, rows, type Row } from "./commands-map.ts";

type Described = {
  type?: string | string[];
  enum?: string[];
  items?: Described;
  anyOf?: Described[];
  default?: unknown;
  format?: string;
  description?: string;
  minimum?: number;
  maximum?: number;
};
type Shape = { properties?: Record<string, Described>; required?: string[] };

/** What an example says for a field; a type's own word stands for the rest. */
const EXAMPLES: Record<string, string> = {
  project_id: "$KEYRACK_PROJECT_ID",
  tenant_id: "$KEYRACK_TENANT_ID",
  env: "live",
  name: '"Acme"',
  slug: "acme",
  external_id: "customer-1",
  email: "ada@example.com",
  billing_email: "billing@example.com",
  role: "admin",
  scopes: "orders:read",
  meta: `'{"plan":"pro"}'`,
  reason: '"left the company"',
  overlap_hours: "24",
  expires_at: "2030-01-01T00:00:00Z",
  workspace_id: "$KEYRACK_WORKSPACE_ID",
  token: "$INVITE_TOKEN",
  embed_origins: "https://app.example.com",
  days: "30",
  months: "12",
  limit: "100",
  after: "LAST_ID",
  default_rate_limits: `'[{"id":"burst","limit":100,"window_ms":60000,"algorithm":"sliding","scope":"key"}]'`,
  after_seq: "0",
};

const kebab = (name: string): string =>
  name.replaceAll("_", "-").replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

function describe(schema: Schema | undefined): Shape {
  return schema ? (z.toJSONSchema(schema, { io: "input", reused: "inline" }) as Shape) : {};
}

function kindOf(field: Described): Flag["kind"] {
  if (field.enum?.join() === "true,false") return "switch";
  if (field.type === "integer" || field.type === "number") return field.type;
  if (field.type === "boolean") return "boolean";
  if (field.type === "array") return field.items?.type === "string" ? "list" : "json";
  return field.type === "string" ? "text" : "json";
}

function flagOf(name: string, place: Flag["in"], described: Described, required: boolean): Flag {
  const nullable = described.anyOf?.some(({ type }) => type === "null") ?? false;
  const field = described.anyOf?.find(({ type }) => type !== "null") ?? described;
  const kind = kindOf(field);
  const flag: Flag = { name, flag: kebab(name), in: place, kind, required };
  if (nullable) flag.nullable = true;
  if (field.enum && kind === "text") flag.choices = field.enum;
  const about = [
    field.description,
    field.format === "date-time" && "date and time, ISO 8601",
    field.format === "uuid" && "id",
    field.format === "email" && "e-mail address",
    kind === "list" && "may be given several times",
    kind === "json" && !field.description && "JSON",
    field.minimum !== undefined &&
      (field.maximum ?? Infinity) < Number.MAX_SAFE_INTEGER &&
      `${field.minimum} to ${field.maximum}`,
    described.default !== undefined && kind !== "switch" && `default ${JSON.stringify(described.default)}`,
  ].filter((part): part is string => typeof part === "string");
  if (about.length > 0) flag.about = about.join("; ");
  return flag;
}

function flagsOf(schema: Schema | undefined, place: Flag["in"]): Flag[] {
  const { properties = {}, required = [] } = describe(schema);
  return Object.entries(properties).map(([name, field]) => {
    const needed = required.includes(name) && field.default === undefined;
    return flagOf(name, place, field, needed);
  });
}

function say(flag: Flag): string {
  if (flag.kind === "switch") return `--${flag.flag}`;
  return `--${flag.flag} ${EXAMPLES[flag.name] ?? flag.choices?.[0] ?? "VALUE"}`;
}

function examplesOf(command: string, args: string[], flags: Flag[], quiet: boolean): [string, string] {
  const start = ["keyrack", command, ...args.map((name) => name.replace(/-/g, "_").toUpperCase())].join(" ");
  const needed = flags.filter(({ required }) => required).map(say);
  const optional = flags.filter(({ required }) => !required).map(say);
  const last = optional.length > 0 ? optional.slice(0, 2) : [quiet ? "--quiet" : "--json"];
  // A change without a field changes nothing: show one field each.
  if (command.endsWith(" update") && needed.length === 0)
    return [`${start} ${optional[0]}`, `${start} ${optional[1] ?? "--json"}`];
  return [[start, ...needed].join(" "), [start, ...needed, ...last].join(" ")];
}

function verbOf(endpoint: Endpoint, row: Row): Verb {
  const args = Object.keys(describe(endpoint.params).properties ?? {}).map(kebab);
  const flags = [...flagsOf(endpoint.query, "query"), ...flagsOf(endpoint.body, "body")];
  return {
    route: endpoint.name,
    summary: endpoint.summary,
    args,
    flags,
    hasBody: endpoint.body !== undefined,
    idempotent: endpoint.idempotent,
    ...(row.quiet && { quiet: row.quiet }),
    ...(row.secret && { secret: row.secret }),
    ...(row.columns && { columns: [...row.columns] }),
    examples: examplesOf(row.command, args, flags, row.quiet !== undefined),
  };
}

/** Routes nobody has decided about: each needs a row in commands-map.ts. */
export function unmapped(endpoints: readonly Endpoint[]): string[] {
  const known = ({ name, path }: Endpoint): boolean => name in rows || name in elsewhere || machinePaths.test(path);
  return endpoints.filter((endpoint) => !known(endpoint)).map(({ name }) => name);
}

export function commandTable(endpoints: readonly Endpoint[]): Record<string, Noun> {
  const table: Record<string, Noun> = {};
  for (const [route, row] of Object.entries(rows)) {
    const endpoint = endpoints.find(({ name }) => name === route);
    if (!endpoint) continue;
    const [noun = "", verb = ""] = row.command.split(" ");
    table[noun] ??= { about: nouns[noun] ?? "", verbs: {} };
    table[noun].verbs[verb] = verbOf(endpoint, row);
  }
  return table;
}

export function commandsFile(endpoints: readonly Endpoint[]): string {
  return `${JSON.stringify(commandTable(endpoints), null, 1)}\n`;
}
