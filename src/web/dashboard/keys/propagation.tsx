// How a change reaches the verifiers, node by node, while it happens.
import { useEffect, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { formatDuration } from "../../shared/format.ts";
import { call } from "../api/call.ts";
import { env } from "../here.ts";
import { Badge } from "../parts/badge.tsx";

type State = RouteOutput<"GET /v1/propagation">;

const QUICK_MS = 400;
const SLOW_MS = 2_000;
const PATIENCE_MS = 10_000;
const NAMED_MAX = 10;

/** How long each node took, as far as this page saw it. */
type Seen = { state: State; took: ReadonlyMap<string, number>; waitedMs: number };

async function follow(projectId: string, abort: AbortSignal, onState: (seen: Seen) => void): Promise<void> {
  const start = performance.now();
  const { policy_version } = await call("GET /v1/projects/{id}", { params: { id: projectId } }, { signal: abort });
  const query = { project_id: projectId, version: policy_version, env: env.value };
  const took = new Map<string, number>();
  for (;;) {
    const state = await call("GET /v1/propagation", { query }, { signal: abort });
    const waitedMs = performance.now() - start;
    for (const { node_id, acked } of state.nodes) if (acked && !took.has(node_id)) took.set(node_id, waitedMs);
    onState({ state, took: new Map(took), waitedMs });
    if (state.complete) return;
    await new Promise((resolve) => setTimeout(resolve, waitedMs > PATIENCE_MS ? SLOW_MS : QUICK_MS));
    if (abort.aborted) return;
  }
}

function useFollowed(projectId: string): { seen: Seen | null; failed: boolean } {
  const [seen, setSeen] = useState<Seen | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    follow(projectId, abort.signal, setSeen).catch(() => abort.signal.aborted || setFailed(true));
    return () => abort.abort();
  }, [projectId]);
  return { seen, failed };
}

function Patience({ state }: { state: State }) {
  const waiting = state.nodes.filter(({ acked }) => !acked).map(({ node_id }) => node_id);
  const more = state.total_nodes - state.acked_nodes - NAMED_MAX;
  return (
    <p class="muted">
      Still waiting for <bdi>{waiting.slice(0, NAMED_MAX).join(", ")}</bdi>
      {more > 0 && ` and ${more} more`}. A node counts until it has been silent for <code>KEYRACK_NODE_LIVE_MS</code>;
      after that it is no longer waited for, and it applies the change before it admits anything again.
    </p>
  );
}

/** `projectId`: the project whose newest policy version is followed. Closing it cancels nothing. */
export function Propagation({ projectId }: { projectId: string }) {
  const { seen, failed } = useFollowed(projectId);
  if (failed) return <p class="muted">The change is stored. Each verifier applies it with its next poll.</p>;
  if (!seen) return <p class="muted">Asking the verifiers…</p>;
  const { state, took, waitedMs } = seen;
  const { acked_nodes, total_nodes, complete, nodes } = state;
  if (total_nodes === 0) return <p role="status">No verifier is connected. The change applies when one connects.</p>;
  return (
    <div class="stack">
      <p>
        <strong>
          {acked_nodes} of {total_nodes} nodes
        </strong>{" "}
        have the change.
      </p>
      <ul class="nodes" aria-label="Nodes">
        {nodes.map(({ node_id, env_scope, acked, missing_caps }) => (
          <li key={`${node_id} ${env_scope}`}>
            <code>{node_id}</code>
            {acked ? (
              <Badge tone="good">Acknowledged after {formatDuration(took.get(node_id) ?? 0)}</Badge>
            ) : (
              <Badge tone="warn">Waiting</Badge>
            )}
            {missing_caps.length > 0 && <Badge tone="warn">Lacks {missing_caps.join(", ")}</Badge>}
          </li>
        ))}
      </ul>
      {!complete && waitedMs > PATIENCE_MS && <Patience state={state} />}
      <p role="status" class="hide">
        {complete ? `All ${total_nodes} nodes have the change.` : ""}
      </p>
    </div>
  );
}
