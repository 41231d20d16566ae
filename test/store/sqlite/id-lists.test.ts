// A list of ids, however long, is looked up by id: without statistics SQLite prefers to read all rows of the workspace.
import { describe, expect, it } from "vitest";
import { openRaw } from "../../../harness/databases/raw-sql.ts";
import { readyDatabase } from "../../../harness/databases/backends.ts";
import { openStore } from "../../../src/store/database.ts";
import { listStatements } from "../../../tools/statements.ts";

/** `"id" in (?)`, `key_id in (select value …)`, `(hour, group_id) in (values …)`: the columns, and the list. */
const LISTS = /(?:(?:\w+\.|"\w+"\.)?"?(\w*id)"?|\(([\w, ]+)\)) in \((?:\?|values|select value)/g;
/** A list that narrows a range of another index. */
const FILTERS = new Set(["project_id", "tenant_id"]);

const longer = (sql: string): string =>
  sql.replaceAll(" in (?)", ` in (${Array.from({ length: 600 }, () => "?").join()})`);

describe("a list of ids", () => {
  it("is one parameter in every statement, whose text does not depend on its length", async () => {
    const { sqlite, postgres } = await listStatements();
    expect([...sqlite, ...postgres].filter((sql) => /\bin \((\?|\$\d)/.test(sql))).toEqual([]);
  });

  it("is looked up by id in every statement", async () => {
    const { target, dispose } = await readyDatabase("sqlite");
    await (await openStore(target, { now: Date.now, fatal: () => {} })).close();
    const raw = await openRaw(target);
    try {
      const walks: string[] = [];
      let lists = 0;
      for (const sql of (await listStatements()).sqlite) {
        const named = Array.from(sql.matchAll(LISTS), ([, id = "", ids]) => ids?.split(", ") ?? [id]);
        const columns = named.flat().filter((column) => !FILTERS.has(column));
        if (columns.length === 0) continue;
        lists++;
        const text = longer(sql);
        const values = Array.from(text.matchAll(/\?/g), () => "[]");
        const plan = (await raw.all(`explain query plan ${text}`, values)).map(({ detail }) => String(detail));
        /** A plan calls an integer primary key `rowid`. */
        const isFound = (column: string): boolean =>
          plan.some((line) => line.startsWith("SEARCH") && new RegExp(`\\b(${column}|rowid)=`).test(line));
        if (!columns.every(isFound)) walks.push(`${sql}\n${plan.join("\n")}`);
      }
      expect(lists).toBeGreaterThan(15);
      expect(walks).toEqual([]);
    } finally {
      await raw.close();
      await dispose();
    }
  });
});
