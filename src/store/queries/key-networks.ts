// Requests from outside a key's networks, by UTC day and by the network that they came from.
import { sql } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import { additiveUpsert } from "../engine/additive-upsert.ts";
import { rawQuery, tableOf, type Bind } from "../engine/raw-query.ts";
import { statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { KeyNetworkRow } from "../schema/tables.ts";

export const keyNetworkUpsert = additiveUpsert("key_networks", {
  keyOf: ({ key_id, day, network, outcome }) => `${key_id} ${day} ${network} ${outcome}`,
  key: ["key_id", "day", "network", "outcome"],
  kept: ["workspace_id"],
  sum: ["requests"],
  min: ["first_seen_at"],
  max: ["last_seen_at"],
});

export type NetworkName = Pick<KeyNetworkRow, "key_id" | "day" | "network">;
export type KeyDay = Pick<KeyNetworkRow, "key_id" | "day">;

/** Finds the networks that are stored. */
export function storedNetworks(on: Reader, names: readonly NetworkName[]): Promise<NetworkName[]> {
  const columns = { key_id: "text", day: "bigint", network: "text" } as const;
  const text = (bind: Bind): string => `select distinct key_id, day, network from key_networks
    where (key_id, day, network) in (${tableOf(on.dialect, bind, names, columns)})`;
  return on.all<NetworkName>(rawQuery(on.dialect, text));
}

/** The number of networks of each key and day, up to `limit`. Sums that name no network are not counted. */
export function countNetworks(
  on: Reader,
  days: readonly KeyDay[],
  { unnamed: [one, other], limit }: { unnamed: readonly [string, string]; limit: number },
): Promise<(KeyDay & { n: number })[]> {
  const text = (bind: Bind): string => `select named.key_id, named.day, (
      select count(*) from (select distinct network from key_networks as stored
        where stored.key_id = named.key_id and stored.day = named.day
          and network <> ${bind(one)} and network <> ${bind(other)} limit ${bind(limit)}) as part) as n
    from (${tableOf(on.dialect, bind, days, { key_id: "text", day: "bigint" })}) as named`;
  return on.all<KeyDay & { n: number }>(rawQuery(on.dialect, text));
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
