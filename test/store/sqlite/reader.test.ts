// The snapshot that reads of one event loop turn share: when it begins and ends, and what it memoizes.
import Database from "better-sqlite3";
import { expect, it, vi } from "vitest";
import type { Connection } from "../../../src/store/sqlite/open.ts";
import { SqliteReader } from "../../../src/store/sqlite/reader.ts";
import { QueryMemo } from "../../../src/store/engine/query-memo.ts";
import type { Query } from "../../../src/store/engine/tx.ts";

const ONE = { sql: "select 1 as one", values: [] };

it("a snapshot that could not end stays in use and ends with the next attempt", async () => {
  const db = new Database(":memory:");
  let broken = true;
  const ran: string[] = [];
  const prepare = (sql: string) => {
    const statement = db.prepare(sql);
    if (sql !== "commit" && sql !== "begin") return statement;
    const run = (): void => {
      ran.push(sql);
      if (sql === "commit" && broken) throw new Error("no end");
      statement.run();
    };
    return { run };
  };
  const connection = {
    prepare,
    get inTransaction(): boolean {
      return db.inTransaction;
    },
  } as unknown as Connection;
  const failures: string[] = [];
  const reader = new SqliteReader(connection, (error) => void failures.push((error as Error).message));

  expect(await reader.first(ONE)).toEqual({ one: 1 });
  reader.endSnapshot();
  expect(await reader.first(ONE)).toEqual({ one: 1 });
  expect([ran, failures, db.inTransaction]).toEqual([["begin", "commit"], ["no end"], true]);
  broken = false;
  reader.endSnapshot();
  expect(db.inTransaction).toBe(false);
  expect(await reader.first(ONE)).toEqual({ one: 1 });
  expect(ran).toEqual(["begin", "commit", "commit", "begin"]);
  reader.endSnapshot();
  db.close();
});

it("firstMemoized reads a row once per snapshot, and again in the next", async () => {
  const db = new Database(":memory:");
  db.exec("create table t (id text, n integer); insert into t values ('a', 1), ('b', 1)");
  const ran = vi.fn();
  db.function("seen", (id) => {
    ran(id);
    return 1;
  });
  const reader = new SqliteReader(db, () => {});
  const row = (id: string) =>
    reader.firstMemoized<{ n: number }>({ sql: "select n from t where id = ? and seen(id)", values: [id] });
  const times = (): number => ran.mock.calls.splice(0).length;

  expect([row("a"), row("a"), row("b"), row("a")]).toEqual([{ n: 1 }, { n: 1 }, { n: 1 }, { n: 1 }]);
  expect(times()).toBe(2);
  db.exec("update t set n = 2"); // the driver ends the snapshot at every commit
  reader.endSnapshot();
  expect([row("a"), row("b"), row("b")]).toEqual([{ n: 2 }, { n: 2 }, { n: 2 }]);
  expect(times()).toBe(2);
  await new Promise((resolve) => setImmediate(resolve)); // the snapshot ends with the turn
  expect(row("a")).toEqual({ n: 2 });
  expect(times()).toBe(1);
  await reader.withoutSnapshot(async () => {
    expect([row("a"), row("a")]).toEqual([{ n: 2 }, { n: 2 }]);
    expect(times()).toBe(2);
  });
  reader.endSnapshot();
  db.close();
});

it("first reports failures by rejecting, firstMemoized by throwing", async () => {
  const db = new Database(":memory:");
  const failures: unknown[] = [];
  const reader = new SqliteReader(db, (error) => void failures.push(error));
  const bad = { sql: "select * from missing", values: [] };
  const both = [reader.first(bad), reader.first(bad)];
  for (const result of await Promise.allSettled(both)) expect(result.status).toBe("rejected");
  expect(() => reader.firstMemoized(bad)).toThrow("no such table");
  expect(failures).toHaveLength(3);
  reader.endSnapshot();
  db.close();
});

it("the query memo distinguishes SQL text, every value and its type", () => {
  const memo = new QueryMemo();
  let n = 0;
  const get = (sql: string, ...values: Query["values"]): number => memo.getOrRun({ sql, values }, () => ++n);
  const all = (): number[] => [
    get("a"),
    get("b"),
    get("c", "x", "y"),
    get("c", "x", "z"),
    get("c", "y", "x"),
    get("c", "", null),
    get("c", null, ""),
    get("d", 1),
    get("d", "1"),
    get("d", null),
  ];
  expect(all()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  expect(all()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  memo.clear();
  expect(get("a")).toBe(11);
});
