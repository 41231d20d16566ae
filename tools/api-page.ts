// docs/api.md: the endpoints by plane, who may call them, what they take and how they refuse. Everything comes from the
// endpoint declarations, through the OpenAPI document where that has it.
import { endpoints } from "../src/api/index.ts";
import { access, CREDENTIAL_KINDS, type CredentialKind, type AccessRow } from "../src/http/access.ts";
import type { Endpoint } from "../src/http/endpoint.ts";
import { failuresOf, METHODS, openApiDocument } from "../src/http/openapi.ts";
import { failures, type FailureName } from "../src/kernel/errors.ts";
import { EXAMPLES_TITLE, examplesSection } from "./api-examples.ts";
import { fieldList, sharedObjects, type FieldSchema } from "./field-types.ts";
import { escaped, heading, row } from "./markdown.ts";

type Parameter = { name: string; in: string; description?: string; required: boolean; schema: FieldSchema };
type Operation = {
  parameters: Parameter[];
  requestBody?: { content: { "application/json": { schema: FieldSchema } } };
};

const { paths } = (await openApiDocument(endpoints)) as { paths: Record<string, Record<string, Operation>> };

function operationOf({ path, method }: Endpoint): Operation {
  const operation = paths[path]?.[method.toLowerCase()];
  if (!operation) throw new Error(`${method} ${path} is not in the OpenAPI document`);
  return operation;
}

/** The query as one object, and the body. */
function inputsOf(endpoint: Endpoint): { query: FieldSchema; body: FieldSchema | undefined } {
  const { parameters, requestBody } = operationOf(endpoint);
  const query = parameters.filter((parameter) => parameter.in === "query");
  return {
    query: {
      properties: Object.fromEntries(query.map(({ name, schema }) => [name, schema])),
      required: query.filter(({ required }) => required).map(({ name }) => name),
    },
    body: requestBody?.content["application/json"].schema,
  };
}

const objects = sharedObjects(endpoints.flatMap((endpoint) => inputsOf(endpoint).body ?? []));

const CREDENTIALS: Record<CredentialKind, readonly [heading: string, meaning: string]> = {
  sk_owner: ["SK", "a live secret key that an owner or the bootstrap token made"],
  sk_admin: ["SK admin", "a live secret key that an admin made"],
  sk_test: ["SK test", "a test secret key"],
  ses_owner: ["owner", "the session of an owner of the workspace"],
  ses_admin: ["admin", "the session of an admin"],
  ses_member: ["member", "the session of a member"],
  embed: ["embed", "an embed token"],
  bootstrap: ["boot", "the bootstrap token"],
  none: ["none", "no credential"],
  api_key: ["API key", "an API key"],
};

const PLANES = {
  person: "Person: accounts, sessions and workspaces",
  vendor: "Vendor: what a backend, the CLI and the dashboard manage",
  machine: "Machine: what verifiers, gateways and backends call",
  embed: "Embed: what the portal calls",
  holder: "Holder: what an API key may do with itself",
  public: "Public: health, pages and reports",
} as const;
type Plane = keyof typeof PLANES;
const OBJECTS = "Objects in requests";

const QUICK_START = [
  "KEYRACK_URL=http://127.0.0.1:4747",
  "TOKEN=$(cat keyrack-data/bootstrap.token)",
  'call() { curl -fsS -H "authorization: Bearer $TOKEN" -H "content-type: application/json" "$@"; }',
  `TOKEN=$(call $KEYRACK_URL/v1/workspaces -d '{"name":"Acme","slug":"acme"}' | jq -r .secret_key.key)`,
  `PROJECT=$(call $KEYRACK_URL/v1/projects -d '{"name":"Orders API","slug":"orders"}' | jq -r .id)`,
  `TENANT=$(call $KEYRACK_URL/v1/tenants -d '{"external_id":"customer-1"}' | jq -r .id)`,
  'call $KEYRACK_URL/v1/keys -d \'{"project_id":"\'$PROJECT\'","tenant_id":"\'$TENANT\'","env":"live","scopes":["orders:read"]}\' > key.json',
  "jq -r .key key.json                     # shown this once; give it to the customer",
  `call "$KEYRACK_URL/v1/keys/$(jq -r .id key.json)/revoke?wait=true" -d '{"reason":"laptop lost"}'`,
];

