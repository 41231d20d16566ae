// After a bulk run with --wait: asks once for each project whether every live node has its newest version.
import type { RouteOutput } from "../../../client.ts";
import { fetchJson, type Target } from "../../api/request.ts";
import { escapeControls, plural, type OutputOptions } from "../../ui/output.ts";
import { nodesTable } from "../../api/change-and-wait.ts";
import type { Env } from "../../../kernel/credentials.ts";

/** The newest version of each project. */
export type Versions = Record<string, number>;
type Propagation = RouteOutput<"GET /v1/propagation">;

const WAIT_MS = 30_000;

export async function awaitVersions(
  target: Target,
  versions: Versions,
  env: Env | undefined,
  options: OutputOptions & { print(text: string): void },
): Promise<{ all: Propagation[]; missing: string[] }> {
  const all: Propagation[] = [];
  for (const [project_id, version] of Object.entries(versions)) {
    const query = { project_id, version, wait_ms: WAIT_MS, ...(env && { env }) };
    const shown = await fetchJson(target, "GET /v1/propagation", { query, timeoutMs: WAIT_MS + 15_000 });
    all.push(shown);
    if (options.json || options.quiet) continue;
    if (shown.nodes.length > 0) options.print(nodesTable(shown.nodes));
    options.print(
      `Acknowledged by ${shown.acked_nodes} of ${plural(shown.total_nodes, "node")} of project ${project_id}.`,
    );
  }
  const missing = all.flatMap(({ nodes, complete, project_id }) => {
    const late = nodes.filter(({ acked }) => !acked).map(({ node_id }) => escapeControls(node_id));
    return complete || late.length > 0 ? late : [`unregistered nodes of ${project_id}`];
  });
  return { all, missing };
}
