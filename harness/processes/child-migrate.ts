// A process that migrates a database when it is signalled, or is killed in the middle of it.
import { once } from "node:events";
import { PostgresDriver } from "../../src/store/postgres/driver.ts";
import { loadMigrations, migrate } from "../../src/store/schema/migrate.ts";
import { openStore } from "../../src/store/database.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { SqliteDriver } from "../../src/store/sqlite/driver.ts";

type Args = { target: DatabaseTarget; killAfter?: string };
const { target, killAfter } = JSON.parse(process.argv[2] ?? "{}") as Args;

/** Kills the process right after the statement that contains this text. */
async function migrateAndDie(text: string): Promise<void> {
  const driver = target.kind === "sqlite" ? new SqliteDriver(target.file) : new PostgresDriver(target.url, target.pool);
  await driver.open();
  const execScript = driver.execScript.bind(driver);
  driver.execScript = async (sql) => {
    await execScript(sql);
    if (sql.includes(text)) process.kill(process.pid, "SIGKILL");
  };
  const later = { version: 9001, name: "9001_later", checksum: "x", sql: "create table later (id text)" };
  await migrate(driver, { now: Date.now(), known: [...loadMigrations(driver.dialect), later] });
}

if (killAfter) await migrateAndDie(killAfter);
else {
  console.log("ready");
  await once(process.stdin, "data");
  const store = await openStore(target, { now: Date.now, fatal: () => process.exit(70) });
  console.log(JSON.stringify(store.applied));
  await store.close();
  process.exit(0);
}
