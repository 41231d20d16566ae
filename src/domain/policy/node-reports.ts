// Writes what nodes have reported, within the bound of each project. A node that was seen lately is never removed for a
// newcomer: at the bound of such nodes a newcomer is served but not registered, and that is noted, because no receipt may
// then say that every node has a version. Nodes of test keys have a bound of their own.
import type { Env } from "../../kernel/credentials.ts";
import {
  countNodes,
  deleteNodes,
  nodesByKeys,
  noteUnregistered,
  silentNodes,
  unregisteredNodes,
  upsertNode,
  type NodeKey,
  type NodeScopes,
} from "../../store/queries/nodes.ts";
import type { Tx } from "../../store/engine/statement.ts";
import type { EnvScope, PolicyNodeRow } from "../../store/schema/tables.ts";

/** `version` is null when the report acknowledges nothing: the node only took a snapshot, or is leaving. */
export type NodeReport = Omit<NodeRow, "version" | "first_seen_at"> & { version: number | null; leaving: boolean };

/** What a report writes. */
type NodeRow = Omit<PolicyNodeRow, "degraded_at">;

/** `perProject`: of the nodes that hold live keys, and as many of the others. Seen within `liveMs`, a node is live. */
export type NodeBounds = { perProject: number; liveMs: number };

/** Noted again after this part of the time that a node counts as live. */
const NOTED_AGAIN_AFTER = 1 / 4;

type Scope = NodeScopes & { env: Env; newcomers: NodeReport[] };

/**
 * Returns the nodes that have no row afterwards. A statement reads or writes all of them: row by row, the reports of a
 * large fleet took many times as long on PostgreSQL. bench: fleet/acknowledgements
 */
export async function writeReports(tx: Tx, reports: NodeReport[], bounds: NodeBounds): Promise<NodeKey[]> {
  const leaving = reports.filter((report) => report.leaving);
  if (leaving.length > 0) await deleteNodes(tx, leaving);
  // In one order in every process: two that write the same nodes must not wait for each other.
  const staying = reports.filter((report) => !report.leaving).toSorted(byKey);
  const registered = new Set((await nodesByKeys(tx, staying)).map(keyOf));
  const known = staying.filter((report) => registered.has(keyOf(report)));
  await upsertNode.insertMany(tx, known.map(rowOf));
  const grown = new Map<string, Scope>();
  for (const report of staying) {
    if (registered.has(keyOf(report))) continue;
    const { project_id, env_scope } = report;
    const key = `${project_id} ${scopesOf(env_scope).env}`;
    const scope = grown.get(key) ?? { project_id, ...scopesOf(env_scope), newcomers: [] };
    scope.newcomers.push(report);
    grown.set(key, scope);
  }
  const without: NodeKey[] = [];
  for (const scope of grown.values()) without.push(...(await register(tx, scope, bounds)));
  return without;
}

/** A node's identity as one text. */
export const keyOf = ({ project_id, node_id, env_scope }: NodeKey): string => `${project_id} ${env_scope} ${node_id}`;

function byKey(a: NodeKey, b: NodeKey): number {
  return keyOf(a) < keyOf(b) ? -1 : 1;
}

async function register(tx: Tx, scope: Scope, { perProject, liveMs }: NodeBounds): Promise<NodeKey[]> {
  const { project_id, env, newcomers } = scope;
  const now = Math.max(...newcomers.map(({ last_seen_at }) => last_seen_at));
  const free = perProject - ((await countNodes.first(tx, scope))?.n ?? 0);
  const limit = newcomers.length - Math.max(0, free);
  const silent = limit > 0 ? await silentNodes.all(tx, { ...scope, seenBefore: now - liveMs, limit }) : [];
  if (silent.length > 0) await deleteNodes(tx, silent);
  const admitted = newcomers.slice(0, Math.max(0, free) + silent.length);
  await upsertNode.insertMany(tx, admitted.map(rowOf));
  const refused = newcomers.slice(admitted.length);
  if (refused.length > 0) await note(tx, { project_id, scope: env, nodes: refused.length, last_seen_at: now }, liveMs);
  return [...silent, ...refused];
}

type Noted = { project_id: string; scope: Env; nodes: number; last_seen_at: number };

/** The most that one write has found lately: at least this many nodes are without a row. */
async function note(tx: Tx, noted: Noted, liveMs: number): Promise<void> {
  const { project_id, scope, last_seen_at } = noted;
  const rows = await unregisteredNodes.all(tx, { project_id, seenAfter: last_seen_at - liveMs });
  const before = rows.find((row) => row.scope === scope);
  const nodes = Math.max(noted.nodes, before?.nodes ?? 0);
  const isNews = !before || before.nodes < nodes || last_seen_at - before.last_seen_at >= NOTED_AGAIN_AFTER * liveMs;
  if (isNews) await noteUnregistered.run(tx, { ...noted, nodes });
}

function scopesOf(scope: EnvScope): { env: Env; one: EnvScope; other: EnvScope } {
  return scope === "test" ? { env: "test", one: "test", other: "test" } : { env: "live", one: "live", other: "all" };
}

function rowOf(report: NodeReport): NodeRow {
  return { ...report, version: report.version ?? 0, first_seen_at: report.last_seen_at };
}
