// The mail outbox. A process claims a message by advancing its next_at, then sends it.
import { sql } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import { LIST_MAX } from "./page.ts";
import { deleteBy, insertRow, rowBy, updateRow } from "../engine/rows.ts";
import { countRows, selectRows, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { OutboxRow, OutboxState } from "../schema/tables.ts";

export const insertMail = insertRow("outbox", [
  "id",
  "kind",
  "recipient",
  "message_id",
  "sealed_message",
  "state",
  "attempts",
  "created_at",
  "next_at",
  "give_up_at",
  "settled_at",
  "last_error",
  "account_id",
]);

export const deleteMail = deleteBy("outbox", ["id"]);

/** Deletes a message unless it was sent. */
export const deleteUnsentMail = statement<{ id: string }>()((db, p) =>
  db.deleteFrom("outbox").where("id", "=", p.id).where("state", "!=", "sent"),
);

export const mailById = rowBy("outbox", ["id"]);

/**
 * Due messages, in turns: the oldest of every account that comes after `after`, then of the others, then the second
 * oldest. A message without an account takes turns by its recipient.
 */
export const dueMail = statement<{ now: number; after: string; limit: number }>()((db, p) =>
  db
    .with("due", (cte) =>
      cte
        .selectFrom("outbox")
        .selectAll()
        .select((eb) => eb.fn.coalesce("account_id", "recipient").as("sender"))
        .where("state", "=", "queued")
        .where("next_at", "<=", p.now),
    )
    .with("turns", (cte) =>
      cte
        .selectFrom("due")
        .selectAll()
        .select((eb) =>
          eb.fn
            .agg<number>("row_number")
            .over((over) => over.partitionBy("sender").orderBy("next_at").orderBy("id"))
            .as("turn"),
        ),
    )
    .selectFrom("turns")
    .selectAll()
    .orderBy("turn")
    .orderBy((eb) => eb.case().when("sender", ">", p.after).then(0).else(1).end())
    .orderBy("sender")
    .limit(p.limit),
);

export const countQueuedOf = statement<{ account_id: string }>()((db, p) =>
  db.selectFrom("outbox").select(countRows).where("state", "=", "queued").where("account_id", "=", p.account_id),
);

/** Changes one row for the process that claims it, none for any other. */
export const claimMail = statement<{ id: string; now: number; until: number }>()((db, p) =>
  db
    .updateTable("outbox")
    .set((eb) => ({ next_at: p.until, attempts: eb("attempts", "+", 1) }))
    .where("id", "=", p.id)
    .where("state", "=", "queued")
    .where("next_at", "<=", p.now),
);

export const markMailSent = statement<{ id: string; now: number }>()((db, p) =>
  db
    .updateTable("outbox")
    .set({ state: "sent", sealed_message: null, settled_at: p.now, last_error: null })
    .where("id", "=", p.id),
);

export const delayMail = updateRow("outbox", ["id"], ["next_at", "last_error"]);

export const markMailDead = statement<{ id: string; now: number; last_error: string }>()((db, p) =>
  db.updateTable("outbox").set({ state: "dead", settled_at: p.now, last_error: p.last_error }).where("id", "=", p.id),
);

/** Queues a dead or waiting message for immediate delivery. A sent one has no content any more. */
export const requeueMail = statement<{ id: string; now: number; give_up_at: number }>()((db, p) =>
  db
    .updateTable("outbox")
    .set({ state: "queued", attempts: 0, next_at: p.now, give_up_at: p.give_up_at, settled_at: null })
    .where("id", "=", p.id)
    .where("state", "!=", "sent")
    .where("sealed_message", "is not", null),
);

export const countMail = statement<{ state: OutboxState }>()((db, p) =>
  db.selectFrom("outbox").select(countRows).where("state", "=", p.state),
);

export const reapMail = deletePiece<{ state: OutboxState; before: number }>()(
  "outbox",
  ["id"],
  (p) => sql`state = ${p.state} and settled_at < ${p.before}`,
);

/** Newest first. */
export function listMail(on: Reader, state: OutboxState | null): Promise<OutboxRow[]> {
  return selectRows(on, (db) => {
    const query = db
      .selectFrom("outbox")
      .selectAll()
      .orderBy("created_at", "desc")
      .orderBy("id", "desc")
      .limit(LIST_MAX + 1);
    return state ? query.where("state", "=", state) : query;
  });
}

export const countDeadMailSince = statement<{ since: number }>()((db, p) =>
  db.selectFrom("outbox").select(countRows).where("state", "=", "dead").where("settled_at", ">", p.since),
);
