// Builds src/cli/api/commands.gen.json, the CLI commands that are one API call each, from the endpoint declarations and
// commands-map.ts. With that file the CLI loads neither zod nor the server. `npm run docs` writes it.
import { z } from "zod";
import type { CommandSpec, FlagSpec } from "../src/cli/api/command-spec.ts";
import type { Endpoint, Schema } from "../src/http/endpoint.ts";
import { calledElsewhere, commandMap, machinePaths, type CommandRow } from "./commands-map.ts";

type JsonSchema = {
  type?: string | string[];
  enum?: string[];
  const?: string;
  items?: JsonSchema;
  anyOf?: JsonSchema[];
  default?: unknown;
  format?: string;
  description?: string;
  minimum?: number;
  maximum?: number;
  minItems?: number;
};
type ObjectSchema = { properties?: Record<string, JsonSchema>; required?: string[] };

const RATE_LIMITS = `'[{"id":"burst","limit":100,"window_ms":60000,"algorithm":"sliding","scope":"key"}]'`;

/** Example values by field; other fields show their first choice. */
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
  reason: '"contract ended"',
  overlap_hours: "24",
  expires_at: "2030-01-01T00:00:00Z",
  workspace_id: "$KEYRACK_WORKSPACE_ID",
  token: "$INVITE_TOKEN",
  embed_origins: "https://app.example.com",
  days: "30",
  months: "12",
  limit: "100",
  after: "LAST_ID",
  permissions: "verify",
  key_policy: `'{"max_ttl_days":90}'`,
  default_ttl_days: "30",
  max_ttl_days: "90",
  rate_limits: RATE_LIMITS,
  quotas: `'[{"id":"calls","amount":10000,"refill":"monthly"}]'`,
  include: "effective",
  version: "3",
  wait_ms: "10000",
  origins: "https://app.example.com",
  from: "2026-11-01T00:00Z",
  to: "2026-11-02T00:00Z",
  before_seq: "1000",
  default_rate_limits: RATE_LIMITS,
  after_seq: "0",
};

const kebab = (name: string): string =>
  name.replaceAll("_", "-").replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

function toJsonSchema(schema: Schema | undefined): ObjectSchema {
  return schema ? (z.toJSONSchema(schema, { io: "input", reused: "inline" }) as ObjectSchema) : {};
}

function kindOf(field: JsonSchema): FlagSpec["kind"] {
  if (field.enum?.join() === "true,false") return "switch";
  if (field.type === "integer" || field.type === "number") return field.type;
  if (field.type === "boolean") return "boolean";
  if (field.type === "array") return field.items?.type === "string" ? "list" : "json";
  return field.type === "string" ? "text" : "json";
}

/** What null means is of no use in the help of a flag that cannot be given as null. */
function withoutNull(description = ""): string {
  const parts = description.split("; ").map((part) => part.replace(/^null = [^,]*(, )?/, ""));
  return parts.filter((part) => part !== "").join("; ");
}

function flagOf(name: string, place: FlagSpec["in"], described: JsonSchema, required: boolean): FlagSpec {
  const nullable = described.anyOf?.some(({ type }) => type === "null") ?? false;
  const field = described.anyOf?.find(({ type }) => type !== "null") ?? described;
  const kind = kindOf(field);
  const flag: FlagSpec = { name, flag: kebab(name), in: place, kind, required };
  if (nullable) flag.nullable = true;
  const choices = kind === "list" ? field.items?.enum : (field.enum ?? (field.const && [field.const]));
  if (choices && kind !== "switch") flag.choices = choices;
  const about = described.description ?? field.description;
  const description = kind === "json" ? about : withoutNull(about);
  const parts = [
    description,
    field.format === "date-time" && "date and time, ISO 8601",
    field.format === "uuid" && !description && "id",
    field.format === "email" && "email address",
    kind === "list" && "repeatable, or a JSON list",
    kind === "list" && place === "body" && !field.minItems && !description?.includes("[]") && "[] = none",
    kind === "json" && !description && "JSON",
    field.minimum !== undefined &&
      (field.maximum ?? Infinity) < Number.MAX_SAFE_INTEGER &&
      `${field.minimum} to ${field.maximum}`,
    described.default !== undefined && kind !== "switch" && `default ${JSON.stringify(described.default)}`,
  ].filter((part): part is string => typeof part === "string" && part !== "");
  if (parts.length > 0) flag.description = parts.join("; ");
  return flag;
}

