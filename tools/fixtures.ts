// npm run fixtures: writes harness/fixtures/schema-NNNN.db.gz for each migration that has none: a filled database as a
// release with that schema would have written it. An existing fixture is never rewritten: it represents deployed
// databases. With --release it writes the fixtures of this version instead (release-fixture.ts).
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import Database from "better-sqlite3";
import { copyOrder } from "../src/store/offline/copy.ts";
import { openCopySource } from "../src/store/offline/copy-source.ts";
import { openCopySink } from "../src/store/offline/copy-sink.ts";
import { loadMigrations, migrate } from "../src/store/schema/migrate.ts";
import { SqliteDriver } from "../src/store/sqlite/driver.ts";
import { fillDeployment } from "./fixture-deployment.ts";
import { writeReleaseFixtures } from "./release-fixture.ts";

const folder = fileURLToPath(new URL("../harness/fixtures", import.meta.url));
const fileOf = (version: number): string => join(folder, `schema-${String(version).padStart(4, "0")}.db.gz`);

/** Copies the rows of the full database, limited to the tables and columns of an older schema. */
async function writeFixture(full: string, version: number, work: string): Promise<void> {
  const file = join(work, `${version}.db`);
  const driver = new SqliteDriver(file);
  const past = loadMigrations("sqlite").filter((each) => each.version <= version);
  await migrate(driver, { now: Date.UTC(2026, 10, 1), known: past });
  await driver.close();
  const source = await openCopySource({ kind: "sqlite", file: full });
  const old = await openCopySource({ kind: "sqlite", file });
  const tables = await copyOrder(old.source);
  const columnsOf = new Map<string, string[]>();
  for (const table of tables) {
    const rows = await old.source.all<{ name: string }>(`select name from pragma_table_info('${table}')`, []);
    columnsOf.set(
      table,
      rows.map(({ name }) => name),
    );
  }
  await old.close();
  const sink = await openCopySink({ kind: "sqlite", file });
  for (const table of tables) {
    for await (const { columns, rows } of source.pages(table)) {
      const kept = columns.flatMap((name, i) => (columnsOf.get(table)?.includes(name) ? [i] : []));
      await sink.insert(
        table,
        kept.map((i) => columns[i] ?? ""),
        rows.map((row) => kept.map((i) => row[i] ?? null)),
      );
    }
  }
  await sink.end("commit");
  await source.close();
  const db = new Database(file);
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.pragma("journal_mode=DELETE");
  db.exec("vacuum");
  db.close();
  writeFileSync(fileOf(version), gzipSync(readFileSync(file), { level: 9 }));
}

async function writeMissing(work: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const missing = loadMigrations("sqlite").filter(({ version }) => !existsSync(fileOf(version)));
  if (missing.length === 0) return console.log("Every migration has its fixture.");
  await fillDeployment(work, null);
  for (const { version } of missing) {
    await writeFixture(join(work, "keyrack.db"), version, work);
    console.log(fileOf(version));
  }
}

const work = mkdtempSync(join(tmpdir(), "keyrack-fixtures-"));
try {
  if (process.argv.includes("--release")) console.log((await writeReleaseFixtures(work)).join("\n"));
  else await writeMissing(work);
} finally {
  rmSync(work, { recursive: true, force: true });
}
