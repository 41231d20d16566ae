// Everything a database stores, as one text: for tests that search for what must not be in it.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect } from "vitest";
import type { TestInstance } from "./test-instance.ts";

/** Every byte of the database: its files, or each table as text. */
export async function everythingStored(instance: TestInstance): Promise<string> {
  if (instance.target.kind === "sqlite") {
    const dir = dirname(instance.target.file);
    const names = readdirSync(dir);
    expect(names.some((name) => name.endsWith("-wal"))).toBe(true);
    return names.map((name) => readFileSync(join(dir, name), "latin1")).join("\n");
  }
  const tables = await instance.sql("select tablename from pg_tables where schemaname = 'public'");
  const texts: string[] = [];
  for (const { tablename } of tables) {
    const rows = await instance.sql(`select t::text as row from "${String(tablename)}" t`);
    texts.push(...rows.map(({ row }) => String(row)));
    // Bytes are shown in hex: add their text, too.
    const hex = rows.flatMap(({ row }) => [...String(row).matchAll(/\\x([0-9a-f]+)/g)].map(([, bytes = ""]) => bytes));
    texts.push(...hex.map((bytes) => Buffer.from(bytes, "hex").toString("latin1")));
  }
  return texts.join("\n");
}
