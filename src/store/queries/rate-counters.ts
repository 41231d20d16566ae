// Saved counters of the in-process counter store, so that limits survive a restart.
import { bulkInsert } from "../engine/bulk-insert.ts";
import { deleteWhere } from "../engine/delete-piece.ts";
import { statement } from "../engine/statement.ts";
import type { RateCounterRow } from "../schema/tables.ts";

export const saveCounters = bulkInsert<RateCounterRow>(["key", "lapses_at", "windows"], (db, rows) =>
  db
    .insertInto("rate_counters")
    .values(rows)
    .onConflict((oc) =>
      oc.column("key").doUpdateSet((eb) => ({
        lapses_at: eb.ref("excluded.lapses_at"),
        windows: eb.ref("excluded.windows"),
      })),
    ),
);

/** The next counters in key order that have not expired. */
export const countersAfter = statement<{ key: string; now: number; limit: number }>()((db, p) =>
  db
    .selectFrom("rate_counters")
    .selectAll()
    .where("key", ">", p.key)
    .where("lapses_at", ">", p.now)
    .orderBy("key")
    .limit(p.limit),
);

export const reapCounters = deleteWhere("rate_counters", ["key"], "lapses_at", "<=");
