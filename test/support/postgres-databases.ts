// Databases of the tests' own on a PostgreSQL server: made, dropped, and swept after killed runs.
import { randomBytes } from "node:crypto";
import { Client } from "pg";

const HOUR_MS = 3_600_000;
/** The name tells when it was made, so that what a killed run left behind can be told from what is in use. */
const OURS = /^keyrack_test_(\d{13})_[0-9a-f]{12}$/;

export async function withAdmin<T>(url: string, work: (admin: Client) => Promise<T>): Promise<T> {
  const admin = new Client({ connectionString: url });
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.end();
  }
}

export async function createDatabase(server: string): Promise<{ url: string; drop(): Promise<void> }> {
  const name = `keyrack_test_${Date.now()}_${randomBytes(6).toString("hex")}`;
  await withAdmin(server, (admin) => admin.query(`create database ${name} template template0 encoding 'UTF8'`));
  const url = new URL(server);
  url.pathname = `/${name}`;
  const drop = async (): Promise<void> => {
    await withAdmin(server, (admin) => admin.query(`drop database if exists ${name} with (force)`));
  };
  return { url: url.href, drop };
}

/** Drops what killed runs left: only our own names, older than an hour, and nothing that somebody is connected to. */
export async function sweepLeftovers(server: string): Promise<void> {
  await withAdmin(server, async (admin) => {
    const { rows } = await admin.query<{ datname: string }>("select datname from pg_database");
    for (const { datname } of rows) {
      const made = Number(OURS.exec(datname)?.[1] ?? Number.NaN);
      if (!(made < Date.now() - HOUR_MS)) continue;
      await admin.query(`drop database if exists ${datname}`).catch(() => {});
    }
  });
}
