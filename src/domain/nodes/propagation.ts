// Propagation: which nodes have acknowledged a policy version, such as the one of a revocation.
import type { Env } from "../../kernel/credentials.ts";
import { failField } from "../../kernel/errors.ts";
import { listCaps, missingFrom, type Capability } from "../../kernel/policy/capabilities.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { firstLagging, unregisteredNodes, type LaggingNode } from "../../store/queries/nodes.ts";
import { headsByIds } from "../../store/queries/policy.ts";
import type { EnvScope, PolicyNodeRow, UnregisteredNodesRow } from "../../store/schema/tables.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { seenSince } from "./presence.ts";
import { requireProjectAccess, visibleEnv } from "../core/env-access.ts";
import { inFleetSlot, inFleetSlotIfAny, slotOwner } from "../core/read-slots.ts";
import { orCredentialEnds, validMs } from "../core/credential-end.ts";
import { NEVER_DISCONNECTS, Subscription, type OnDisconnect } from "../core/subscription.ts";
import type { ApiKey } from "../core/views.ts";
import { countLacking, nodesHolding } from "./needs.ts";
import { envsOfHolders } from "./traits.ts";
import { liveProject } from "../workspaces/projects.ts";

/** How often to read acknowledgements that other processes may have written. */
const REREAD_MS = 100;
/** Nodes that a receipt lists, those without the version first. */
const LISTED_MAX = 1_000;
/** A request has 30 s in all: after the wait, reports are still written and nodes are read. */
const WAIT_MAX_MS = 25_000;
/** How long a receipt waits for this process to write pending reports of its nodes. */
const SETTLE_MS = 2_000;

type Propagation = Fleet & {
  version: number;
  complete: boolean;
  /** At least this many nodes poll without being registered; absent when there is none. */
  unregistered_nodes?: number;
  waited_ms: number;
};

type ProjectReceipt = { project_id: string } & Propagation;

