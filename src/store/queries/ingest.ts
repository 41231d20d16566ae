// Ingest: the budget of a workspace and minute, receipts by body hash, and which ids belong to a workspace.
import { sql } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { compileQuery, statement, type Reader } from "../engine/statement.ts";
import type { IngestBatchRow } from "../schema/tables.ts";

export const budgetRow = statement<{ workspace_id: string }>()((db, p) =>
  db.selectFrom("ingest_budgets").select(["minute", "used"]).where("workspace_id", "=", p.workspace_id),
);

/**
 * Charges `cost` to the minute if it fits, and answers what is used then; no row: it does not fit, nothing is charged.
 * A process whose clock is a minute behind charges the newer minute.
 */
export const chargeBudget = statement<{ workspace_id: string; minute: number; cost: number; max: number }>()((db, p) =>
  db
    .insertInto("ingest_budgets")
    .values({ workspace_id: p.workspace_id, minute: p.minute, used: p.cost })
    .onConflict((oc) =>
      oc
        .column("workspace_id")
        .doUpdateSet((eb) => ({
          minute: sql<number>`case when ingest_budgets.minute > excluded.minute then ingest_budgets.minute else excluded.minute end`,
          used: sql<number>`case when ingest_budgets.minute >= excluded.minute then ingest_budgets.used else 0 end + ${eb.ref("excluded.used")}`,
        }))
        .where(
          sql<boolean>`ingest_budgets.minute < excluded.minute or ingest_budgets.used + excluded.used <= ${p.max}`,
        ),
    )
    .returning("used"),
);

/** Answers no row when this body was already counted since `since`. */
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

export const reapBatches = statement<{ before: number }>()((db, p) =>
  db.deleteFrom("ingest_batches").where("created_at", "<=", p.before),
);

export type KeyOwner = { id: string; project_id: string; tenant_id: string; env: Env; last_used_at: number | null };

/** A list padded to the next power of two with its last id, so that few statements are ever prepared. */
function padded(ids: readonly string[]): string[] {
  const size = 2 ** Math.ceil(Math.log2(Math.max(1, ids.length)));
  return [...ids, ...Array.from({ length: size - ids.length }, () => ids.at(-1) ?? "")];
}

const IDS_MAX = 512;

async function byIds<R>(ids: readonly string[], find: (some: string[]) => Promise<R[]>): Promise<R[]> {
  const found: R[] = [];
  for (let at = 0; at < ids.length; at += IDS_MAX) found.push(...(await find(padded(ids.slice(at, at + IDS_MAX)))));
  return found;
}

/** Revoked keys too: what they did before counts. */
export function findKeyOwners(on: Reader, workspace_id: string, ids: readonly string[]): Promise<KeyOwner[]> {
  return byIds(ids, (some) =>
    on.all<KeyOwner>(
      compileQuery(on, (db) =>
        db
          .selectFrom("api_keys")
          .select(["id", "project_id", "tenant_id", "env", "last_used_at"])
          .where("workspace_id", "=", workspace_id)
          .where("id", "in", some),
      ),
    ),
  );
}

/** Which of these ids are the workspace's, deleted ones included. */
export function findOwnedIds(
  on: Reader,
  table: "projects" | "tenants",
  workspace_id: string,
  ids: readonly string[],
): Promise<{ id: string }[]> {
  return byIds(ids, (some) =>
    on.all<{ id: string }>(
      compileQuery(on, (db) =>
        db.selectFrom(table).select("id").where("workspace_id", "=", workspace_id).where("id", "in", some),
      ),
    ),
  );
}