function flagsOf(schema: Schema | undefined, place: FlagSpec["in"]): FlagSpec[] {
  const { properties = {}, required = [] } = toJsonSchema(schema);
  return Object.entries(properties).map(([name, field]) => {
    const needed = required.includes(name) && field.default === undefined;
    return flagOf(name, place, field, needed);
  });
}

/** A text about the API with the names of flags: `view=fleet` becomes `--view fleet`, `wait_ms` `--wait-ms`. */
function withFlagNames(text: string, flags: readonly FlagSpec[]): string {
  return flags.reduce((result, { name, flag, kind }) => {
    const named = new RegExp(name.includes("_") ? `\\b${name}\\b(?:=(\\w+))?` : `\\b${name}=(\\w+)`, "g");
    return result.replace(named, (_all, value?: string) =>
      value === undefined || kind === "switch" ? `--${flag}` : `--${flag} ${value}`,
    );
  }, text);
}

function exampleOf(flag: FlagSpec): string {
  if (flag.kind === "switch") return `--${flag.flag}`;
  const value = EXAMPLES[flag.name] ?? flag.choices?.[0];
  if (value === undefined) throw new Error(`tools/commands.ts has no example value for ${flag.name}`);
  return `--${flag.flag} ${value}`;
}

function examplesOf(command: string, args: string[], flags: FlagSpec[], quiet: boolean): [string, string] {
  const start = ["keyrack", command, ...args.map((name) => name.replace(/-/g, "_").toUpperCase())].join(" ");
  const needed = flags.filter(({ required }) => required).map(exampleOf);
  const optional = flags
    .filter(({ required }) => !required)
    .slice(0, 2)
    .map(exampleOf);
  const last = optional.length > 0 ? optional : [quiet ? "--quiet" : "--json"];
  // An update without a field changes nothing: show one field in each example.
  if (command.endsWith(" update") && needed.length === 0)
    return [`${start} ${optional[0]}`, `${start} ${optional[1] ?? "--json"}`];
  return [[start, ...needed].join(" "), [start, ...needed, ...last].join(" ")];
}

/** The CLI adds the noun and the verb, which are the keys of the file. */
type GeneratedSpec = Omit<CommandSpec, "noun" | "verb">;
type CommandSpecs = Record<string, Record<string, GeneratedSpec>>;

function specOf(endpoint: Endpoint, row: CommandRow): GeneratedSpec {
  const args = Object.keys(toJsonSchema(endpoint.params).properties ?? {}).map(kebab);
  const flags = [...flagsOf(endpoint.query, "query"), ...flagsOf(endpoint.body, "body")];
  for (const flag of flags) if (flag.description) flag.description = withFlagNames(flag.description, flags);
  return {
    route: endpoint.name,
    summary: withFlagNames(endpoint.summary, flags),
    args,
    flags,
    hasBody: endpoint.body !== undefined,
    idempotent: endpoint.idempotent,
    ...(row.quiet && { quiet: row.quiet }),
    ...(row.quietHelp && { quietHelp: row.quietHelp }),
    ...(row.secret && { secret: row.secret }),
    ...(row.columns && { columns: row.columns }),
    examples: row.examples ?? examplesOf(row.command, args, flags, row.quiet !== undefined),
  };
}

/** Routes without a command and without a named caller: each needs a row in commands-map.ts. */
export function unmappedRoutes(endpoints: readonly Endpoint[]): string[] {
  const mapped = ({ name, path }: Endpoint): boolean =>
    name in commandMap || name in calledElsewhere || machinePaths.test(path);
  return endpoints.filter((endpoint) => !mapped(endpoint)).map(({ name }) => name);
}

function buildSpecs(endpoints: readonly Endpoint[]): CommandSpecs {
  const specs: CommandSpecs = {};
  for (const [route, row] of Object.entries(commandMap)) {
    const endpoint = endpoints.find(({ name }) => name === route);
    if (!endpoint) continue;
    const [noun = "", verb = ""] = row.command.split(" ");
    (specs[noun] ??= {})[verb] = specOf(endpoint, row);
  }
  return specs;
}

export function commandsFile(endpoints: readonly Endpoint[]): string {
  return `${JSON.stringify(buildSpecs(endpoints), null, 1)}\n`;
}
