// Consecutive reads of a worker thread share a connection to PostgreSQL.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freshDatabase, postgresUrl } from "../../../harness/databases/backends.ts";
import { rawSql } from "../../../harness/databases/raw-sql.ts";
import { withKeptSource } from "../../../src/store/threads/kept-source.ts";
import type { DatabaseTarget } from "../../../src/store/target.ts";

describe.skipIf(!postgresUrl)("a kept connection", () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  beforeAll(async () => {
    database = await freshDatabase("postgres");
  });
  afterAll(() => database.dispose());

  const session = (target: DatabaseTarget = database.target): Promise<number> =>
    withKeptSource(target, async (source) => {
      const [row] = await source.all<{ pid: number }>("select pg_backend_pid() as pid", []);
      return row?.pid ?? 0;
    });

  it("serves the reads that follow", async () => {
    const first = await session();
    expect([await session(), await session()]).toEqual([first, first]);
  });

  it("is replaced without an error when the server ended it", async () => {
    const first = await session();
    await rawSql(database.target, "select pg_terminate_backend($1)", [first]);
    expect(await session()).not.toBe(first);
  });

  it("is closed by a read that fails, which may have left a transaction open", async () => {
    const first = await session();
    const fails = withKeptSource(database.target, async (source) => {
      await source.begin();
      return source.all("select 1 / 0", []);
    });
    await expect(fails).rejects.toThrow("division by zero");
    expect(await session()).not.toBe(first);
  });

  it("serves no other database", async () => {
    const first = await session();
    const other = await freshDatabase("postgres");
    expect(await session(other.target)).not.toBe(first);
    await other.dispose();
  });

  it("is closed when no read follows", async () => {
    const first = await session();
    const open = () => rawSql(database.target, "select pid from pg_stat_activity where pid = $1", [first]);
    await expect.poll(open).toEqual([]);
  });
});
