// What keyrack doctor reads from the database, without a server.
import { allIfKnown, type Source } from "./source.ts";

/** Whether the database has an owner. */
export async function hasOwner(source: Source): Promise<boolean> {
  return (await source.all("select 1 as n from memberships where role = 'owner' limit 1", [])).length > 0;
}

/** Live nodes whose secret key is unrestricted, one more than `max` if there are more; none in an earlier schema. */
export async function nodesWithFullPower(source: Source, seenAfter: number, max: number): Promise<string[]> {
  const sql = `select distinct node_id from policy_nodes where full_power = 1 and last_seen_at > $1 order by node_id limit ${max + 1}`;
  const rows = await allIfKnown<{ node_id: string }>(source, sql, [seenAfter]);
  return rows.map(({ node_id }) => node_id);
}
