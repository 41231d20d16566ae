// Propagation: which nodes have acknowledged a policy version, such as the one of a revocation.
import type { Env } from "../../kernel/credentials.ts";
import { failField } from "../../kernel/errors.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { liveNodes, unregisteredNodes } from "../../store/queries/nodes.ts";
import type { EnvScope, PolicyNodeRow } from "../../store/schema/tables.ts";
import { ownerOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { requireProjectAccess, visibleEnv } from "../core/env-access.ts";
import { NEVER_DISCONNECTS, type OnDisconnect } from "../core/subscription.ts";
import type { Revoked } from "../keys/keys.ts";
import { liveProject } from "../workspaces/projects.ts";

/** How often to read acknowledgements that other processes may have written. */
const REREAD_MS = 100;
/** Nodes that a receipt lists, those without the version first. */
const LISTED_MAX = 1_000;

export type Propagation = {
  version: number;
  complete: boolean;
  /** At least this many nodes poll without being registered; absent when there is none. */
  unregistered_nodes?: number;
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
  /** Nodes that are counted, but not listed. */
  nodes_omitted: number;
};

/** A version, and the environment whose nodes must have it; every node where it is null. */
export type Awaited = { project_id: string; version: number; env: Env | null };
export type Waiting = { waitMs: number; onDisconnect: OnDisconnect };

/** Waits until all live nodes with keys of this environment have acknowledged the version, or the time is up. */
export async function awaitPropagation(ctx: Ctx, awaited: Awaited, waiting: Waiting): Promise<Propagation> {
  const { clock, nodes, feed, store } = ctx.services;
  const { waitMs, onDisconnect } = waiting;
  const start = clock.now();
  const subscription = waitMs > 0 ? feed.subscribe(ownerOf(ctx.actor), awaited, waitMs, onDisconnect) : undefined;
  const unsubscribe = nodes.onWritten(() => subscription?.notify());
  const rereading =
    subscription && store.dialect === "postgres" ? setInterval(() => subscription.notify(), REREAD_MS) : undefined;
  try {
    for (;;) {
      const rows = await nodesHolding(ctx, awaited);
      const acked = rows.filter(({ version }) => version >= awaited.version).length;
      const unregistered = await countUnregistered(ctx, awaited);
      const complete = acked === rows.length && unregistered === 0;
      // Waiting longer does not help where only nodes are missing that never report.
      if (acked === rows.length || !subscription || subscription.ended)
        return receipt(rows, awaited.version, complete, unregistered, clock.now() - start);
      await subscription.changed();
    }
  } finally {
    unsubscribe();
    clearInterval(rereading);
    subscription?.close();
  }
}

/** Waits for a revocation that has been committed; the caller's disconnect does not matter. */
export function awaitRevocation(ctx: Ctx, { project_id, version, key }: Revoked): Promise<Propagation> {
  const { revoke_wait_ms: waitMs } = ctx.services.settings;
  return awaitPropagation(ctx, { project_id, version, env: key.env }, { waitMs, onDisconnect: NEVER_DISCONNECTS });
}

export type PropagationQuery = { project_id: string; version: number; env?: Env | undefined; wait_ms: number };

/** Which nodes have acknowledged any version of a project. */
export async function showPropagation(ctx: Ctx<Vendor>, query: PropagationQuery, onDisconnect: OnDisconnect) {
  const { actor, services } = ctx;
  const { project_id, version, wait_ms: waitMs } = query;
  requireProjectAccess(actor, project_id);
  const env = visibleEnv(actor, query.env) ?? null;
  const { policy_version } = await liveProject(services.store.read, actor.workspace_id, project_id);
  if (version > policy_version)
    throw failField("invalid_query", "version", "must not be above the project's policy version");
  const shown = await awaitPropagation(ctx, { project_id, version, env }, { waitMs, onDisconnect });
  return { object: "propagation" as const, project_id, ...shown };
}

async function nodesHolding(ctx: Ctx, { project_id, env }: Awaited): Promise<PolicyNodeRow[]> {
  const { clock, settings, store } = ctx.services;
  const rows = await liveNodes.all(store.read, { project_id, seenAfter: clock.now() - settings.node_live_ms });
  return rows.filter(({ env_scope }) => env === null || env_scope === "all" || env_scope === env);
}

/** Nodes without a row that may hold keys of this environment. */
async function countUnregistered(ctx: Ctx, { project_id, env }: Awaited): Promise<number> {
  const { clock, settings, store } = ctx.services;
  const seenAfter = clock.now() - settings.node_live_ms;
  const noted = await unregisteredNodes.all(store.read, { project_id, seenAfter });
  const holding = noted.filter(({ scope }) => scope === "live" || env !== "live");
  return holding.reduce((sum, { nodes }) => sum + nodes, 0);
}

function receipt(
  rows: PolicyNodeRow[],
  version: number,
  complete: boolean,
  unregistered: number,
  waited_ms: number,
): Propagation {
  const missing = rows.filter((row) => row.version < version);
  const acked = rows.filter((row) => row.version >= version);
  const nodes = [...missing, ...acked].slice(0, LISTED_MAX).map((row) => ({
    node_id: row.node_id,
    env_scope: row.env_scope,
    version: row.version,
    acked: row.version >= version,
    last_seen_at: formatTimestamp(row.last_seen_at),
  }));
  return {
    version,
    complete,
    ...(unregistered > 0 && { unregistered_nodes: unregistered }),
    waited_ms,
    acked_nodes: acked.length,
    total_nodes: rows.length,
    nodes,
    nodes_omitted: rows.length - nodes.length,
  };
}
