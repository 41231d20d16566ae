// The next version of Keyrack: this one with a higher version and one more migration, so that an upgrade has something
// to do whatever this version is.
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { VERSION } from "../../src/platform/version.ts";
import { root } from "../repository.ts";
import { bundledProgram } from "../setup/program.ts";
import { writeLauncher } from "./bundled-program.ts";

const COPIED = ["migrations"];
const LINKED = ["data", "dist", "node_modules", "package.json"];

/** The schema and the migration that the next version brings. */
export const NEXT_SCHEMA = 9001;
export const NEXT_MIGRATION = `${NEXT_SCHEMA}_next`;
const [major, minor] = VERSION.split(".").map(Number);
export const NEXT_VERSION = `${major}.${(minor ?? 0) + 1}.0`;

/** What any migration may do beside running processes: a new table, new columns that are nullable or have a default. */
const TABLE = "create table next_release (id {id} not null primary key, note text) {table};\n";
const COLUMNS = `alter table api_keys add column next_note text;
alter table projects add column next_limit {int} not null default 0;
`;

export type NewerCheckout = Disposable & {
  /** Its launcher. */
  bin: string;
};

/** `slowMs`: how long the migration takes on PostgreSQL, before it locks any table in use. */
export async function makeNewerCheckout({ slowMs = 0 } = {}): Promise<NewerCheckout> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-next-"));
  for (const name of COPIED) cpSync(join(root, name), join(dir, name), { recursive: true });
  for (const name of LINKED) symlinkSync(join(root, name), join(dir, name));
  const write = (ending: string, sql: string): void =>
    writeFileSync(join(dir, "migrations", `${NEXT_MIGRATION}${ending}`), sql);
  write(".sql", TABLE);
  // Only the common part has placeholders.
  write(".sqlite.sql", COLUMNS.replace("{int}", "integer"));
  write(".postgres.sql", `select pg_sleep(${slowMs / 1000});\n${COLUMNS.replace("{int}", "bigint")}`);
  const bin = join(dir, "keyrack");
  copyProgram(dirname(process.env.KEYRACK_TEST_PROGRAM ?? (await bundledProgram())), dir);
  writeLauncher(dir, bin);
  return { bin, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) };
}

/** The bundle of this checkout, in another folder and of the next version: to bundle again takes seconds. */
function copyProgram(from: string, dir: string): void {
  const urlOf = (folder: string): string => pathToFileURL(`${folder.replace(/\/$/, "")}/`).href;
  for (const name of globSync("**/*.cjs", { cwd: from })) {
    const script = readFileSync(join(from, name), "utf8")
      .replaceAll(urlOf(from), urlOf(dir))
      .replaceAll(`${urlOf(root)}src/`, `${urlOf(dir)}src/`)
      .replace(/(?<=\bVERSION ?= ?")[^"]+/, (version) => (version === VERSION ? NEXT_VERSION : version));
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), script);
  }
}
