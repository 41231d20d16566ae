// Ingest: the budget per workspace and minute, receipts by body hash, and which ids belong to a workspace.
import { sql } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { deleteWhere } from "../engine/delete-piece.ts";
import { selectRows, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { IngestBatchRow } from "../schema/tables.ts";
import { isNamed } from "./id-lists.ts";

export const budgetRow = statement<{ workspace_id: string }>()((db, p) =>
  db.selectFrom("ingest_budgets").select(["minute", "used", "test_used"]).where("workspace_id", "=", p.workspace_id),
);

/**
 * Held until the transaction ends, as by a charge. SQLite has one writer, so its transaction holds the lock already.
 */
export const lockBudget = statement<{ workspace_id: string }>()((db, p, dialect) => {
  const query = db.selectFrom("ingest_budgets").select("minute").where("workspace_id", "=", p.workspace_id);
  return dialect === "postgres" ? query.forUpdate() : query;
});

/** How far ahead of this process' clock a minute may be: the clocks of two processes differ by less. */
export const MINUTES_AHEAD = 10;

/** Exactly one of `cost` and `test_cost` is not 0. */
type BudgetParams = {
  workspace_id: string;
  minute: number;
  cost: number;
  test_cost: number;
  max: number;
  test_max: number;
};

/**
 * Charges the minute and returns what is used of it; returns no row, and charges nothing, if that exceeds the budget.
 * Live events may use all of it, whatever test has used; those of test get a part, as far as live has left it. A
 * process whose clock is late charges the newer minute. One further ahead than MINUTES_AHEAD comes from a clock that
 * was wrong: it would be used up until the time it names.
 */
export const chargeBudget = statement<BudgetParams>()((db, p) => {
  const isCurrent = sql`ingest_budgets.minute between excluded.minute and excluded.minute + ${MINUTES_AHEAD}`;
  const total = sql`ingest_budgets.used + ingest_budgets.test_used + excluded.test_used`;
  return db
    .insertInto("ingest_budgets")
    .values({ workspace_id: p.workspace_id, minute: p.minute, used: p.cost, test_used: p.test_cost })
    .onConflict((oc) =>
      oc
        .column("workspace_id")
        .doUpdateSet({
          minute: sql<number>`case when ${isCurrent} then ingest_budgets.minute else excluded.minute end`,
          used: sql<number>`case when ${isCurrent} then ingest_budgets.used else 0 end + excluded.used`,
          test_used: sql<number>`case when ${isCurrent} then ingest_budgets.test_used else 0 end + excluded.test_used`,
        })
        .where(
          sql<boolean>`not (${isCurrent})
            or (excluded.test_used = 0 and ingest_budgets.used + excluded.used <= ${p.max})
            or (excluded.test_used > 0 and ${total} <= ${p.max}
              and ingest_budgets.test_used + excluded.test_used <= ${p.test_max})`,
        ),
    )
    .returning(["used", "test_used"]);
});

/** Returns no row if the same body was already counted after `since`. */
export const insertBatch = statement<IngestBatchRow & { since: number }>()((db, p) =>
  db
    .insertInto("ingest_batches")
    .values({
      workspace_id: p.workspace_id,
      body_hash: p.body_hash,
      accepted: p.accepted,
      events_dropped: p.events_dropped,
      created_at: p.created_at,
    })
    .onConflict((oc) =>
      oc
        .columns(["workspace_id", "body_hash"])
        .doUpdateSet((eb) => ({
          accepted: eb.ref("excluded.accepted"),
          events_dropped: eb.ref("excluded.events_dropped"),
          created_at: eb.ref("excluded.created_at"),
        }))
        .where("ingest_batches.created_at", "<=", p.since),
    )
    .returning("created_at"),
);

export const batchReceipt = statement<{ workspace_id: string; body_hash: string }>()((db, p) =>
  db
    .selectFrom("ingest_batches")
    .select(["accepted", "events_dropped"])
    .where("workspace_id", "=", p.workspace_id)
    .where("body_hash", "=", p.body_hash),
);

export const reapBatches = deleteWhere("ingest_batches", ["workspace_id", "body_hash"], "created_at", "<=");

export type KnownKey = {
  id: string;
  project_id: string;
  tenant_id: string;
  env: Env;
  created_at: number;
  last_used_at: number | null;
};

/** Ids that one query looks up: it holds the event loop for less than 5 ms. */
const IDS_MAX = 512;

async function findInChunks<R>(ids: readonly string[], find: (some: readonly string[]) => Promise<R[]>): Promise<R[]> {
  const found: R[] = [];
  for (let at = 0; at < ids.length; at += IDS_MAX) {
    if (at > 0) await yieldToEventLoop();
    found.push(...(await find(ids.slice(at, at + IDS_MAX))));
  }
  return found;
}

/** Includes revoked keys: their earlier usage counts. */
export function findKnownKeys(on: Reader, workspace_id: string, ids: readonly string[]): Promise<KnownKey[]> {
  return findInChunks(ids, (some) =>
    selectRows(on, (db, dialect) =>
      db
        .selectFrom("api_keys")
        .select(["id", "project_id", "tenant_id", "env", "created_at", "last_used_at"])
        .where(isNamed("api_keys", workspace_id, some, dialect)),
    ),
  );
}

/** Returns the ids that belong to the workspace, including deleted ones. */
export function findOwnedIds(
  on: Reader,
  table: "projects" | "tenants",
  workspace_id: string,
  ids: readonly string[],
): Promise<{ id: string }[]> {
  return findInChunks(ids, (some) =>
    selectRows(on, (db, dialect) =>
      db
        .selectFrom(table)
        .select("id")
        .where(isNamed(table, workspace_id, some, dialect)),
    ),
  );
}
