// The sink of a database copy: inserts rows in one transaction, in either dialect.
import { connectPostgres } from "../postgres/client.ts";
import { connectSqlite } from "../sqlite/open.ts";
import type { DatabaseTarget } from "../target.ts";
import type { Row } from "./copy-source.ts";

export type CopySink = {
  insert(table: string, columns: string[], rows: Row[]): Promise<void>;
  /** Ends the transaction and closes the connection. */
  end(how: "commit" | "rollback"): Promise<void>;
};

/** The target's schema must be migrated and empty. */
export async function openCopySink(target: DatabaseTarget): Promise<CopySink> {
  return target.kind === "sqlite" ? sqliteSink(target.file) : postgresSink(target.url);
}

function sqliteSink(file: string): CopySink {
  const db = connectSqlite(file, { timeout: 0 });
  db.pragma("synchronous=FULL");
  db.pragma("foreign_keys=ON");
  db.exec("begin immediate");
  return {
    async insert(table, columns, rows) {
      const names = columns.map((name) => `"${name}"`).join(", ");
      const statement = db.prepare(`insert into "${table}" (${names}) values (${columns.map(() => "?").join(", ")})`);
      for (const row of rows) statement.run(row);
    },
    async end(how) {
      db.exec(how);
      db.close();
    },
  };
}

type Column = { name: string; type: string };

async function postgresSink(url: string): Promise<CopySink> {
  const client = await connectPostgres(url, { application_name: "keyrack copy" });
  await client.query("begin");
  const types = new Map<string, Column[]>();
  const typesOf = async (table: string): Promise<Column[]> => {
    const known = types.get(table);
    if (known) return known;
    const { rows } = await client.query<Column>(
      `select attname as name, format_type(atttypid, null) as type from pg_attribute
        where attrelid = $1::regclass and attnum > 0 and not attisdropped`,
      [table],
    );
    types.set(table, rows);
    return rows;
  };
  return {
    async insert(table, columns, rows) {
      const known = await typesOf(table);
      // One array per column: the statement is the same for any number of rows.
      const arrays = columns.map(
        (name, i) => `$${i + 1}::${known.find((each) => each.name === name)?.type ?? "text"}[]`,
      );
      const names = columns.map((name) => `"${name}"`).join(", ");
      const values = columns.map((_name, i) => rows.map((row) => row[i] ?? null));
      await client.query({
        name: `copy ${table}`,
        text: `insert into "${table}" (${names}) select * from unnest(${arrays.join(", ")})`,
        values,
      });
    },
    async end(how) {
      await client.query(how);
      await client.end();
    },
  };
}
