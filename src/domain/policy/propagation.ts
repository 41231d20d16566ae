// Propagation receipts: which nodes have acknowledged a revocation (`revoke?wait=true`).
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { liveNodes } from "../../store/queries/nodes.ts";
import type { EnvScope, PolicyNodeRow } from "../../store/schema/tables.ts";
import { ownerOf } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { NEVER_DISCONNECTS } from "../core/subscription.ts";
import type { Revoked } from "../keys/keys.ts";

/** How often to read acknowledgements that other processes may have written. */
const REREAD_MS = 100;

export type Propagation = {
  version: number;
  complete: boolean;
  waited_ms: number;
  acked_nodes: number;
  total_nodes: number;
  nodes: {
    node_id: string;
    env_scope: EnvScope;
    version: number;
    acked: boolean;
    last_seen_at: string;
  }[];
};

/** Waits until all live nodes with keys of this environment have acknowledged the revocation, or the time is up. */
export async function awaitPropagation(ctx: Ctx, revoked: Revoked): Promise<Propagation> {
  const { clock, settings, nodes, feed, store } = ctx.services;
  const start = clock.now();
  const subscription = feed.subscribe(ownerOf(ctx.actor), revoked, settings.revoke_wait_ms, NEVER_DISCONNECTS);
  const unsubscribe = nodes.onWritten(() => subscription?.notify());
  const rereading = store.dialect === "postgres" ? setInterval(() => subscription?.notify(), REREAD_MS) : undefined;
  try {
    for (;;) {
      const rows = await nodesHolding(ctx, revoked);
      const acked = rows.filter(({ version }) => version >= revoked.version).length;
      const complete = acked === rows.length;
      if (complete || !subscription || subscription.ended)
        return receipt(rows, revoked.version, complete, clock.now() - start);
      await subscription.changed();
    }
  } finally {
    unsubscribe();
    clearInterval(rereading);
    subscription?.close();
  }
}

async function nodesHolding(ctx: Ctx, { project_id, key }: Revoked): Promise<PolicyNodeRow[]> {
  const { clock, settings, store } = ctx.services;
  const rows = await liveNodes.all(store.read, { project_id, seenAfter: clock.now() - settings.node_live_ms });
  return rows.filter(({ env_scope }) => env_scope === "all" || env_scope === key.env);
}

function receipt(rows: PolicyNodeRow[], version: number, complete: boolean, waited_ms: number): Propagation {
  const nodes = rows.map((row) => ({
    node_id: row.node_id,
    env_scope: row.env_scope,
    version: row.version,
    acked: row.version >= version,
    last_seen_at: formatTimestamp(row.last_seen_at),
  }));
  const acked_nodes = nodes.filter(({ acked }) => acked).length;
  return { version, complete, waited_ms, acked_nodes, total_nodes: nodes.length, nodes };
}
