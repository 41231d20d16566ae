// Databases for tests on a PostgreSQL server: created, dropped, and removed after killed runs.
import { randomBytes } from "node:crypto";
import { withKept } from "./kept-connections.ts";
import { openDatabases } from "./open-databases.ts";
import { HOUR_MS } from "../../src/kernel/durations.ts";

const UNKNOWN_DATABASE = "3D000";
const DUPLICATE_DATABASE = "42P04";
/** The name contains the time of creation, so that databases of killed runs can be recognised. */
const OURS = /^keyrack_test_(\d{13})_[0-9a-f]{12}$/;

type Database = { name: string; url: string; drop(): Promise<void> };

export function newName(): string {
  return `keyrack_test_${Date.now()}_${randomBytes(6).toString("hex")}`;
}

/** An empty database, or a copy of `template`. */
export async function createDatabase(server: string, template = "template0"): Promise<Database> {
  const name = newName();
  // Copying files takes half the time of writing every page to the log.
  const how = `template ${template} strategy file_copy encoding 'UTF8'`;
  await withKept(server, (admin) => admin.query(`create database ${name} ${how}`));
  openDatabases.add(name);
  const url = new URL(server);
  url.pathname = `/${name}`;
  return { name, url: url.href, drop: () => dropDatabase(server, name) };
}

export async function dropDatabase(server: string, name: string): Promise<void> {
  await withKept(server, (admin) => admin.query(`drop database if exists ${name} with (force)`));
  openDatabases.delete(name);
}

/** A copy of `template`. The first caller creates the template; `fill` migrates it. */
export async function copyTemplate(
  server: string,
  template: string,
  fill: (url: string) => Promise<void>,
): Promise<Database> {
  try {
    return await createDatabase(server, template);
  } catch (error) {
    if ((error as { code?: string }).code !== UNKNOWN_DATABASE) throw error;
  }
  const made = await createDatabase(server);
  await fill(made.url);
  try {
    // It gets its name only when it is complete.
    await withKept(server, (admin) => admin.query(`alter database ${made.name} rename to ${template}`));
    openDatabases.delete(made.name);
  } catch (error) {
    await made.drop();
    if ((error as { code?: string }).code !== DUPLICATE_DATABASE) throw error;
  }
  return createDatabase(server, template);
}

/** Drops databases of killed runs: our own names only, older than an hour, without connections. */
export async function sweepLeftovers(server: string): Promise<void> {
  await withKept(server, async (admin) => {
    const { rows } = await admin.query<{ datname: string }>("select datname from pg_database");
    for (const { datname } of rows) {
      const made = Number(OURS.exec(datname)?.[1] ?? Number.NaN);
      if (!(made < Date.now() - HOUR_MS)) continue;
      await admin.query(`drop database if exists ${datname}`).catch(() => {});
    }
  });
}
