// Messages counted against daily limits. Rows older than a day, counted and sent, are of no use; nor are those that
// were counted after `latest`, by a clock that was ahead: they would limit until then. A message may leave days later.
import { sql } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import { insertRow } from "../engine/rows.ts";
import { countRows, statement, type Builder, type Params } from "../engine/statement.ts";

export const insertMailCount = insertRow("mail_counts", [
  "id",
  "kind",
  "account_id",
  "address_key",
  "counted_at",
  "sends_at",
]);

type Counted = { since: number; latest: number };

/** How many messages an account has caused since, and when the first of them was. */
function countOf(db: Builder, p: Params<Counted & { account_id: string }>) {
  return db
    .selectFrom("mail_counts")
    .select((eb) => [countRows, eb.fn.min<number | null>("counted_at").as("first_at")])
    .where("account_id", "=", p.account_id)
    .where("counted_at", ">", p.since)
    .where("counted_at", "<=", p.latest);
}

export const mailOfAccount = statement<Counted & { account_id: string }>()(countOf);

export const mailOfAccountTo = statement<Counted & { account_id: string; address_key: string }>()((db, p) =>
  countOf(db, p).where("address_key", "=", p.address_key),
);

/** When the newest messages of a kind to an address leave, latest first. */
export const latestSends = statement<{ kind: string; address_key: string; latest: number; limit: number }>()((db, p) =>
  db
    .selectFrom("mail_counts")
    .select("sends_at")
    .where("address_key", "=", p.address_key)
    .where("kind", "=", p.kind)
    .where("sends_at", "is not", null)
    .where("counted_at", "<=", p.latest)
    .orderBy("sends_at", "desc")
    .limit(p.limit),
);

export const reapMailCounts = deletePiece<{ before: number; latest: number }>()(
  "mail_counts",
  ["id"],
  (p) => sql`(counted_at < ${p.before} and (sends_at is null or sends_at < ${p.before}) or counted_at > ${p.latest})`,
);

export const dropMailCounts = statement()((db) => db.deleteFrom("mail_counts"));
