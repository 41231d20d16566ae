// Reports of nodes that were not written, by project and environment, until the database has a note of them: meanwhile
// no receipt of this process may say that every node is known.
import type { Env } from "../../kernel/credentials.ts";
import { scopeKey, scopeKeys } from "./report-queue.ts";
import type { LostNodes, NodeReport } from "./reports.ts";
import { envOf } from "./traits.ts";

export class LostReports {
  readonly #lost = new Map<string, LostNodes>();

  add(report: NodeReport): void {
    const { project_id, env_scope, last_seen_at, leaving } = report;
    if (!leaving) this.#lost.set(scopeKey(report), { project_id, scope: envOf(env_scope), last_seen_at });
  }

  /** Whether one of the node's project and environment is not noted in the database. */
  has(node: Pick<NodeReport, "project_id" | "env_scope">): boolean {
    return this.#lost.has(scopeKey(node));
  }

  /** Whether one is of a node with keys of this environment, or of either, that was seen after this time. */
  hasSince(project_id: string, env: Env | null, seenAfter: number): boolean {
    return scopeKeys(project_id, env).some((key) => (this.#lost.get(key)?.last_seen_at ?? seenAfter) > seenAfter);
  }

  /** In one order in every process: two that note the same projects must not wait for each other. */
  list(): LostNodes[] {
    return [...this.#lost].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, nodes]) => nodes);
  }

  /** Forgets what the database has now, but no later loss. */
  stored(noted: readonly LostNodes[]): void {
    const known = new Set(noted);
    for (const [key, nodes] of this.#lost) if (known.has(nodes)) this.#lost.delete(key);
  }
}
