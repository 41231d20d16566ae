// The read door on PostgreSQL: many questions on few connections.
import { describe, expect, it } from "vitest";
import { PostgresReader } from "../../../src/store/postgres/reader.ts";
import { backends, freshDatabase } from "../../../harness/databases/backends.ts";

describe.runIf(backends.includes("postgres"))("reading from PostgreSQL", () => {
  it("takes another connection only where those there are crowded, and never more than allowed", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const reader = new PostgresReader(target.url, { pipeline: true }, 3);
    const askedBy = async (many: number): Promise<number> => {
      const query = { sql: "select pg_backend_pid() as pid", values: [] };
      const rows = await Promise.all(Array.from({ length: many }, () => reader.first<{ pid: number }>(query)));
      return new Set(rows.map((row) => row?.pid)).size;
    };
    try {
      expect([await askedBy(12), await askedBy(13), await askedBy(100)]).toEqual([1, 2, 3]);
      await reader.end();
      await expect(askedBy(1)).rejects.toMatchObject({ failure: "stopping" });
    } finally {
      await reader.end();
      await dispose();
    }
  });
});
