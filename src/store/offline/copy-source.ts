// The source of a database copy: pages of plain rows from one snapshot, in either dialect.
import { connectPostgres } from "../postgres/client.ts";
import { connectSqlite } from "../sqlite/open.ts";
import type { DatabaseTarget } from "../target.ts";
import { openSource, type Source } from "./source.ts";

export type Row = (string | number | null | Uint8Array)[];
type Page = { columns: string[]; rows: Row[] };

export type CopySource = {
  readonly source: Source;
  count(table: string): Promise<number>;
  pages(table: string): AsyncIterable<Page>;
  close(): Promise<void>;
};

const PAGE_ROWS = 1_000;
/** Facts about backups of the source, which are not backups of the copy. */
const LOCAL_FACTS = "'last_backup', 'backup_failure', 'last_restore_test', 'restore_test_failure'";

/** A table as the source of a query, with the rows to copy. */
const copiedRows = (table: string): string =>
  table === "deployment" ? `deployment where name not in (${LOCAL_FACTS})` : `"${table}"`;

export async function openCopySource(target: DatabaseTarget): Promise<CopySource> {
  const source = await openSource(target);
  const count = async (table: string): Promise<number> =>
    (await source.all<{ n: number }>(`select count(*) as n from ${copiedRows(table)}`, []))[0]?.n ?? 0;
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
      const statement = db.prepare(`select * from ${copiedRows(table)}`).raw();
      const columns = statement.columns().map(({ name }) => name);
      let rows: Row[] = [];
      for (const row of statement.iterate() as IterableIterator<Row>) {
        rows.push(row);
        if (rows.length < PAGE_ROWS) continue;
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

async function postgresPages(url: string): Promise<Pick<CopySource, "pages" | "close">> {
  const client = await connectPostgres(url, { application_name: "keyrack copy" });
  await client.query("begin isolation level repeatable read read only");
  return {
    async *pages(table) {
      await client.query(`declare rows no scroll cursor for select * from ${copiedRows(table)}`);
      for (;;) {
        const { fields, rows } = await client.query<Row>({ text: `fetch ${PAGE_ROWS} from rows`, rowMode: "array" });
        if (rows.length === 0) break;
        yield { columns: fields.map(({ name }) => name), rows };
      }
      await client.query("close rows");
    },
    close: () => client.end(),
  };
}