const PLANE_OF: Partial<Record<FailureName, Plane>> = {
  needs_session: "person",
  needs_session_or_bootstrap: "person",
  needs_vendor: "vendor",
  needs_secret_key: "machine",
  needs_embed_token: "embed",
  needs_api_key: "holder",
};

function planeOf({ access: name }: Endpoint): Plane {
  return PLANE_OF[access[name].wrongKind] ?? (name === "auth.open" ? "person" : "public");
}

/** A list comes before its records, and a method that reads before one that changes. */
function inOrder(a: Endpoint, b: Endpoint): number {
  if (a.path !== b.path) return a.path < b.path ? -1 : 1;
  return METHODS.indexOf(a.method) - METHODS.indexOf(b.method);
}

/** What a restricted secret key, or an embed token, needs. */
function permissionOf(endpoint: Endpoint): string {
  const { open, rules, needs, wide }: AccessRow = access[endpoint.access];
  if (endpoint.scope) return `\`${endpoint.scope}\``;
  if (open || rules.sk_owner === "-") return "";
  if (needs === null) return "unrestricted";
  if (needs === "itself") return "any, on itself";
  return wide ? `\`${needs}\`, all projects` : `\`${needs}\``;
}

const anchor = (title: string): string =>
  title
    .toLowerCase()
    .replace(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");

function accessTable(members: readonly Endpoint[]): string[] {
  const rows: AccessRow[] = members.map((endpoint) => access[endpoint.access]);
  const isAllowed = (kind: CredentialKind): boolean =>
    rows.some(({ open, rules }) => (open ? kind === "none" : rules[kind] === "Y" || rules[kind] === "T"));
  const columns = rows.every(({ open }) => open) ? [] : CREDENTIAL_KINDS.filter(isAllowed);
  const permissions = members.map(permissionOf);
  const hasPermissions = permissions.some((text) => text !== "");
  return [
    ...heading([
      "Endpoint",
      "Description",
      ...columns.map((kind) => CREDENTIALS[kind][0]),
      ...(hasPermissions ? ["Permission"] : []),
    ]),
    ...members.map(({ name, summary, access: allowed }, i) => {
      const { open, rules } = access[allowed];
      const [sentence = ""] = /^.*?[.;:](?= |$)/.exec(summary) ?? [summary];
      return row([
        `[\`${name}\`](#${anchor(name)})`,
        escaped(sentence).replace(/[;:]$/, "."),
        ...columns.map((kind) => (open ? "Y" : rules[kind])),
        ...(hasPermissions ? [permissions[i] ?? ""] : []),
      ]);
    }),
  ];
}

/** The refusals that no endpoint has to declare: they follow from its access, its input and the state of the server. */
function commonErrors(): FailureName[] {
  const names = endpoints.flatMap((endpoint) =>
    failuresOf(endpoint).filter((name) => !endpoint.failures.includes(name)),
  );
  return [...new Set(names)];
}

function errorList(names: readonly FailureName[]): string {
  const sorted = names.toSorted((a, b) => failures[a][0] - failures[b][0] || (a < b ? -1 : 1));
  return sorted.map((name) => `${failures[name][0]} \`${name}\``).join(", ");
}

function statusesOf({ status, replay, hasEtag }: Endpoint): string {
  if (hasEtag) return `${status}, or 304 if nothing has changed`;
  return replay ? `${status}, or 200 for a repetition` : `${status}`;
}

function endpointSection(endpoint: Endpoint): string[] {
  const inputs = inputsOf(endpoint);
  const query = fieldList(inputs.query, objects);
  const body = inputs.body ? fieldList(inputs.body, objects) : "";
  const permission = permissionOf(endpoint);
  const facts = [
    `Returns ${statusesOf(endpoint)}.`,
    permission && `Permission: ${permission}.`,
    endpoint.idempotent && "Accepts `Idempotency-Key`.",
    endpoint.emits.length > 0 && `Audit: ${endpoint.emits.map((action) => `\`${action}\``).join(", ")}.`,
    endpoint.failures.length > 0 && `Errors: ${errorList(endpoint.failures)}.`,
  ];
  const paragraphs = [
    `### ${endpoint.name}`,
    escaped(endpoint.summary),
    query && `Query: ${query}.`,
    body && `Body: ${body}.`,
    facts.filter(Boolean).join(" "),
  ];
  return paragraphs.filter((text) => text !== "").flatMap((text) => [text, ""]);
}

