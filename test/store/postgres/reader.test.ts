// PostgreSQL's reader: many queries in flight on few connections.
import type { Client } from "pg";
import { describe, expect, it } from "vitest";
import { openStore } from "../../../src/store/database.ts";
import { PostgresReader } from "../../../src/store/postgres/reader.ts";
import { backends, freshDatabase, readyDatabase } from "../../../harness/databases/backends.ts";
import { openRaw } from "../../../harness/databases/raw-sql.ts";

describe.runIf(backends.includes("postgres"))("reading from PostgreSQL", () => {
  it("opens another connection only when all are busy, and never more than the maximum", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const reader = new PostgresReader(target.url, { pipeline: true }, 3);
    const connectionsFor = async (queries: number): Promise<number> => {
      const query = { sql: "select pg_backend_pid() as pid", values: [] };
      const rows = await Promise.all(Array.from({ length: queries }, () => reader.first<{ pid: number }>(query)));
      return new Set(rows.map((row) => row?.pid)).size;
    };
    try {
      expect([await connectionsFor(12), await connectionsFor(13), await connectionsFor(100)]).toEqual([1, 2, 3]);
      await reader.end();
      await expect(connectionsFor(1)).rejects.toMatchObject({ failure: "stopping" });
    } finally {
      await reader.end();
      await dispose();
    }
  });

  it("repeats a read that PostgreSQL ends to resolve a deadlock with a migration", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const migration = await openRaw(target);
    const reader = new PostgresReader(target.url, { pipeline: true }, 1);
    try {
      await migration.all("create table one (id int); create table two (id int)");
      await migration.all("set deadlock_timeout = '1min'"); // the reader looks first and is the one that ends
      await migration.all("begin");
      await migration.all("lock table two in access exclusive mode");
      const reading = reader.all({ sql: "select one.id from one join two on two.id = one.id", values: [] });
      const waiting = "select 1 from pg_locks where not granted and relation = 'two'::regclass";
      await expect.poll(() => migration.all(waiting)).not.toEqual([]);
      await migration.all("lock table one in access exclusive mode"); // granted when the read has ended
      await migration.all("commit");
      expect(await reading).toEqual([]);
    } finally {
      await reader.end();
      await migration.close();
      await dispose();
    }
  });

  it("answers other reads while a slow one waits", async () => {
    const { target, dispose } = await readyDatabase("postgres");
    const other = await openRaw(target);
    const store = await openStore(target, { now: Date.now, fatal: () => {} });
    try {
      await other.all("begin");
      await other.all("lock table usage_days in access exclusive mode");
      const slow = store.readOnThread({ sql: "select 1 as n from usage_days", values: [] });
      const waiting = "select 1 from pg_locks where not granted and relation = 'usage_days'::regclass";
      await expect.poll(() => other.all(waiting)).not.toEqual([]);
      expect(await store.read.all({ sql: "select 1 as n", values: [] })).toEqual([{ n: 1 }]);
      await other.all("commit");
      expect(await slow).toEqual([]);
    } finally {
      await store.close();
      await other.close();
      await dispose();
    }
  });

  it("sends a read again whose connection was cut before it was ready, and none to a server that is not there", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    let opened = 0;
    const check = async (client: Client): Promise<void> => {
      if (++opened <= 2) await client.query("select pg_terminate_backend(pg_backend_pid())");
    };
    const reader = new PostgresReader(target.url, { pipeline: true, check }, 3);
    const nowhere = new PostgresReader("postgres://127.0.0.1:1/none", { pipeline: true }, 3);
    const query = { sql: "select 1 as n", values: [] };
    try {
      expect(await Promise.all([reader.all(query), reader.all(query)])).toEqual([[{ n: 1 }], [{ n: 1 }]]);
      expect(opened).toBe(3);
      await expect(nowhere.all(query)).rejects.toMatchObject({ failure: "unavailable" });
    } finally {
      await reader.end();
      await nowhere.end();
      await dispose();
    }
  });

  it("sends the reads of a broken connection again, and closes it once", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const other = await openRaw(target);
    const reader = new PostgresReader(target.url, { pipeline: true }, 1);
    const warnings: Error[] = [];
    const note = (warning: Error) => void (warning.name === "MaxListenersExceededWarning" && warnings.push(warning));
    process.on("warning", note);
    try {
      await other.all("create table held (id int)");
      await other.all("begin");
      await other.all("lock table held in access exclusive mode");
      const reads = Array.from({ length: 20 }, () => reader.all({ sql: "select id from held", values: [] }));
      const waiting = "select pid from pg_locks where not granted and relation = 'held'::regclass";
      await expect.poll(() => other.all(waiting)).not.toEqual([]);
      await other.all(`select pg_terminate_backend(pid) from (${waiting}) w`);
      await other.all("commit");
      expect(await Promise.all(reads)).toEqual(reads.map(() => []));
      expect(warnings).toEqual([]); // Node warns of more than ten listeners
    } finally {
      process.off("warning", note);
      await reader.end();
      await other.close();
      await dispose();
    }
  });
});
