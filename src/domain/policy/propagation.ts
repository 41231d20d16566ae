// Propagation: which nodes have acknowledged a policy version, such as the one of a revocation.
import type { Env } from "../../kernel/credentials.ts";
import { failField } from "../../kernel/errors.ts";
import { listCaps, missingFrom, type Capability } from "../../kernel/policy/capabilities.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { firstLagging, unregisteredNodes } from "../../store/queries/nodes.ts";
import { headsByIds } from "../../store/queries/policy.ts";
import type { EnvScope, PolicyNodeRow } from "../../store/schema/tables.ts";
import { ownerOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { requireProjectAccess, visibleEnv } from "../core/env-access.ts";
import { inFleetSlot } from "../limits/read-slots.ts";
import { orCredentialEnds, validMs } from "./credential-end.ts";
import { NEVER_DISCONNECTS, type OnDisconnect } from "../core/subscription.ts";
import type { ApiKey } from "../core/views.ts";
import { countLacking, nodesHolding } from "./needs.ts";
import { envsOfHolders } from "./node-traits.ts";
import { liveProject } from "../workspaces/projects.ts";

/** How often to read acknowledgements that other processes may have written. */
const REREAD_MS = 100;
/** Nodes that a receipt lists, those without the version first. */
const LISTED_MAX = 1_000;
/** A request has 30 s in all: after the wait, reports are still written and nodes are read. */
const WAIT_MAX_MS = 25_000;
/** How long a receipt waits until the reports of its nodes that this process has are written. */
const SETTLE_MS = 2_000;

type Propagation = {
  version: number;
  complete: boolean;
  /** At least this many nodes poll without being registered; absent when there is none. */
  unregistered_nodes?: number;
  waited_ms: number;
  acked_nodes: number;
  total_nodes: number;
  /** Nodes that lack a needed capability. They acknowledge like the others: what they cannot enforce, they do not have. */
  withheld_nodes: number;
  nodes: {
    node_id: string;
    env_scope: EnvScope;
    version: number;
    acked: boolean;
    caps: Capability[];
    missing_caps: Capability[];
    last_seen_at: string;
  }[];
  /** Nodes that are counted, but not listed. */
  nodes_omitted: number;
};

/** A version, the environment whose nodes must have it (every node where it is null), and what nodes need to enforce it. */
type AwaitedVersion = { project_id: string; version: number; env: Env | null; needs: number };
type WaitOptions = {
  waitMs: number;
  onDisconnect: OnDisconnect;
  /** Runs what reads all nodes of the project; at once where it is absent. */
  inTurn?: <T>(work: () => Promise<T>) => Promise<T>;
};

/** Waits until all live nodes with keys of this environment have acknowledged the version, or the time is up. */
export async function awaitPropagation(ctx: Ctx, awaited: AwaitedVersion, waiting: WaitOptions): Promise<Propagation> {
  const { clock, nodes, feed, store } = ctx.services;
  const { onDisconnect, inTurn = (work) => work() } = waiting;
  const waitMs = Math.min(waiting.waitMs, WAIT_MAX_MS);
  const start = clock.now();
  const subscription = waitMs > 0 ? feed.wait(ownerOf(ctx.actor), waitMs, onDisconnect) : undefined;
  const unsubscribe = nodes.onWritten(awaited.project_id, () => subscription?.notify());
  const rereading =
    subscription && store.dialect === "postgres" ? setInterval(() => subscription.notify(), REREAD_MS) : undefined;
  try {
    for (let from = ""; ; ) {
      const lagging = subscription && !subscription.ended ? await findLagging(ctx, awaited, from) : undefined;
      if (lagging === undefined) {
        // The database may not have every node that this process knows.
        const settled = await nodes.settled(awaited.project_id, awaited.env, SETTLE_MS);
        const rows = await inTurn(() => nodesHolding(ctx, awaited));
        const acked = rows.filter(({ version }) => version >= awaited.version).length;
        const unregistered = (await countUnregistered(ctx, awaited)) || Number(!settled);
        const complete = acked === rows.length && unregistered === 0;
        // Waiting longer does not help where only nodes are missing that never report.
        if (acked === rows.length || !subscription || subscription.ended)
          return receipt(rows, awaited, complete, unregistered, clock.now() - start);
      }
      from = lagging ?? ""; // where all after it have the version, one before it has come or gone back meanwhile
      await subscription?.changed();
    }
  } finally {
    unsubscribe();
    clearInterval(rereading);
    subscription?.close();
  }
}

/** A change of a key, the policy version that brings it to the nodes, and what they need to get the key. */
export type KeyChange = { key: ApiKey; project_id: string; version: number; needs: number };

/** Waits for a change that has been committed, such as a revocation; the caller's disconnect does not matter. */
export function awaitKeyChange(ctx: Ctx, { project_id, version, key, needs }: KeyChange): Promise<Propagation> {
  const { revoke_wait_ms: waitMs } = ctx.services.settings;
  return awaitPropagation(
    ctx,
    { project_id, version, env: key.env, needs },
    { waitMs, onDisconnect: NEVER_DISCONNECTS },
  );
}

const byId = (a: { id: string }, b: { id: string }): number => (a.id < b.id ? -1 : 1);

/** Waits until the nodes of several projects have what is committed by now. `needed`: capabilities that it may need. */
export async function awaitProjects(ctx: Ctx, ids: readonly string[], needed: number) {
  const { store, settings, clock } = ctx.services;
  const start = clock.now();
  const waiting = { waitMs: settings.revoke_wait_ms, onDisconnect: NEVER_DISCONNECTS };
  const heads = await headsByIds(store.read, ids);
  const projects = await Promise.all(
    heads.toSorted(byId).map(async ({ id: project_id, policy_version: version, features }) => {
      const awaited = { project_id, version, env: null, needs: features & needed };
      return { project_id, ...(await awaitPropagation(ctx, awaited, waiting)) };
    }),
  );
  let left = LISTED_MAX;
  const listed = projects.map((project) => {
    const nodes = project.nodes.slice(0, left);
    left -= nodes.length;
    return { ...project, nodes, nodes_omitted: project.total_nodes - nodes.length };
  });
  const sum = (name: "acked_nodes" | "total_nodes" | "withheld_nodes"): number =>
    projects.reduce((total, project) => total + project[name], 0);
  return {
    complete: projects.every(({ complete }) => complete),
    waited_ms: clock.now() - start,
    acked_nodes: sum("acked_nodes"),
    total_nodes: sum("total_nodes"),
    withheld_nodes: sum("withheld_nodes"),
    projects: listed,
  };
}

type PropagationQuery = { project_id: string; version: number; env?: Env | undefined; wait_ms: number };

/** Which nodes have acknowledged any version of a project. */
export async function showPropagation(ctx: Ctx<Vendor>, query: PropagationQuery, onDisconnect: OnDisconnect) {
  const { actor, services } = ctx;
  const { project_id, version, wait_ms: waitMs } = query;
  requireProjectAccess(actor, project_id);
  const env = visibleEnv(actor, query.env) ?? null;
  const { policy_version, features: needs } = await liveProject(services.store.read, actor.workspace_id, project_id);
  if (version > policy_version)
    throw failField("invalid_query", "version", "must not be above the project's policy version");
  const waiting: WaitOptions = {
    waitMs: Math.min(waitMs, validMs(ctx)),
    onDisconnect: withReceiptPlace(ctx, orCredentialEnds(ctx, onDisconnect)),
    inTurn: (work) => inFleetSlot(ctx, work),
  };
  const shown = await awaitPropagation(ctx, { project_id, version, env, needs }, waiting);
  await ctx.requireStillValid?.();
  return { object: "propagation" as const, project_id, ...shown };
}

/** A wait that also ends where its owner has no place among the calls that wait, or loses it. */
function withReceiptPlace(
  { services: { waitingReceipts }, actor }: Ctx<Vendor>,
  onDisconnect: OnDisconnect,
): OnDisconnect {
  return (end) => {
    const unregister = onDisconnect(end);
    if (!waitingReceipts.add(ownerOf(actor), end)) end();
    return () => {
      waitingReceipts.delete(end);
      unregister();
    };
  };
}

/** A node without the version, among those at or after `from`: all nodes are read only once none is left. */
async function findLagging(
  ctx: Ctx,
  { project_id, version, env }: AwaitedVersion,
  from: string,
): Promise<string | undefined> {
  const { clock, settings, store } = ctx.services;
  const seenAfter = clock.now() - settings.node_live_ms;
  const scopes = { one: env ?? "live", other: env ?? "test" };
  return (await firstLagging.first(store.read, { project_id, ...scopes, from, version, seenAfter }))?.node_id;
}

/** Nodes without a row that may hold keys of this environment. */
async function countUnregistered(ctx: Ctx, { project_id, env }: AwaitedVersion): Promise<number> {
  const { clock, nodes, settings, store } = ctx.services;
  const seenAfter = clock.now() - settings.node_live_ms;
  const noted = await unregisteredNodes.all(store.read, { project_id, seenAfter });
  const holding = noted.filter(({ scope }) => envsOfHolders(env).includes(scope));
  const counted = holding.reduce((sum, row) => sum + row.nodes, 0);
  return Math.max(counted, nodes.hasLost(project_id, env) ? 1 : 0);
}

function receipt(
  rows: PolicyNodeRow[],
  { version, needs }: AwaitedVersion,
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
    caps: listCaps(row.caps),
    missing_caps: missingFrom(row.caps, needs),
    last_seen_at: formatTimestamp(row.last_seen_at),
  }));
  return {
    version,
    complete,
    ...(unregistered > 0 && { unregistered_nodes: unregistered }),
    waited_ms,
    acked_nodes: acked.length,
    total_nodes: rows.length,
    withheld_nodes: countLacking(rows, needs),
    nodes,
    nodes_omitted: rows.length - nodes.length,
  };
}
