// `npm run docs`: writes what is generated from tables: docs/api.md, docs/configure.md, a table of docs/security.md, the CLI's commands.gen.json and
// the golden files for help and OpenAPI.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { fileKey, settingsTable, type SettingName } from "../src/config/settings.ts";
import { access, COLUMNS } from "../src/http/access.ts";
import { failuresOf, openApiDocument } from "../src/http/openapi.ts";
import type { Endpoint } from "../src/http/endpoint.ts";
import { failures } from "../src/kernel/errors.ts";
import { endpoints } from "../src/api/index.ts";
import { commandsFile } from "./commands.ts";
import { helpPage } from "./help.ts";
import { withSharesTable } from "./shares-table.ts";

const HEADINGS: Record<(typeof COLUMNS)[number], string> = {
  sk_owner: "SK",
  sk_admin: "SK admin",
  sk_test: "SK test",
  ses_owner: "owner",
  ses_admin: "admin",
  ses_member: "member",
  embed: "embed",
  bootstrap: "boot",
  none: "none",
  api_key: "API key",
};

const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
const rule = (n: number): string => row(Array.from({ length: n }, () => "---"));

function endpointRow(endpoint: Endpoint): string {
  const { cells, open } = access[endpoint.access];
  const who = COLUMNS.map((column) => (open ? "Y" : cells[column]));
  return row([`\`${endpoint.name}\``, endpoint.summary.replaceAll("|", "\\|"), String(endpoint.status), ...who]);
}

function endpointSection(endpoint: Endpoint): string {
  const codes = [
    ...new Set(failuresOf(endpoint).map((name) => `${failures[name][0]} ${failures[name][1]}`)),
  ].toSorted();
  const lines = [
    `### ${endpoint.name}`,
    "",
    endpoint.summary,
    "",
    `Returns ${endpoint.status}. Errors: ${codes.join(", ")}.`,
  ];
  if (endpoint.emits.length > 0)
    lines.push("", `Audit: ${endpoint.emits.map((action) => `\`${action}\``).join(", ")}.`);
  if (endpoint.idempotent) lines.push("", "Accepts `Idempotency-Key`.");
  return lines.join("\n");
}

/** The endpoint table, the error table, and a section for each endpoint. */
export function apiPage(): string {
  const codes = Object.entries(failures).map(([name, [status, code, message]]) =>
    row([String(status), `\`${code}\``, message, `\`${name}\``]),
  );
  return [
    "# HTTP API",
    "",
    "Generated from the endpoint declarations by `npm run docs`. As OpenAPI 3.1: `GET /openapi.json` or `keyrack openapi`.",
    "",
    "## Endpoints and who may call them",
    "",
    "Y: allowed. T: allowed within the test environment. -: refused with 403. 401: not accepted as a credential.",
    "",
    row(["Endpoint", "Description", "Status", ...COLUMNS.map((column) => HEADINGS[column])]),
    rule(3 + COLUMNS.length),
    ...endpoints.map(endpointRow),
    "",
    "## Errors",
    "",
    'Every error response is `{"error": {"code", "message", "details"?}}`; `details` names the invalid fields.',
    "",
    row(["Status", "Code", "Message", "Name"]),
    rule(4),
    ...codes,
    "",
    "## Endpoint details",
    "",
    endpoints.map(endpointSection).join("\n\n"),
    "",
  ].join("\n");
}

export function configurePage(): string {
  const names = Object.keys(settingsTable) as SettingName[];
  const rows = names.map((name) => {
    const { env, defaultText, description } = settingsTable[name];
    return row([`\`${env}\``, `\`${fileKey(name)}\``, defaultText ? `\`${defaultText}\`` : "(unset)", description]);
  });
  return [
    "# Settings",
    "",
    "Generated from the settings table by `npm run docs`. Precedence, lowest first: defaults, `keyrack.toml`, environment, flags of `keyrack serve`.",
    "`keyrack config show` prints the values in effect and their source; `keyrack config example` prints a file to start from.",
    "",
    row(["Environment variable", "keyrack.toml", "Default", "Description"]),
    rule(4),
    ...rows,
    "",
  ].join("\n");
}

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(at("docs/api.md"), apiPage());
  writeFileSync(at("docs/configure.md"), configurePage());
  writeFileSync(at("docs/security.md"), withSharesTable(readFileSync(at("docs/security.md"), "utf8")));
  writeFileSync(at("src/cli/api/commands.gen.json"), commandsFile(endpoints));
  writeFileSync(at("test/golden/help.txt"), await helpPage());
  writeFileSync(at("test/golden/openapi.json"), `${JSON.stringify(openApiDocument(endpoints), null, 2)}\n`);
}
