// Totals for /metrics over all workspaces: numbers only, no names or ids.
import { statement } from "../engine/statement.ts";

export const countLiveNodes = statement<{ seenAfter: number }>()((db, p) =>
  db
    .selectFrom("policy_nodes")
    .select((eb) => eb.fn.countAll<number>().as("n"))
    .where("last_seen_at", ">", p.seenAfter),
);

/** A chain has no gaps, so its head is its length. */
export const auditTotals = statement<Record<string, never>>()((db) =>
  db
    .selectFrom("audit_heads")
    .select((eb) => [
      eb.fn.countAll<number>().as("chains"),
      eb.fn.coalesce(eb.cast<number>(eb.fn.sum<number>("seq"), "bigint"), eb.lit(0)).as("rows"),
    ]),
);
