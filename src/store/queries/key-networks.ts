// Requests from outside a key's networks, by UTC day and by the network that they came from.
import { sql } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import { bulkInsert } from "../engine/bulk-insert.ts";
import { compileQuery, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { KeyNetworkRow } from "../schema/tables.ts";
import { isIn } from "./id-lists.ts";

export const addKeyNetworks = bulkInsert<KeyNetworkRow>(
  ["key_id", "day", "network", "outcome", "workspace_id", "requests", "first_seen_at", "last_seen_at"],
  (db, rows) =>
    db
      .insertInto("key_networks")
      .values(rows)
      .onConflict((oc) =>
        oc.columns(["key_id", "day", "network", "outcome"]).doUpdateSet({
          requests: sql<number>`key_networks.requests + excluded.requests`,
          first_seen_at: sql<number>`case when excluded.first_seen_at < key_networks.first_seen_at then excluded.first_seen_at else key_networks.first_seen_at end`,
          last_seen_at: sql<number>`case when excluded.last_seen_at > key_networks.last_seen_at then excluded.last_seen_at else key_networks.last_seen_at end`,
        }),
      ),
);

type SeenNetwork = Pick<KeyNetworkRow, "key_id" | "day" | "network">;

/** The networks of some keys on some days. */
export function seenNetworks(
  on: Reader,
  { keys, from, to }: { keys: readonly string[]; from: number; to: number },
): Promise<SeenNetwork[]> {
  return on.all<SeenNetwork>(
    compileQuery(on, (db, dialect) =>
      db
        .selectFrom("key_networks")
        .select(["key_id", "day", "network"])
        .distinct()
        .where(isIn("key_networks.key_id", keys, dialect))
        .where("day", ">=", from)
        .where("day", "<=", to),
    ),
  );
}

type Reported = { workspace_id: string; key_id: string; from: number; to: number; limit: number };

/** Most requests first. */
export const networksOfKey = statement<Reported>()((db, p) =>
  db
    .selectFrom("key_networks")
    .select((eb) => [
      "network",
      "outcome",
      eb.fn.sum<number>("requests").as("requests"),
      eb.fn.min<number>("first_seen_at").as("first_seen_at"),
      eb.fn.max<number>("last_seen_at").as("last_seen_at"),
    ])
    .where("workspace_id", "=", p.workspace_id)
    .where("key_id", "=", p.key_id)
    .where("day", ">=", p.from)
    .where("day", "<=", p.to)
    .groupBy(["network", "outcome"])
    .orderBy("requests", "desc")
    .orderBy("network")
    .orderBy("outcome")
    .limit(p.limit),
);

export const reapKeyNetworks = deletePiece<{ before: number }>()(
  "key_networks",
  ["key_id", "day", "network", "outcome"],
  (p) => sql`day < ${p.before}`,
);
