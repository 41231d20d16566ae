// Requests from outside a key's networks, by UTC day and by the network that they came from.
import { sql } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import { bulkInsert } from "../engine/bulk-insert.ts";
import { statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { KeyNetworkRow } from "../schema/tables.ts";

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

export type NetworkName = Pick<KeyNetworkRow, "key_id" | "day" | "network">;
export type KeyDay = Pick<KeyNetworkRow, "key_id" | "day">;

/** A list as one parameter, so that the statement stays prepared for any number of names. */
const NAMES = {
  sqlite: "select value ->> 0 as key_id, value ->> 1 as day, value ->> 2 as network from json_each(?)",
  postgres: `select value ->> 0 as key_id, (value ->> 1)::bigint as day, value ->> 2 as network
    from json_array_elements($1::json)`,
};

/** Finds the networks that are stored. */
export function storedNetworks(on: Reader, names: readonly NetworkName[]): Promise<NetworkName[]> {
  const sql = `select distinct key_id, day, network from key_networks
    where (key_id, day, network) in (${NAMES[on.dialect]})`;
  return on.all<NetworkName>({
    sql,
    values: [JSON.stringify(names.map(({ key_id, day, network }) => [key_id, day, network]))],
  });
}

/** The number of networks of each key and day, up to `limit`. Sums that name no network are not counted. */
export function countNetworks(
  on: Reader,
  days: readonly KeyDay[],
  { unnamed: [one, other], limit }: { unnamed: readonly [string, string]; limit: number },
): Promise<(KeyDay & { n: number })[]> {
  const p = (n: number): string => (on.dialect === "sqlite" ? "?" : `$${n}`);
  const sql = `select named.key_id, named.day, (select count(*) from (select distinct network from key_networks as stored
      where stored.key_id = named.key_id and stored.day = named.day and network <> ${p(2)} and network <> ${p(3)}
      limit ${p(4)}) as part) as n
    from (${NAMES[on.dialect]}) as named`;
  const list = JSON.stringify(days.map(({ key_id, day }) => [key_id, day]));
  // In the order of the text: SQLite's parameters are not numbered.
  const values = on.dialect === "sqlite" ? [one, other, limit, list] : [list, one, other, limit];
  return on.all<KeyDay & { n: number }>({ sql, values });
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
