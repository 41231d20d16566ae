// How many idempotency records each environment of a workspace has, and the bytes of their stored responses. What
// changes records adds to both in its transaction, so no crash makes them differ; processes of an earlier release do
// not.
import { sql } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { bulkInsert } from "../engine/bulk-insert.ts";
import { rowBy } from "../engine/rows.ts";
import { selectRow, statement } from "../engine/statement.ts";
import type { AdditiveUpsert, Reader, Tally, Tx } from "../engine/tx.ts";
import type { IdempotencyCellRow } from "../schema/tables.ts";

type Cell = { workspace_id: string; env: Env };

const COUNTS = ["records", "stored_bytes"] as const;
type Count = (typeof COUNTS)[number];

/** Floors at 0: a record that was not counted when it was made may be subtracted. */
const sum = (column: Count) => {
  const total = sql<number>`idempotency_cells.${sql.ref(column)} + excluded.${sql.ref(column)}`;
  return sql<number>`case when ${total} < 0 then 0 else ${total} end`;
};

export const cellUpsert: AdditiveUpsert<IdempotencyCellRow> = {
  keyOf: ({ workspace_id, env }) => `${workspace_id} ${env}`,
  plus: (a, b) => ({ ...a, records: a.records + b.records, stored_bytes: a.stored_bytes + b.stored_bytes }),
  write: bulkInsert<IdempotencyCellRow>(["workspace_id", "env", ...COUNTS], (db, rows) =>
    db
      .insertInto("idempotency_cells")
      .values(rows)
      .onConflict((oc) =>
        oc.columns(["workspace_id", "env"]).doUpdateSet({ records: sum("records"), stored_bytes: sum("stored_bytes") }),
      ),
  ),
};

const cellAt = rowBy("idempotency_cells", ["workspace_id", "env"]);

/** Read once for the jobs of a batch. */
export function tallyCell(tx: Tx, { workspace_id, env }: Cell, count: Count): Promise<Tally> {
  return tx.tally(`idempotency ${count} ${workspace_id}/${env}`, async () => {
    return (await cellAt.first(tx, { workspace_id, env }))?.[count] ?? 0;
  });
}

/** Adds the cells of records that were made before there were cells. Their counts come with the next comparison. */
export function addMissingCells(on: Tx): Promise<number> {
  const sql = `insert into idempotency_cells (workspace_id, env, records, stored_bytes)
    select workspaces.id, envs.env, 0, 0 from workspaces cross join (select 'live' as env union all select 'test') as envs
    where exists (
      select 1 from idempotency_records as record where record.workspace_id = workspaces.id and record.env = envs.env
    ) on conflict do nothing`;
  return on.run({ sql, values: [] });
}

/** Without any cell there is nothing to compare. */
export const anyCell = statement()((db) => db.selectFrom("idempotency_cells").select("workspace_id").limit(1));

/** The first cell behind another, with what its counts have too much. One statement, so that it sees one moment. */
export function nextExcess(on: Reader, after: Cell) {
  return selectRow(on, (db) =>
    db
      .selectFrom("idempotency_cells as cell")
      .select((eb) => {
        const records = eb
          .selectFrom("idempotency_records as record")
          .whereRef("record.workspace_id", "=", "cell.workspace_id")
          .whereRef("record.env", "=", "cell.env");
        const found = { records: sql<number>`count(*)`, stored_bytes: sql<number>`coalesce(sum(stored_bytes), 0)` };
        return [
          "cell.workspace_id",
          "cell.env",
          ...COUNTS.map((count) => {
            const counted = records.select(found[count].as("n"));
            return sql<number>`cast(${sql.ref(`cell.${count}`)} - (${counted}) as bigint)`.as(count);
          }),
        ];
      })
      .where(sql<boolean>`(cell.workspace_id, cell.env) > (${after.workspace_id}, ${after.env})`)
      .orderBy("cell.workspace_id")
      .orderBy("cell.env")
      .limit(1),
  );
}