type Fleet = {
  acked_nodes: number;
  total_nodes: number;
  /**
   * Nodes that lack a needed capability. They acknowledge like the others: what they cannot enforce, they do not have.
   */
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

/**
 * A version, the environment whose nodes must have it (every node where it is null), and what nodes need to enforce it.
 */
type AwaitedVersion = { project_id: string; version: number; env: Env | null; needs: number };
type WaitOptions = {
  waitMs: number;
  onDisconnect: OnDisconnect;
  /** Runs what reads all nodes. The response to a committed change has none if there is no slot. */
  inSlot?: <T>(read: () => Promise<T>) => Promise<T | undefined>;
};

/** Waits until all live nodes with keys of this environment have acknowledged the version, or the time is up. */
export async function awaitPropagation(ctx: Ctx, awaited: AwaitedVersion, waiting: WaitOptions): Promise<Propagation> {
  const [first] = await awaitVersions(ctx, [awaited], waiting);
  const { project_id: _id, ...receipt } = first as ProjectReceipt;
  return receipt;
}

/** Like `awaitPropagation` for versions of several projects: one wait for any number of them. */
async function awaitVersions(
  ctx: Ctx,
  awaited: readonly AwaitedVersion[],
  waiting: WaitOptions,
): Promise<ProjectReceipt[]> {
  const { clock, nodes, store } = ctx.services;
  const { onDisconnect, inSlot = (read) => inFleetSlotIfAny(ctx, read) } = waiting;
  const waitMs = Math.min(waiting.waitMs, WAIT_MAX_MS);
  const start = clock.now();
  const seenAfter = await seenSince(ctx.services);
  const subscription = waitMs > 0 ? subscribe(ctx, waitMs, onDisconnect) : undefined;
  const notify = (): void => subscription?.notify();
  const unsubscribe = awaited.map(({ project_id }) => nodes.onWritten(project_id, notify));
  const rereading = subscription && store.dialect === "postgres" ? setInterval(notify, REREAD_MS) : undefined;
  try {
    for (let from: LaggingNode | undefined; ; ) {
      const lagging =
        subscription && !subscription.ended ? await findLagging(ctx, awaited, seenAfter(), from) : undefined;
      if (!lagging) {
        // The database may not have every node that this process knows.
        const settled = await Promise.all(
          awaited.map((each) => nodes.awaitSettled(each.project_id, each.env, SETTLE_MS)),
        );
        const receipts = await inSlot(() => readReceipts(ctx, awaited, { settled, start, seenAfter: seenAfter() }));
        if (!receipts) return awaited.map((each) => unknownReceipt(each, clock.now() - start));
        // Waiting longer does not help where only nodes are missing that never report.
        const areAcked = receipts.every(({ acked_nodes, total_nodes }) => acked_nodes === total_nodes);
        if (areAcked || !subscription || subscription.ended) return receipts;
      }
      from = lagging; // resumes at the last lagging node; if none lags after it, all nodes are checked again
      await subscription?.changed();
    }
  } finally {
    for (const end of unsubscribe) end();
    clearInterval(rereading);
    subscription?.close();
  }
}

/** Undefined if the owner gets no place among the waiting receipts, or the service is stopping. */
function subscribe({ services, actor }: Ctx, waitMs: number, onDisconnect: OnDisconnect): Subscription | undefined {
  const { shutdown } = services;
  const places = actor.kind === "api_key" ? services.waitingHolders : services.waitingReceipts;
  const subscription: Subscription = new Subscription(waitMs, onDisconnect, () => places.delete(subscription));
  if (!shutdown.signal.aborted && places.add(slotOwner(actor), subscription)) return subscription;
  subscription.close();
  return undefined;
}

/** A change of a key, the policy version that brings it to the nodes, and what they need to get the key. */
export type KeyChange = { key: ApiKey; project_id: string; version: number; needs: number };

/** How to wait for a change that has been committed, such as a revocation: the caller's disconnect does not matter. */
function committed({ services }: Ctx): WaitOptions {
  return { waitMs: services.settings.revoke_wait_ms, onDisconnect: NEVER_DISCONNECTS };
}

export function awaitKeyChange(ctx: Ctx, { project_id, version, key, needs }: KeyChange): Promise<Propagation> {
  return awaitPropagation(ctx, { project_id, version, env: key.env, needs }, committed(ctx));
}

const byId = (a: { id: string }, b: { id: string }): number => (a.id < b.id ? -1 : 1);

/** Waits until the nodes of several projects have what is committed by now. `needed`: capabilities that it may need. */
export async function awaitProjects(ctx: Ctx, ids: readonly string[], needed: number) {
  const { store, clock } = ctx.services;
  const start = clock.now();
  const heads = (await headsByIds(store.read, ids)).toSorted(byId);
  const awaited = heads.map(({ id, policy_version, features }) => {
    return { project_id: id, version: policy_version, env: null, needs: features & needed };
  });
  const receipts = await awaitVersions(ctx, awaited, committed(ctx));
  const sum = (name: "acked_nodes" | "total_nodes" | "withheld_nodes"): number =>
    receipts.reduce((total, receipt) => total + receipt[name], 0);
  return {
    complete: receipts.every(({ complete }) => complete),
    waited_ms: clock.now() - start,
    acked_nodes: sum("acked_nodes"),
    total_nodes: sum("total_nodes"),
    withheld_nodes: sum("withheld_nodes"),
    projects: receipts,
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
    onDisconnect: orCredentialEnds(ctx, onDisconnect),
    inSlot: (read) => inFleetSlot(ctx, read),
  };
  const shown = await awaitPropagation(ctx, { project_id, version, env, needs }, waiting);
  await ctx.requireStillValid?.();
  return { object: "propagation" as const, project_id, ...shown };
}

/** A node without the version, among those at or after `from`: all nodes are read only once none is left. */
async function findLagging(
  ctx: Ctx,
  awaited: readonly AwaitedVersion[],
  seenAfter: number,
  from: LaggingNode | undefined,
): Promise<LaggingNode | undefined> {
  const { store } = ctx.services;
  const first = awaited.findIndex(({ project_id }) => project_id === from?.project_id);
  const left = awaited.slice(Math.max(0, first)).map(({ project_id, version, env }) => {
    const scopes = { one: env ?? "live", other: env ?? "test" } as const;
    return { project_id, version, ...scopes, first: project_id === from?.project_id ? from.node_id : "" };
  });
  return firstLagging(store.read, left, seenAfter);
}

/** `settled`: of each project, whether the database has every node that this process knows. */
async function readReceipts(
  ctx: Ctx,
  awaited: readonly AwaitedVersion[],
  { settled, start, seenAfter }: { settled: readonly boolean[]; start: number; seenAfter: number },
): Promise<ProjectReceipt[]> {
  const { clock, store } = ctx.services;
  const fleets: Fleet[] = [];
  let left = LISTED_MAX;
  // One project after the other, so that only the nodes of one are in memory.
  for (const each of awaited) {
    const fleet = viewFleet(await nodesHolding(ctx, each, seenAfter), each, left);
    left -= fleet.nodes.length;
    fleets.push(fleet);
  }
  const ids = awaited.map(({ project_id }) => project_id);
  const noted = await unregisteredNodes.all(store.read, { ids: JSON.stringify(ids), seenAfter });
  const byProject = Map.groupBy(noted, ({ project_id }) => project_id);
  return awaited.map((each, i) => {
    const { acked_nodes, total_nodes, ...fleet } = fleets[i] ?? viewFleet([], each, 0);
    const unregistered = countUnregistered(ctx, each, seenAfter, byProject.get(each.project_id)) || Number(!settled[i]);
    return {
      project_id: each.project_id,
      version: each.version,
      complete: acked_nodes === total_nodes && unregistered === 0,
      ...(unregistered > 0 && { unregistered_nodes: unregistered }),
      waited_ms: clock.now() - start,
      acked_nodes,
      total_nodes,
      ...fleet,
    };
  });
}

/** The receipt when the nodes could not be read. */
function unknownReceipt(awaited: AwaitedVersion, waited_ms: number): ProjectReceipt {
  const { project_id, version } = awaited;
  return { project_id, version, complete: false, waited_ms, ...viewFleet([], awaited, 0) };
}

/** Nodes without a row that may hold keys of this environment. */
function countUnregistered(
  { services: { nodes } }: Ctx,
  { project_id, env }: AwaitedVersion,
  seenAfter: number,
  noted: readonly UnregisteredNodesRow[] = [],
): number {
  const holding = noted.filter(({ scope }) => envsOfHolders(env).includes(scope));
  const counted = holding.reduce((sum, row) => sum + row.nodes, 0);
  return Math.max(counted, nodes.hasLost(project_id, env, seenAfter) ? 1 : 0);
}

/** `listed`: how many to list at most. */
function viewFleet(rows: readonly PolicyNodeRow[], { version, needs }: AwaitedVersion, listed: number): Fleet {
  const missing = rows.filter((row) => row.version < version);
  const acked = rows.filter((row) => row.version >= version);
  const nodes = [...missing, ...acked].slice(0, listed).map((row) => ({
    node_id: row.node_id,
    env_scope: row.env_scope,
    version: row.version,
    acked: row.version >= version,
    caps: listCaps(row.caps),
    missing_caps: missingFrom(row.caps, needs),
    last_seen_at: formatTimestamp(row.last_seen_at),
  }));
  return {
    acked_nodes: acked.length,
    total_nodes: rows.length,
    withheld_nodes: countLacking(rows, needs),
    nodes,
    nodes_omitted: rows.length - nodes.length,
  };
}
