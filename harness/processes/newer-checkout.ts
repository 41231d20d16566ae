// The next version of Keyrack: a copy of this checkout with a higher version and one more migration, so that an upgrade
// has something to do whatever this version is.
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VERSION } from "../../src/platform/version.ts";
import { root } from "../repository.ts";
import { bundleProgram } from "./bundled-program.ts";

const COPIED = ["bin", "data", "migrations", "package.json", "src"];
const LINKED = ["dist", "node_modules"];

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
export function makeNewerCheckout({ slowMs = 0 } = {}): NewerCheckout {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-next-"));
  for (const name of COPIED) cpSync(join(root, name), join(dir, name), { recursive: true });
  for (const name of LINKED) symlinkSync(join(root, name), join(dir, name));
  const version = join(dir, "src/platform/version.ts");
  writeFileSync(version, readFileSync(version, "utf8").replaceAll(`"${VERSION}"`, `"${NEXT_VERSION}"`));
  const write = (ending: string, sql: string): void =>
    writeFileSync(join(dir, "migrations", `${NEXT_MIGRATION}${ending}`), sql);
  write(".sql", TABLE);
  // Only the common part has placeholders.
  write(".sqlite.sql", COLUMNS.replace("{int}", "integer"));
  write(".postgres.sql", `select pg_sleep(${slowMs / 1000});\n${COLUMNS.replace("{int}", "bigint")}`);
  const bin = join(dir, "bin/keyrack");
  bundleProgram(dir, dir, bin);
  return { bin, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) };
}
