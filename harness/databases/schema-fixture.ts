// A filled database of a past schema (harness/fixtures/schema-NNNN.db.gz), written by `npm run fixtures`.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { copyRows } from "../../src/store/offline/copy.ts";
import { openCopySink } from "../../src/store/offline/copy-sink.ts";
import { openCopySource } from "../../src/store/offline/copy-source.ts";
import { PostgresDriver } from "../../src/store/postgres/driver.ts";
import { loadMigrations, migrate } from "../../src/store/schema/migrate.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { FIXTURE_MASTER_KEY } from "../instances/world.ts";
import { freshDatabase, type Backend } from "./backends.ts";

export const SCHEMA_FIXTURES = fileURLToPath(new URL("../fixtures", import.meta.url));

export const schemaFixtureName = (version: number): string => `schema-${String(version).padStart(4, "0")}.db.gz`;

export type SchemaFixture = AsyncDisposable & { target: DatabaseTarget /** With its master key. */; dir: string };

/** On SQLite the fixture itself; on PostgreSQL its rows in tables created by the same migrations. */
export async function openSchemaFixture(backend: Backend, version: number): Promise<SchemaFixture> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
  const file = join(dir, "keyrack.db");
  writeFileSync(file, gunzipSync(readFileSync(join(SCHEMA_FIXTURES, schemaFixtureName(version)))), { mode: 0o600 });
  writeFileSync(join(dir, "master.key"), FIXTURE_MASTER_KEY, { mode: 0o600 });
  const fresh = backend === "postgres" ? await freshDatabase(backend) : null;
  if (fresh?.target.kind === "postgres") await loadPostgres(fresh.target, file, version);
  return {
    dir,
    target: fresh?.target ?? { kind: "sqlite", file },
    async [Symbol.asyncDispose]() {
      await fresh?.dispose();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

async function loadPostgres(target: DatabaseTarget & { kind: "postgres" }, file: string, version: number) {
  const driver = new PostgresDriver(target.url, 1);
  await driver.open();
  const past = loadMigrations("postgres").filter((each) => each.version <= version);
  await migrate(driver, { now: 1, known: past });
  await driver.close();
  const source = await openCopySource({ kind: "sqlite", file });
  const sink = await openCopySink(target);
  await copyRows(source, sink, () => {});
  await sink.end("commit");
  await source.close();
}
