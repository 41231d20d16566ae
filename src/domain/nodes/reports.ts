// Writes what nodes have reported, within the bound of each project. A node that was seen lately is never removed for a
// newcomer: at the bound of such nodes a newcomer is served but not registered, and that is noted, because no receipt
// may then say that every node has a version. Nodes of test keys have a bound of their own.
import type { Owner } from "../../fairness/owners.ts";
import type { Env } from "../../kernel/credentials.ts";
import {
  countInScopes,
  deleteNodes,
  lockNodes,
  noteUnregistered,
  silentNodes,
  unregisteredNodes,
  upsertNode,
  type NodeKey,
  type NodeScopes,
} from "../../store/queries/nodes.ts";
import type { Tx } from "../../store/engine/tx.ts";
import { ROW_BYTES } from "../../store/engine/transaction.ts";
import type { EnvScope, PolicyNodeRow } from "../../store/schema/tables.ts";
import { envOf } from "./traits.ts";

/** `version` is null when the report acknowledges nothing: the node only took a snapshot, or is leaving. */
export type NodeReport = Omit<NodeRow, "version" | "first_seen_at"> & {
  version: number | null;
  leaving: boolean;
  owner: Owner;
};

/** The columns that a report writes. */
type NodeRow = Omit<PolicyNodeRow, "degraded_at">;

/**
 * `perProject`: of the nodes that hold live keys, and as many of the others. `liveMs`: how long a node counts as live
 * after a report; `liveSince`: the time after which those that count have reported. `hasRoom`: whether the owner may
 * store another row.
 */
export type NodeBounds = {
  perProject: number;
  liveMs: number;
  liveSince: (tx: Tx) => Promise<number>;
  hasRoom: (owner: Owner) => boolean;
};

/** Nodes whose reports were lost: at least one of them may have no row. */
export type LostNodes = { project_id: string; scope: Env; last_seen_at: number };

/** Reports are written sooner than this, unless the process was paused or is overloaded. */
const LATE_MS = 250;

/** A note is renewed after this part of the time that a node counts as live. */
const NOTED_AGAIN_AFTER = 1 / 4;

type Scope = NodeScopes & { env: Env; owner: Owner; newcomers: NodeReport[] };

/**
 * `without`: nodes that have no row afterwards, or one that another process wrote later. `added`: those that have one
 * now.
 */
type Outcome = { without: NodeKey[]; added: NodeReport[] };

/**
 * Writes all reports or none. Each statement reads or writes all of them: row by row, the reports of a
 * large fleet took many times as long on PostgreSQL. bench: fleet/acknowledgements
 */
export async function writeReports(
  tx: Tx,
  all: NodeReport[],
  { now, ...bounds }: NodeBounds & { now: number },
): Promise<Outcome> {
  const rows = new Map((await lockNodes(tx, all)).map((row) => [keyOf(row), row]));
  const superseded = all.filter((report) => isSuperseded(report, rows.get(keyOf(report)), now));
  const reports = superseded.length > 0 ? all.filter((report) => !superseded.includes(report)) : all;
  const leaving = reports.filter((report) => report.leaving);
  if (leaving.length > 0) await deleteNodes(tx, leaving);
  // In one order in every process: two that register the same nodes must not wait for each other.
  const staying = reports.filter((report) => !report.leaving).toSorted(byKey);
  const registered = new Set(rows.keys());
  const known = staying.filter((report) => registered.has(keyOf(report)));
  await upsertNode.insertMany(tx, known.map(rowOf));
  const grown = new Map<string, Scope>();
  for (const report of staying) {
    if (registered.has(keyOf(report))) continue;
    const { project_id, env_scope, owner } = report;
    const key = `${project_id} ${scopesOf(env_scope).env}`;
    const scope = grown.get(key) ?? { project_id, ...scopesOf(env_scope), owner, newcomers: [] };
    scope.newcomers.push(report);
    grown.set(key, scope);
  }
  const outcome: Outcome = { without: superseded, added: [] };
  for (const scope of grown.values()) {
    const { without, added } = await register(tx, scope, bounds);
    outcome.without.push(...without);
    outcome.added.push(...added);
  }
  return outcome;
}

/**
 * Whether the node has since reported to another process. Considered only for a report that waited long here, as in a
 * paused process: otherwise clock skew between the two processes would decide.
 */
function isSuperseded(report: NodeReport, row: PolicyNodeRow | undefined, now: number): boolean {
  return now - report.last_seen_at > LATE_MS && row !== undefined && row.last_seen_at > report.last_seen_at;
}

/** A node's identity as one text. */
export const keyOf = ({ project_id, node_id, env_scope }: NodeKey): string => `${project_id} ${env_scope} ${node_id}`;

/** Approximate bytes stored for a new node. */
export function bytesOf({ project_id, node_id, caps, sdk }: NodeReport): number {
  return ROW_BYTES + project_id.length + node_id.length + caps.length + (sdk?.length ?? 0);
}

export function noteLost(tx: Tx, lost: LostNodes, { liveMs }: NodeBounds): Promise<void> {
  return note(tx, { ...lost, nodes: 1 }, liveMs);
}

function byKey(a: NodeKey, b: NodeKey): number {
  return keyOf(a) < keyOf(b) ? -1 : 1;
}

async function register(tx: Tx, scope: Scope, bounds: NodeBounds): Promise<Outcome> {
  const { project_id, env, owner, newcomers } = scope;
  const { perProject, liveMs, liveSince, hasRoom } = bounds;
  const now = Math.max(...newcomers.map(({ last_seen_at }) => last_seen_at));
  const admitted = hasRoom(owner) ? newcomers : [];
  const free = Math.max(0, perProject - (await countInScopes.count(tx, scope)));
  const limit = admitted.length - free;
  const silent = limit > 0 ? await silentNodes.all(tx, { ...scope, seenBefore: await liveSince(tx), limit }) : [];
  if (silent.length > 0) await deleteNodes(tx, silent);
  const added = admitted.slice(0, free + silent.length);
  await upsertNode.insertMany(tx, added.map(rowOf));
  const refused = newcomers.slice(added.length);
  if (refused.length > 0) await note(tx, { project_id, scope: env, nodes: refused.length, last_seen_at: now }, liveMs);
  return { without: [...silent, ...refused], added };
}

type Noted = { project_id: string; scope: Env; nodes: number; last_seen_at: number };

/** Notes how many nodes have no row: the largest number that one recent write found. */
async function note(tx: Tx, noted: Noted, liveMs: number): Promise<void> {
  const { project_id, scope, last_seen_at } = noted;
  const since = { ids: JSON.stringify([project_id]), seenAfter: last_seen_at - liveMs };
  const rows = await unregisteredNodes.all(tx, since);
  const before = rows.find((row) => row.scope === scope);
  const nodes = Math.max(noted.nodes, before?.nodes ?? 0);
  const isNews = !before || before.nodes < nodes || last_seen_at - before.last_seen_at >= NOTED_AGAIN_AFTER * liveMs;
  if (isNews) await noteUnregistered.run(tx, { ...noted, nodes });
}

function scopesOf(scope: EnvScope): { env: Env; one: EnvScope; other: EnvScope } {
  const env = envOf(scope);
  return { env, one: env, other: env === "test" ? "test" : "all" };
}

function rowOf(report: NodeReport): NodeRow {
  return { ...report, version: report.version ?? 0, first_seen_at: report.last_seen_at };
}
