// PostgreSQL's reader: many queries in flight on few connections.
import { describe, expect, it } from "vitest";
import { PostgresReader } from "../../../src/store/postgres/reader.ts";
import { backends, freshDatabase } from "../../../harness/databases/backends.ts";

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
});
