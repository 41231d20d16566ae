// Marks the nodes that decided requests degraded: with a stale policy, without one, or without counters.
import type { Env } from "../../kernel/credentials.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import type { AdditiveUpsert } from "../../store/engine/tx.ts";
import { markDegraded, type DegradedNode } from "../../store/queries/nodes.ts";
import type { EnvScope } from "../../store/schema/tables.ts";
import { confinedTo, type SecretKeyActor } from "../core/actor.ts";
import { keyOf } from "../nodes/reports.ts";
import type { IngestTotals } from "./totals.ts";

const MARK_EVERY_MS = MINUTE_MS;

/**
 * Not sums, but merged alike: the newest mark of each node. One statement per node, and in the order in which reports
 * of nodes are written, so that two processes cannot deadlock.
 */
export const degradedUpsert: AdditiveUpsert<DegradedNode> = {
  keyOf,
  plus: (a, b) => (b.at >= a.at ? b : a),
  write: async (on, rows) => {
    for (const row of rows) await markDegraded.run(on, row);
  },
};

type Reported = { node_id: string; totals: Pick<IngestTotals, "degraded">; at: number };

/** The rows that the node may have. A test credential marks nodes of test keys only. */
export function degradedNodes(actor: SecretKeyActor, { node_id, totals, at }: Reported): DegradedNode[] {
  const mark = { node_id, at, unlessAfter: at - MARK_EVERY_MS };
  const scopesOf = (env: Env): readonly EnvScope[] => (confinedTo(actor) === "test" ? [env] : [env, "all"]);
  return totals.degraded.flatMap(({ project_id, env }) =>
    scopesOf(env).map((env_scope) => ({ ...mark, project_id, env_scope })),
  );
}
