// npm run fixtures -- --release: writes what later versions must live with. test/fixtures/release-V.tar.gz is the data
// that this version leaves behind: a filled data dir on SQLite, one on PostgreSQL with its dump, and what the users of
// both hold (facts.json). test/fixtures/statements-V.json is the SQL that its processes run, surface-V.json what its
// users rely on by name. None of them is ever rewritten.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withScratchDatabase } from "../harness/databases/scratch.ts";
import type { DeploymentFacts, ReleaseFacts } from "../harness/instances/release-data.ts";
import { createBackup } from "../src/backup/create.ts";
import { VERSION } from "../src/platform/version.ts";
import { toolConnection } from "../src/store/postgres/tools.ts";
import { loadMigrations } from "../src/store/schema/migrate.ts";
import { fillDeployment } from "./fixture-deployment.ts";
import { listStatements } from "./statements.ts";
import { surfaceOf } from "./surface.ts";

const RELEASE_FIXTURES = fileURLToPath(new URL("../test/fixtures", import.meta.url));
const KEEP_MS = 1_000;
/** Nothing of it is data: the first is empty, the second is a socket. */
const LEFT_OUT = ["keyrack.lock", "keyrack.sock"];

export async function writeReleaseFixtures(work: string): Promise<string[]> {
  const data = join(RELEASE_FIXTURES, `release-${VERSION}.tar.gz`);
  const statements = join(RELEASE_FIXTURES, `statements-${VERSION}.json`);
  const surface = join(RELEASE_FIXTURES, `surface-${VERSION}.json`);
  for (const file of [data, statements, surface])
    if (existsSync(file)) throw new Error(`${file} exists, and the fixtures of a release never change.`);
  mkdirSync(RELEASE_FIXTURES, { recursive: true });
  writeFileSync(statements, `${JSON.stringify(await listStatements(), null, 1)}\n`);
  writeFileSync(surface, `${JSON.stringify(surfaceOf(join(RELEASE_FIXTURES, "../..")), null, 1)}\n`);
  await writeData(data, work);
  return [data, statements, surface];
}

async function writeData(file: string, work: string): Promise<void> {
  const folder = join(work, "release");
  const [sqlite, postgres] = [join(folder, "sqlite"), join(folder, "postgres")];
  for (const dir of [sqlite, postgres]) mkdirSync(dir, { recursive: true, mode: 0o700 });
  const facts: ReleaseFacts = {
    version: VERSION,
    schema: loadMigrations("sqlite").at(-1)?.version ?? 0,
    sqlite: await fillDeployment(sqlite, null, async ({ services }) => void (await createBackup(services))),
    postgres: await withScratchDatabase("postgres", (url) => fillPostgres(postgres, url ?? "")),
    at: new Date(Date.now() + KEEP_MS).toISOString(),
  };
  writeFileSync(join(folder, "facts.json"), `${JSON.stringify(facts, null, 2)}\n`);
  for (const dir of [sqlite, postgres]) for (const name of LEFT_OUT) rmSync(join(dir, name), { force: true });
  const owner = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner"];
  execFileSync("tar", [...owner, "-czf", file, "-C", folder, "."]);
}

/** The dump is plain SQL with inserts: any PostgreSQL loads it, and no client program is needed for that. */
async function fillPostgres(dir: string, url: string): Promise<DeploymentFacts> {
  const facts = await fillDeployment(dir, url);
  const { dbname, env } = toolConnection(url);
  const args = ["--inserts", "--no-owner", "--no-privileges", "--schema=public", `--file=${join(dir, "dump.sql")}`];
  execFileSync("pg_dump", [...args, `--dbname=${dbname}`], { env });
  return facts;
}
