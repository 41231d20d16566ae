// A PostgreSQL database that lives as long as a campaign.
import { randomBytes } from "node:crypto";
import pg from "pg";

const SERVER = process.env.KEYRACK_TEST_POSTGRES_URL ?? "postgres://postgres@127.0.0.1:5432/postgres";

/** Calls `work` with a database URL, or with null for SQLite. */
export async function withScratchDatabase<T>(backend: string, work: (url: string | null) => Promise<T>): Promise<T> {
  if (backend === "sqlite") return work(null);
  const name = `keyrack_prove_${randomBytes(6).toString("hex")}`;
  const admin = new pg.Client({ connectionString: SERVER });
  await admin.connect();
  try {
    await admin.query(`create database ${name}`);
    const url = new URL(SERVER);
    url.pathname = `/${name}`;
    return await work(url.href);
  } finally {
    await admin.query(`drop database if exists ${name} with (force)`);
    await admin.end();
  }
}
