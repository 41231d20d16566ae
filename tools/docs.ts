// `npm run docs`: writes what is generated from tables: docs/api.md, docs/configure.md, docs/jobs.md, docs/limits.md, a
// table of docs/isolation.md, the CLI's commands.gen.json and the golden files for help and OpenAPI.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { envOf, settingNamesByGroup, settingsTable, type SettingName } from "../src/config/settings.ts";
import { openApiDocument } from "../src/http/openapi.ts";
import { endpoints } from "../src/api/index.ts";
import { apiPage } from "./api-page.ts";
import { commandsFile } from "./commands.ts";
import { helpPage } from "./help.ts";
import { jobsPage } from "./jobs-page.ts";
import { limitsPage } from "./limits-page.ts";
import { heading, row } from "./markdown.ts";
import { withSharesTable } from "./shares-table.ts";

export function configurePage(): string {
  const rowOf = (name: SettingName): string => {
    const { defaultText, description } = settingsTable[name];
    return row([`\`${envOf(name)}\``, `\`${name}\``, defaultText ? `\`${defaultText}\`` : "(unset)", description]);
  };
  const groups = settingNamesByGroup.flatMap(({ title, names }) => [
    `## ${title}`,
    "",
    ...heading(["Environment variable", "keyrack.toml", "Default", "Description"]),
    ...names.map(rowOf),
    "",
  ]);
  return [
    "# Settings",
    "",
    "Generated from the settings table by `npm run docs`. Precedence, lowest first: defaults, `keyrack.toml`, environment, flags of `keyrack serve`.",
    "`keyrack config show` prints the values in effect and their source; `keyrack config example` prints a file to start from.",
    "",
    ...groups,
  ].join("\n");
}

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(at("docs/api.md"), apiPage());
  writeFileSync(at("docs/configure.md"), configurePage());
  writeFileSync(at("docs/jobs.md"), jobsPage());
  writeFileSync(at("docs/limits.md"), limitsPage());
  writeFileSync(at("docs/isolation.md"), withSharesTable(readFileSync(at("docs/isolation.md"), "utf8")));
  writeFileSync(at("src/cli/api/commands.gen.json"), commandsFile(endpoints));
  writeFileSync(at("test/golden/help.txt"), await helpPage());
  writeFileSync(at("test/golden/openapi.json"), `${JSON.stringify(await openApiDocument(endpoints), null, 2)}\n`);
}
