// A temporary data dir and database for one campaign or benchmark, removed at its end.
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { withPostgres } from "../../src/store/postgres/client.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { openDatabases } from "./open-databases.ts";

/** For an instance in this process use `target`; for a process of its own, `args`. */
export type Scratch = { dir: string; target: DatabaseTarget; args: string[] };

export const POSTGRES = process.env.KEYRACK_TEST_POSTGRES_URL ?? "postgres://postgres@127.0.0.1:5432/postgres";

/** Any backend but `postgres` gets a SQLite file. */
export async function withScratch<T>(
  backend: string,
  work: (scratch: Scratch) => Promise<T>,
  server = POSTGRES,
): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-prove-"));
  try {
    if (backend !== "postgres") {
      const target: DatabaseTarget = { kind: "sqlite", file: join(dir, "keyrack.db") };
      return await work({ dir, target, args: ["--data-dir", dir] });
    }
    return await withDatabase(server, (url) =>
      work({ dir, target: { kind: "postgres", url, pool: 4 }, args: ["--data-dir", dir, "--database-url", url] }),
    );
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function withDatabase<T>(server: string, work: (url: string) => Promise<T>): Promise<T> {
  const name = `keyrack_prove_${randomBytes(6).toString("hex")}`;
  openDatabases.add(name);
  return withPostgres(server, async (admin) => {
    try {
      await admin.query(`create database ${name} template template0 strategy file_copy encoding 'UTF8'`);
      const url = new URL(server);
      url.pathname = `/${name}`;
      return await work(url.href);
    } finally {
      await admin.query(`drop database if exists ${name} with (force)`);
      openDatabases.delete(name);
    }
  });
}

/** Calls `work` with a database URL, or with null for SQLite. */
export function withScratchDatabase<T>(backend: string, work: (url: string | null) => Promise<T>): Promise<T> {
  return backend === "sqlite" ? work(null) : withDatabase(POSTGRES, work);
}
