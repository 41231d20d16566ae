// Every value sealed under the master key, table by table, for rotating the master key.
import { sql } from "kysely";
import { selectRows, statement } from "../engine/statement.ts";
import type { Reader, Tx } from "../engine/tx.ts";

/** `id` is the row's id, to which the seal is bound. */
type SealedValue = { id: string; sealed: Uint8Array };

export type SealedTable = {
  table: "signing_keys" | "outbox" | "idempotency_records";
  /** The next rows after an id, in id order. */
  page: (on: Reader, after: string, limit: number) => Promise<SealedValue[]>;
  put: (tx: Tx, row: SealedValue) => Promise<number>;
};

function keyedById(table: "signing_keys" | "outbox", column: "sealed_private_key" | "sealed_message"): SealedTable {
  const put = statement<SealedValue>()((db, p) =>
    db
      .updateTable(table as "outbox")
      .set({ [column]: p.sealed })
      .where("id", "=", p.id),
  );
  return {
    table,
    page: (on, after, limit) =>
      selectRows(on, (db) =>
        db
          .selectFrom(table as "outbox")
          .select(["id", sql.ref<Uint8Array>(column).as("sealed")])
          .where(sql.ref(column), "is not", null)
          .where("id", ">", after)
          .orderBy("id")
          .limit(limit),
      ),
    put: (tx, row) => put.run(tx, row),
  };
}

const claimId = sql<string>`workspace_id || '/' || env || '/' || scope_hash`;

const putClaim = statement<{ workspace_id: string; env: string; scope_hash: string; sealed: Uint8Array }>()((db, p) =>
  db
    .updateTable("idempotency_records")
    .set({ sealed_response: p.sealed })
    .where("workspace_id", "=", p.workspace_id)
    .where("env", "=", p.env as "live")
    .where("scope_hash", "=", p.scope_hash),
);

/** An idempotency record has no id: its seal is bound to the three parts of its primary key. */
const claims: SealedTable = {
  table: "idempotency_records",
  page: (on, after, limit) =>
    selectRows(on, (db) =>
      db
        .selectFrom("idempotency_records")
        .select([claimId.as("id"), "sealed_response as sealed"])
        .where("sealed_response", "is not", null)
        .where(claimId, ">", after)
        .orderBy(claimId)
        .limit(limit)
        .$castTo<SealedValue>(),
    ),
  put: (tx, { id, sealed }) => {
    const [workspace_id = "", env = "", scope_hash = ""] = id.split("/");
    return putClaim.run(tx, { workspace_id, env, scope_hash, sealed });
  },
};

export const sealedTables: readonly SealedTable[] = [
  keyedById("signing_keys", "sealed_private_key"),
  keyedById("outbox", "sealed_message"),
  claims,
];
