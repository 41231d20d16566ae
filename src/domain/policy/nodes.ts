// The fleet: the nodes that poll the policy feed, how far each of them is behind, and which are late or silent.
import type { Env } from "../../kernel/credentials.ts";
import { CAP, listCaps, maskOf, missingFrom, NO_CAPS } from "../../kernel/policy/capabilities.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import {
  countNeedingKeys,
  fleetOf,
  unregisteredOf,
  type FleetRow,
  type NeedingKeys,
} from "../../store/queries/nodes.ts";
import type { EnvScope } from "../../store/schema/tables.ts";
import { confinedTo, ownerOf, projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { requireEnvAccess, requireProjectAccess } from "../core/env-access.ts";
import { NEEDED } from "./needs.ts";
import { viewSdk } from "./node-sdk.ts";
import { liveProject } from "../workspaces/projects.ts";

/** How long a report of a degraded decision shows. */
export const DEGRADED_MS = 300_000;
/** Counts stop here, and a list over all projects ends here. */
const FLEET_MAX = 10_000;
const PROJECT_NODES_MAX = 1_000;

export const NODE_STATES = ["live", "late", "degraded", "silent"] as const;
export type NodeState = (typeof NODE_STATES)[number];

export type FleetQuery = {
  project_id?: string | undefined;
  env?: Env | undefined;
  state?: NodeState | undefined;
  limit: number;
  cursor?: string | undefined;
};

/** The most recently seen nodes of one project; those of test keys only as far as others leave room. */
export async function listNodes(ctx: Ctx<Vendor>, project_id: string) {
  const rows = await readFleet(ctx, { project_id }, { newest: true, limit: PROJECT_NODES_MAX });
  const newest = rows
    .slice(0, PROJECT_NODES_MAX)
    .toSorted((a, b) => b.last_seen_at - a.last_seen_at || (a.node_id < b.node_id ? -1 : 1));
  const withheld = await countWithheld(ctx, newest);
  return {
    object: "list" as const,
    data: newest.map((row) => ({ ...viewNode(ctx, row), withheld_keys: withheld(row) })),
  };
}

/** How many keys each node does not get. Counts, in another thread, only where a node lacks something. */
async function countWithheld({ services, actor }: Ctx<Vendor>, rows: readonly FleetRow[]) {
  const { store, series, clock } = services;
  const { workspace_id } = actor;
  const lacks = ({ caps, features }: FleetRow): number => features & NEEDED & ~maskOf(caps.split(","));
  const project_ids = [...new Set(rows.filter((row) => lacks(row) !== NO_CAPS).map(({ project_id }) => project_id))];
  if (project_ids.length === 0) return () => 0;
  const query = countNeedingKeys(store.read, { workspace_id, project_ids, now: clock.now() });
  const counts = await series.read(ownerOf(actor), () => store.readAside<NeedingKeys>(query));
  await store.durable();
  const needsOf = ({ chosen, confined, metered }: NeedingKeys): number =>
    (chosen && CAP.formats) | (confined && CAP.cidr) | (metered && CAP.quotas);
  return (row: FleetRow): number => {
    const isWithheld = (keys: NeedingKeys): boolean =>
      keys.project_id === row.project_id &&
      (needsOf(keys) & lacks(row)) !== NO_CAPS &&
      (row.env_scope === "all" || row.env_scope === keys.env);
    return counts.filter(isWithheld).reduce((sum, { n }) => sum + n, 0);
  };
}

/** The nodes of all projects in a fixed order, with the numbers of nodes in each state. */
export async function listFleet(ctx: Ctx<Vendor>, { limit, cursor, ...filters }: FleetQuery) {
  const rows = await readFleet(ctx, filters);
  const all = rows
    .toSorted(byPosition)
    .map((row) => ({ row, node: { ...viewNode(ctx, row), ...viewHealth(ctx, row) } }));
  const pages = new ListCursor(ctx, "nodes", filters);
  const after = cursor === undefined ? [] : pages.read(cursor, ["string", "string", "string"]);
  const wanted = all.filter(({ node }) => isIn(node, filters.state) && isAfter(positionOf(node), after));
  const page = wanted.slice(0, limit);
  const last = wanted.length > limit ? page.at(-1)?.node : undefined;
  const next_cursor = last ? pages.write(positionOf(last)) : null;
  const withheld = await countWithheld(
    ctx,
    page.map(({ row }) => row),
  );
  const data = page.map(({ row, node }) => ({ ...node, withheld_keys: withheld(row) }));
  const counts = { ...countStates(all.map(({ node }) => node)), unregistered: await countUnregistered(ctx, filters) };
  return { object: "list" as const, data, next_cursor, counts };
}

/**
 * A test secret key sees nodes of test keys only; nodes of both environments belong to live verifiers. The two are read one
 * after the other, each up to the limit: however many nodes of test keys there are, they hide no other.
 */
async function readFleet(
  ctx: Ctx<Vendor>,
  { project_id, env }: Pick<FleetQuery, "project_id" | "env">,
  how: { newest?: boolean; limit: number } = { limit: FLEET_MAX },
) {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  if (env) requireEnvAccess(actor, env);
  if (project_id) {
    requireProjectAccess(actor, project_id);
    await liveProject(services.store.read, workspace_id, project_id);
  }
  const projects = projectsOf(actor);
  const read = (isTest: boolean) =>
    fleetOf(services.store.read, { workspace_id, project_id, projects, isTest, ...how });
  const confined = confinedTo(actor);
  const covers = (scope: EnvScope): boolean =>
    confined ? scope === confined : !env || scope === "all" || scope === env;
  const rows = [...(confined === "test" ? [] : await read(false)), ...(env === "live" ? [] : await read(true))];
  return rows.filter((row) => covers(row.env_scope));
}

/** Nodes that poll without a row. A node of both environments is noted as one of live keys. */
async function countUnregistered(ctx: Ctx<Vendor>, { project_id, env }: Pick<FleetQuery, "project_id" | "env">) {
  const { services, actor } = ctx;
  const seenAfter = services.clock.now() - services.settings.node_live_ms;
  const noted = await unregisteredOf.all(services.store.read, { workspace_id: actor.workspace_id, seenAfter });
  const [projects, confined] = [projectsOf(actor), confinedTo(actor)];
  return noted
    .filter((row) => (project_id ? row.project_id === project_id : !projects || projects.includes(row.project_id)))
    .filter(({ scope }) => (confined ? scope === confined : scope === "live" || env !== "live"))
    .reduce((sum, { nodes }) => sum + nodes, 0);
}

/** Live nodes, and how many of them have the newest version. */
export async function countNodes(ctx: Ctx<Vendor>, filter: Pick<FleetQuery, "project_id" | "env">) {
  const nodes = (await readFleet(ctx, filter)).map((row) => viewNode(ctx, row)).filter(({ live }) => live);
  return { live: nodes.length, current: nodes.filter(({ lag }) => lag === 0).length };
}

function viewNode({ services }: Ctx, row: FleetRow) {
  return {
    object: "node" as const,
    project_id: row.project_id,
    node_id: row.node_id,
    env_scope: row.env_scope,
    version: row.version,
    lag: Math.max(0, row.policy_version - row.version),
    live: row.last_seen_at > services.clock.now() - services.settings.node_live_ms,
    caps: listCaps(row.caps),
    missing_caps: missingFrom(row.caps, row.features),
    full_power: row.full_power === 1,
    last_seen_at: formatTimestamp(row.last_seen_at),
  };
}

/** `lag_ms`: the age of the oldest version that the node lacks; null when that is no longer in the delta log. */
function viewHealth(ctx: Ctx, row: FleetRow) {
  const { clock, settings } = ctx.services;
  const { lag, live } = viewNode(ctx, row);
  const lag_ms = lag === 0 ? 0 : row.missed_at === null ? null : Math.max(0, clock.now() - row.missed_at);
  const lateAfter = settings.node_late_after;
  return {
    lag_ms,
    late: live && lateAfter !== null && (lag_ms === null || lag_ms > lateAfter),
    degraded: row.degraded_at !== null && row.degraded_at > clock.now() - DEGRADED_MS,
    sdk: viewSdk(row.sdk),
    first_seen_at: row.first_seen_at === null ? null : formatTimestamp(row.first_seen_at),
  };
}

type FleetNode = ReturnType<typeof viewNode> & ReturnType<typeof viewHealth>;

function isIn({ live, late, degraded }: FleetNode, state: NodeState | undefined): boolean {
  return state === undefined || { live, late, degraded, silent: !live }[state];
}

function countStates(nodes: readonly FleetNode[]) {
  const count = (matches: (node: FleetNode) => boolean): number => nodes.filter(matches).length;
  return {
    total: nodes.length,
    live: count(({ live }) => live),
    current: count(({ live, lag }) => live && lag === 0),
    late: count(({ late }) => late),
    degraded: count(({ degraded }) => degraded),
    silent: count(({ live }) => !live),
  };
}

const positionOf = ({ project_id, node_id, env_scope }: FleetNode) => [project_id, node_id, env_scope] as const;

function byPosition(a: FleetRow, b: FleetRow): number {
  const [left, right] = [a, b].map(({ project_id, node_id, env_scope }) => `${project_id} ${node_id} ${env_scope}`);
  return left! < right! ? -1 : 1;
}

function isAfter(position: readonly string[], after: readonly (string | number)[]): boolean {
  for (const [i, value] of position.entries()) {
    const bound = String(after[i] ?? "");
    if (value !== bound) return value > bound;
  }
  return false;
}