function planeSection(plane: Plane, title: string): string[] {
  const members = endpoints.filter((endpoint) => planeOf(endpoint) === plane).toSorted(inOrder);
  return [`## ${title}`, "", ...accessTable(members), "", ...members.flatMap(endpointSection)];
}

function headerTable(): string[] {
  const found = new Map<string, { description: string; planes: Set<Plane> }>();
  for (const endpoint of endpoints)
    for (const { name, in: place, description = "" } of operationOf(endpoint).parameters) {
      if (place !== "header") continue;
      const header = found.get(name) ?? { description, planes: new Set() };
      found.set(name, header);
      header.planes.add(planeOf(endpoint));
    }
  return [
    ...heading(["Header", "Meaning", "Plane"]),
    ...[...found].map(([name, { description, planes }]) => row([`\`${name}\``, description, [...planes].join(", ")])),
  ];
}

export function apiPage(): string {
  const titles = Object.entries(PLANES) as [Plane, string][];
  return [
    "# HTTP API",
    "",
    "Generated from the endpoint declarations by `npm run docs`. As OpenAPI 3.1, with descriptions of parameters and of the fields of requests where their names do not say it, and the schemas of responses: `GET /openapi.json` or `keyrack openapi`.",
    "",
    "The endpoints are grouped by plane, which is who calls them:",
    "",
    ...[...titles.map(([, title]) => title), OBJECTS, EXAMPLES_TITLE, "Errors"].map(
      (title) => `- [${title}](#${anchor(title)})`,
    ),
    "",
    "## Quick start",
    "",
    "With curl and jq on the machine of a new server; the bootstrap token is in its data dir. A test runs this as written.",
    "",
    "```sh",
    ...QUICK_START,
    "```",
    "",
    "Then verify keys in your own process with [the library](sdk.md), or ask [the gateway](gateway.md).",
    "",
    "## How to read this page",
    "",
    "Each plane begins with a table of who may call its endpoints. Y: allowed. T: allowed within the test environment. -: refused with 403. 401: not accepted as a credential; nor are credentials without a column. The columns:",
    "",
    ...Object.values(CREDENTIALS).map(([name, meaning]) => `- ${name}: ${meaning}`),
    "",
    "Permission is what a secret key that was made with `permissions` needs; without them it may do everything that its column allows. `manage` includes `read`. Unrestricted: only a key without `permissions`. All projects: not a key with `project_ids`. Any, on itself: every key, but a restricted one only on itself. On the embed plane it is the scope that the token needs.",
    "",
    'Fields are written as name, type and bounds, and `= value` for the default. A name with a ? is optional. The bounds of a text are its length in characters, and those of a list its length. "id" is a UUID, "time" an ISO 8601 date and time, `{…}` an object.',
    "",
    ...headerTable(),
    "",
    ...titles.flatMap(([plane, title]) => planeSection(plane, title)),
    `## ${OBJECTS}`,
    "",
    ...[...objects].flatMap(([schema, name]) => [
      `### ${name}`,
      "",
      `${fieldList(JSON.parse(schema) as FieldSchema, objects)}.`,
      "",
    ]),
    ...examplesSection(),
    "## Errors",
    "",
    'Every error response is `{"error": {"code", "message", "details"?, "missing_scopes"?}}`. `details` names the invalid fields, `missing_scopes` the scopes that the credential lacks. Clients branch on the code; the name only identifies an error in this page.',
    "",
    `Endpoints name only the errors of their own. Not named are refusals of a credential that the tables do not allow, and those that follow from what an endpoint takes or from the state of the server: ${errorList(commonErrors())}.`,
    "",
    ...heading(["Name", "Status", "Code", "Message"]),
    ...Object.entries(failures).map(([name, [status, each, message]]) =>
      row([`\`${name}\``, String(status), `\`${each}\``, escaped(message)]),
    ),
    "",
  ].join("\n");
}
