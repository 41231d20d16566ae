// The fleet: the nodes that poll the policy feed, how far each of them is behind, and which are late or silent.
import type { Env } from "../../kernel/credentials.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import { CAP, listCaps, maskOf, missingFrom, NO_CAPS } from "../../kernel/policy/capabilities.ts";
import { formatTimestamp, formatTimestampOrNull } from "../../kernel/timestamps.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import {
  countNeedingKeys,
  newestNodes,
  nodesAfter,
  projectsWithNodes,
  unregisteredOf,
  type FleetProject,
  type NeedingKeys,
  type NodeRow,
} from "../../store/queries/nodes.ts";
import type { EnvScope, PolicyNodeRow } from "../../store/schema/tables.ts";
import { confinedTo, projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { requireEnvAccess, requireProjectAccess } from "../core/env-access.ts";
import { inFleetSlot, inThreadSlot, threadReader } from "../core/read-slots.ts";
import { NEEDED } from "./needs.ts";
import { liveSince } from "./presence.ts";
import { viewSdk } from "./sdk-name.ts";
import { envsOfHolders, holdsKeysOf } from "./traits.ts";
import { walkNodes } from "./walk.ts";
import { liveProject } from "../workspaces/projects.ts";

/** How long a report of a degraded decision shows. */
export const DEGRADED_MS = 5 * MINUTE_MS;
/** Maximum of nodes that the fleet list counts and shows: of those with test keys, and of all others. */
const FLEET_MAX = 10_000;
const PROJECT_NODES_MAX = 1_000;

export const NODE_STATES = ["live", "late", "degraded", "silent"] as const;
type NodeState = (typeof NODE_STATES)[number];

type FleetQuery = {
  project_id?: string | undefined;
  env?: Env | undefined;
  state?: NodeState | undefined;
  limit: number;
  cursor?: string | undefined;
};

type FleetFilter = Pick<FleetQuery, "project_id" | "env">;

/** The most recently seen nodes of one project. Nodes of test keys only fill the room that others leave. */
export async function listNodes(ctx: Ctx<Vendor>, project_id: string) {
  const { services, actor } = ctx;
  requireProjectAccess(actor, project_id);
  const { policy_version, features } = await liveProject(services.store.read, actor.workspace_id, project_id);
  const read = (isTest: boolean): Promise<PolicyNodeRow[]> =>
    newestNodes.all(services.store.read, { project_id, isTest: Number(isTest), limit: PROJECT_NODES_MAX });
  const rows = confinedTo(actor) === "test" ? [] : await read(false);
  await yieldToEventLoop();
  if (rows.length < PROJECT_NODES_MAX) rows.push(...(await read(true)));
  const newest = rows
    .slice(0, PROJECT_NODES_MAX)
    .map((row) => ({ ...row, policy_version, features }))
    .toSorted((a, b) => b.last_seen_at - a.last_seen_at || (a.node_id < b.node_id ? -1 : 1));
  const withheld = await countWithheld(ctx, newest);
  const seenAfter = await liveSince(services);
  const data = newest.map((row) => ({ ...viewNode(row, seenAfter), withheld_keys: withheld(row) }));
  return { object: "list" as const, data };
}

type Polled = PolicyNodeRow & Omit<FleetProject, "id">;
type FleetRow = Polled & NodeRow;

/** How many keys each node does not get. Counts, in another thread, only if a node lacks something. */
async function countWithheld(ctx: Ctx<Vendor>, rows: readonly Polled[]) {
  const { store, clock } = ctx.services;
  const { workspace_id } = ctx.actor;
  const lacks = ({ caps, features }: Polled): number => features & NEEDED & ~maskOf(caps.split(","));
  const project_ids = [...new Set(rows.filter((row) => lacks(row) !== NO_CAPS).map(({ project_id }) => project_id))];
  if (project_ids.length === 0) return () => 0;
  const wanted = { workspace_id, project_ids, now: clock.now() };
  const counts = await inThreadSlot(ctx, () => countNeedingKeys(threadReader(store), wanted));
  const needsOf = ({ chosen, confined, metered }: NeedingKeys): number =>
    (chosen && CAP.formats) | (confined && CAP.cidr) | (metered && CAP.quotas);
  return (row: Polled): number => {
    const isWithheld = (keys: NeedingKeys): boolean =>
      keys.project_id === row.project_id &&
      (needsOf(keys) & lacks(row)) !== NO_CAPS &&
      holdsKeysOf(keys.env, row.env_scope);
    return counts.filter(isWithheld).reduce((sum, { n }) => sum + n, 0);
  };
}

/** The nodes of all projects in a fixed order, with the numbers of nodes in each state. */
export async function listFleet(ctx: Ctx<Vendor>, query: FleetQuery) {
  return inFleetSlot(ctx, () => readFleetPage(ctx, query));
}

async function readFleetPage(ctx: Ctx<Vendor>, { limit, cursor, ...filters }: FleetQuery) {
  const pages = new ListCursor(ctx, "nodes", filters);
  const after = cursor === undefined ? [] : pages.read(cursor, ["string", "string", "string"]);
  const states = { total: 0, live: 0, current: 0, late: 0, degraded: 0, silent: 0 };
  const wanted: FleetRow[] = [];
  const seenAfter = await liveSince(ctx.services);
  for await (const piece of readFleet(ctx, filters)) {
    if (ctx.hasDisconnected?.()) break;
    for (const row of piece) {
      const health = healthOf(ctx, row, seenAfter);
      countState(states, health);
      if (wanted.length <= limit && isIn(health, filters.state) && isAfter(positionOf(row), after)) wanted.push(row);
    }
  }
  const rows = wanted.slice(0, limit);
  const last = wanted.length > limit ? rows.at(-1) : undefined;
  const next_cursor = last ? pages.write(positionOf(last)) : null;
  const withheld = await countWithheld(ctx, rows);
  const data = rows.map((row) => ({ ...viewFleetNode(ctx, row, seenAfter), withheld_keys: withheld(row) }));
  const counts = { ...states, unregistered: await countUnregistered(ctx, filters, seenAfter) };
  return { object: "list" as const, data, next_cursor, counts };
}

/** A test secret key sees nodes of test keys only; nodes of both environments belong to live. */
async function* readFleet(ctx: Ctx<Vendor>, { project_id, env }: FleetFilter) {
  const { services, actor } = ctx;
  if (env) requireEnvAccess(actor, env);
  const confined = confinedTo(actor);
  const covers = (scope: EnvScope): boolean => (confined ? scope === confined : holdsKeysOf(env ?? null, scope));
  // Counted apart: however many nodes of test keys there are, they hide no other.
  const left = { test: env === "live" ? 0 : FLEET_MAX, other: confined ? 0 : FLEET_MAX };
  for (const { id, policy_version, features } of await fleetProjects(ctx, project_id))
    for await (const piece of walkNodes((after) => nodesAfter.all(services.store.read, { project_id: id, ...after }))) {
      const listed = piece.filter(
        ({ env_scope }) => covers(env_scope) && left[env_scope === "test" ? "test" : "other"]-- > 0,
      );
      yield listed.map((row): FleetRow => ({ ...row, policy_version, features }));
      if (left.test <= 0 && left.other <= 0) return;
    }
}

async function fleetProjects({ services, actor }: Ctx<Vendor>, project_id?: string): Promise<FleetProject[]> {
  const { workspace_id } = actor;
  const { read } = services.store;
  if (project_id) {
    requireProjectAccess(actor, project_id);
    return [await liveProject(read, workspace_id, project_id)];
  }
  const [projects, reached] = [await projectsWithNodes.all(read, { workspace_id }), projectsOf(actor)];
  return reached ? projects.filter(({ id }) => reached.includes(id)) : projects;
}

/** Counts nodes that poll without a row. A node of both environments counts as one of live keys. */
async function countUnregistered(ctx: Ctx<Vendor>, { project_id, env }: FleetFilter, seenAfter: number) {
  const { services, actor } = ctx;
  const noted = await unregisteredOf.all(services.store.read, { workspace_id: actor.workspace_id, seenAfter });
  const [projects, confined] = [projectsOf(actor), confinedTo(actor)];
  return noted
    .filter((row) => (project_id ? row.project_id === project_id : !projects || projects.includes(row.project_id)))
    .filter(({ scope }) => (confined ? scope === confined : envsOfHolders(env ?? null).includes(scope)))
    .reduce((sum, { nodes }) => sum + nodes, 0);
}

/** Counts live nodes, and those of them with the newest version. Reads all nodes, so callers hold a read slot. */
export async function countNodes(ctx: Ctx<Vendor>, filter: FleetFilter) {
  const counted = { live: 0, current: 0 };
  const seenAfter = await liveSince(ctx.services);
  for await (const piece of readFleet(ctx, filter)) {
    const live = piece.filter((row) => isLive(row, seenAfter));
    counted.live += live.length;
    counted.current += live.filter((row) => lagOf(row) === 0).length;
  }
  return counted;
}

const isLive = ({ last_seen_at }: PolicyNodeRow, seenAfter: number): boolean => last_seen_at > seenAfter;

const lagOf = ({ policy_version, version }: Polled): number => Math.max(0, policy_version - version);

function viewNode(row: Polled, seenAfter: number) {
  return {
    object: "node" as const,
    project_id: row.project_id,
    node_id: row.node_id,
    env_scope: row.env_scope,
    version: row.version,
    lag: lagOf(row),
    live: isLive(row, seenAfter),
    caps: listCaps(row.caps),
    missing_caps: missingFrom(row.caps, row.features),
    full_power: row.full_power === 1,
    last_seen_at: formatTimestamp(row.last_seen_at),
  };
}

/** `lag_ms`: the age of the oldest version that the node lacks; null when that is no longer in the delta log. */
function healthOf(ctx: Ctx, row: FleetRow, seenAfter: number) {
  const { clock, settings } = ctx.services;
  const [live, lag] = [isLive(row, seenAfter), lagOf(row)];
  const lag_ms = lag === 0 ? 0 : row.missed_at === null ? null : Math.max(0, clock.now() - row.missed_at);
  const lateAfter = settings.node_late_after;
  const late = live && lateAfter !== null && (lag_ms === null || lag_ms > lateAfter);
  const degraded = row.degraded_at !== null && row.degraded_at > clock.now() - DEGRADED_MS;
  return { live, lag, lag_ms, late, degraded };
}

type Health = ReturnType<typeof healthOf>;

function viewFleetNode(ctx: Ctx, row: FleetRow, seenAfter: number) {
  const { lag_ms, late, degraded } = healthOf(ctx, row, seenAfter);
  return {
    ...viewNode(row, seenAfter),
    lag_ms,
    late,
    degraded,
    sdk: viewSdk(row.sdk),
    first_seen_at: formatTimestampOrNull(row.first_seen_at),
  };
}

function isIn({ live, late, degraded }: Health, state: NodeState | undefined): boolean {
  return state === undefined || { live, late, degraded, silent: !live }[state];
}

function countState(counts: Record<NodeState | "total" | "current", number>, { live, lag, late, degraded }: Health) {
  counts.total++;
  if (live) counts.live++;
  else counts.silent++;
  if (live && lag === 0) counts.current++;
  if (late) counts.late++;
  if (degraded) counts.degraded++;
}

const positionOf = ({ project_id, node_id, env_scope }: PolicyNodeRow) => [project_id, node_id, env_scope] as const;

function isAfter(position: readonly string[], after: readonly (string | number)[]): boolean {
  for (const [i, value] of position.entries()) {
    const bound = String(after[i] ?? "");
    if (value !== bound) return value > bound;
  }
  return false;
}
