// State of the login throttle: consecutive failures, and networks with a recent success. Keys are HMACs of address and
// network, so addresses with and without an account leave the same rows.
import { sql } from "kysely";
import { deletePiece, deleteWhere } from "../engine/delete-piece.ts";
import { deleteBy, rowBy, upsertRow } from "../engine/rows.ts";
import { countRows, selectRow, selectRows, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";

export const loginFailures = rowBy("login_failures", ["address_key", "bucket"]);

export const countLoginFailure = statement<{ address_key: string; bucket: string; now: number }>()((db, p) =>
  db
    .insertInto("login_failures")
    .values({ address_key: p.address_key, bucket: p.bucket, consecutive: 1, failed_at: p.now })
    .onConflict((oc) =>
      oc.columns(["address_key", "bucket"]).doUpdateSet((eb) => ({
        consecutive: eb("login_failures.consecutive", "+", 1),
        failed_at: p.now,
      })),
    ),
);

export const clearLoginFailures = deleteBy("login_failures", ["address_key", "bucket"]);

export const clearAllLoginFailures = deleteBy("login_failures", ["address_key"]);

/** Addresses with at least `max` consecutive failures. */
export const disabledAddresses = statement<{ max: number }>()((db, p) =>
  db.selectFrom("login_failures").select("address_key").where("consecutive", ">=", p.max),
);

export const loginNetwork = statement<{ address_key: string; network_key: string; since: number }>()((db, p) =>
  db
    .selectFrom("login_networks")
    .select("succeeded_at")
    .where("address_key", "=", p.address_key)
    .where("network_key", "=", p.network_key)
    .where("succeeded_at", ">", p.since),
);

export const recordLoginNetwork = upsertRow("login_networks", ["address_key", "network_key"], ["succeeded_at"]);

export const reapLoginNetworks = deleteWhere("login_networks", ["address_key", "network_key"], "succeeded_at", "<");

/** Rows with up to `most` consecutive failures, so that those that have disabled login stay. */
export const reapLoginFailures = deletePiece<{ before: number; most: number }>()(
  "login_failures",
  ["address_key", "bucket"],
  (p) => sql`failed_at < ${p.before} and consecutive <= ${p.most}`,
);

/** How many rows there are with each number of consecutive failures, fewest failures first. */
export function countFailureRows(on: Reader, below: number) {
  return selectRows(on, (db) =>
    db
      .selectFrom("login_failures")
      .select(["consecutive", countRows])
      .where("consecutive", "<", below)
      .groupBy("consecutive")
      .orderBy("consecutive"),
  );
}

/** When the newest failure beyond the newest `kept` was, of rows with up to `most` failures. */
export function failureBeyond(on: Reader, most: number, kept: number) {
  return selectRow(on, (db) =>
    db
      .selectFrom("login_failures")
      .select("failed_at")
      .where("consecutive", "<=", most)
      .orderBy("failed_at", "desc")
      .limit(1)
      .offset(kept),
  );
}
