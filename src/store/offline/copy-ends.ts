// The two ends of a copy: pages of plain rows out of one database, and rows into another, in either dialect.
import { Client, TypeOverrides } from "pg";
import { connectSqlite } from "../sqlite/open.ts";
import type { DatabaseTarget } from "../target.ts";
import { openSource, type Source } from "./source.ts";

export type Row = (string | number | null | Uint8Array)[];
export type Page = { columns: string[]; rows: Row[] };

export type CopySource = {
  readonly source: Source;
  count(table: string): Promise<number>;
  pages(table: string): AsyncIterable<Page>;
  close(): Promise<void>;
};

export type CopySink = {
  insert(table: string, columns: string[], rows: Row[]): Promise<void>;
  /** Puts what was inserted in place, or drops it. */
  end(word: "commit" | "rollback"): Promise<void>;
};

const PAGE = 1_000;
const INT8 = 20;

/** Reads one moment of the database. */
export async function openCopySource(target: DatabaseTarget): Promise<CopySource> {
  const source = await openSource(target);
  const count = async (table: string): Promise<number> =>
    (await source.all<{ n: number }>(`select count(*) as n from "${table}"`, []))[0]?.n ?? 0;
  if (target.kind === "sqlite") return { source, count, ...sqlitePages(target.file, source) };
  const { pages, close } = await postgresPages(target.url);
  const end = async (): Promise<void> => {
    await close();
    await source.close();
  };
  return { source, count, pages, close: end };
}

function sqlitePages(file: string, source: Source): Pick<CopySource, "pages" | "close"> {
  const db = connectSqlite(file, { readonly: true, timeout: 5_000 });
  db.exec("begin");
  return {
    async *pages(table) {
      const statement = db.prepare(`select * from "${table}"`).raw();
      const columns = statement.columns().map(({ name }) => name);
      let rows: Row[] = [];
      for (const row of statement.iterate() as IterableIterator<Row>) {
        rows.push(row);
        if (rows.length < PAGE) continue;
        yield { columns, rows };
        rows = [];
      }
      if (rows.length > 0) yield { columns, rows };
    },
    async close() {
      db.close();
      await source.close();
    },
  };
}

function plainTypes(): TypeOverrides {
  const types = new TypeOverrides();
  types.setTypeParser(INT8, (text) => Number(text));
  return types;
}

async function connectPostgres(url: string): Promise<Client> {
  const client = new Client({ connectionString: url, types: plainTypes(), application_name: "keyrack copy" });
  client.on("error", () => {}); // the query that needs the connection fails, and that is told
  await client.connect();
  return client;
}

async function postgresPages(url: string): Promise<Pick<CopySource, "pages" | "close">> {
  const client = await connectPostgres(url);
  await client.query("begin isolation level repeatable read read only");
  return {
    async *pages(table) {
      await client.query(`declare rows no scroll cursor for select * from "${table}"`);
      for (;;) {
        const { fields, rows } = await client.query<Row>({ text: `fetch ${PAGE} from rows`, rowMode: "array" });
        if (rows.length === 0) break;
        yield { columns: fields.map(({ name }) => name), rows };
      }
      await client.query("close rows");
    },
    close: () => client.end(),
  };
}

/** Rows go into the tables of a schema that is up to date and empty. */
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
    async end(word) {
      db.exec(word);
      db.close();
    },
  };
}

type Column = { name: string; type: string };

async function postgresSink(url: string): Promise<CopySink> {
  const client = await connectPostgres(url);
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
      // One array a column: a page is one statement, however many rows it has.
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
    async end(word) {
      await client.query(word);
      await client.end();
    },
  };
}
