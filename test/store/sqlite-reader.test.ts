// Reads of one turn share a transaction: when it begins, when it ends, and what happens where it cannot end.
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import type { Connection } from "../../src/store/connect.ts";
import { SqliteReader } from "../../src/store/sqlite-reader.ts";

const ONE = { sql: "select 1 as one", values: [] };

it("a transaction that could not end is read in on, and ends with the next attempt", async () => {
  const db = new Database(":memory:");
  let broken = true;
  const said: string[] = [];
  const prepare = (sql: string) => {
    const statement = db.prepare(sql);
    if (sql !== "commit" && sql !== "begin") return statement;
    const run = (): void => {
      said.push(sql);
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

  expect(reader.first(ONE)).toEqual({ one: 1 });
  reader.renew();
  expect(reader.first(ONE)).toEqual({ one: 1 });
  expect([said, failures, db.inTransaction]).toEqual([["begin", "commit"], ["no end"], true]);
  broken = false;
  reader.renew();
  expect(db.inTransaction).toBe(false);
  expect(reader.first(ONE)).toEqual({ one: 1 });
  expect(said).toEqual(["begin", "commit", "commit", "begin"]);
  reader.renew();
  db.close();
});
