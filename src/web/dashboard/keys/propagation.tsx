// How a change reaches the nodes, one by one, while it happens.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { RouteOutput } from "../../../client.ts";
import { formatDuration, formatNumber, plural } from "../../shared/format.ts";
import { call, changedAtMs } from "../api/call.ts";
import { toProblem } from "../api/problems.ts";
import { lock } from "../api/session.ts";
import type { Env } from "../../../kernel/credentials.ts";
import { Badge } from "../components/badge.tsx";
import { Dialog, DoneButton } from "../components/dialog.tsx";
import { useProjects } from "../api/records.ts";

type State = RouteOutput<"GET /v1/propagation">;

const QUICK_MS = 400;
const SLOW_MS = 2_000;
const PATIENCE_MS = 10_000;
const NAMED_MAX = 10;
/** Projects that are followed at once. */
const PROJECTS_MAX = 5;

/** A node that serves two environments has two rows. */
const rowOf = ({ node_id, env_scope }: State["nodes"][number]): string => `${node_id} ${env_scope}`;

/** How long each row took at most, as far as this page saw it. */
type Seen = { state: State; took: ReadonlyMap<string, number>; waitedMs: number };

/** `env`: the environment whose nodes must have it; without it, every node. */
type Followed = { projectId: string; env: Env | undefined };

/** Null for a failure that passes. */
function unlessRefused(error: unknown): null {
  const { status } = toProblem(error);
  if (status !== 0 && status < 429) throw error;
  return null;
}

async function follow({ projectId, env }: Followed, abort: AbortSignal, onState: (seen: Seen) => void): Promise<void> {
  const start = performance.now();
  // Since the change, not since this view was opened: a new key may have been shown for minutes in between.
  const since = changedAtMs;
  const { policy_version } = await call("GET /v1/projects/{id}", { params: { id: projectId } }, { signal: abort });
  const query = { project_id: projectId, version: policy_version, env };
  const took = new Map<string, number>();
  for (;;) {
    const state = await call("GET /v1/propagation", { query }, { signal: abort }).catch(unlessRefused);
    const waitedMs = performance.now() - since;
    if (state) {
      for (const node of state.nodes) if (node.acked && !took.has(rowOf(node))) took.set(rowOf(node), waitedMs);
      onState({ state, took: new Map(took), waitedMs });
      // Nodes that are not registered never acknowledge anything.
      if (state.acked_nodes === state.total_nodes) return;
    }
    const isQuick = state !== null && performance.now() - start <= PATIENCE_MS;
    // Polling must not keep a session alive that no person uses.
    do await new Promise((resolve) => setTimeout(resolve, isQuick ? QUICK_MS : SLOW_MS));
    while (!abort.aborted && (document.hidden || lock.value !== null));
    if (abort.aborted) return;
  }
}

function useFollowed({ projectId, env }: Followed): { seen: Seen | null; failed: boolean } {
  const [seen, setSeen] = useState<Seen | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    follow({ projectId, env }, abort.signal, setSeen).catch(() => abort.signal.aborted || setFailed(true));
    return () => abort.abort();
  }, [projectId, env]);
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

/** Nodes beyond the bound of a project are served, but nothing is known about what they have. */
function Unregistered({ nodes }: { nodes: number }) {
  return (
    <p class="muted">
      At least {plural(nodes, "more node")} of this project {nodes === 1 ? "is" : "are"} not registered, because the
      project has as many as <code>KEYRACK_NODES_MAX</code> allows. They get the change, but cannot confirm it.
    </p>
  );
}

/** The newest policy version of one project. Closing it cancels nothing. */
function Propagation(followed: Followed) {
  const { seen, failed } = useFollowed(followed);
  if (failed) return <p class="muted">The change is stored. Each node applies it with its next poll.</p>;
  if (!seen) return <p class="muted">Asking the nodes…</p>;
  const { state, took, waitedMs } = seen;
  const { acked_nodes, total_nodes, complete, nodes, nodes_omitted, unregistered_nodes = 0 } = state;
  if (total_nodes === 0) return <p role="status">No verifier is connected. The change applies when one connects.</p>;
  return (
    <div class="stack">
      <p>
        <strong>
          {acked_nodes} of {plural(total_nodes, "node")}
        </strong>{" "}
        {total_nodes === 1 ? "has" : "have"} the change.
      </p>
      <ul class="nodes" aria-label="Nodes">
        {nodes.map((node) => (
          <li key={rowOf(node)}>
            <code>{node.node_id}</code>
            {node.acked ? (
              <Badge tone="good">Acknowledged within {formatDuration(took.get(rowOf(node)) ?? 0)}</Badge>
            ) : (
              <Badge tone="warn">Waiting</Badge>
            )}
            {node.missing_caps.length > 0 && <Badge tone="warn">Lacks {node.missing_caps.join(", ")}</Badge>}
          </li>
        ))}
        {nodes_omitted > 0 && <li class="muted">and {formatNumber(nodes_omitted)} more</li>}
      </ul>
      {unregistered_nodes > 0 && <Unregistered nodes={unregistered_nodes} />}
      {acked_nodes < total_nodes && waitedMs > PATIENCE_MS && <Patience state={state} />}
      <p role="status" class="hide">
        {complete && (total_nodes === 1 ? "The node has the change." : `All ${total_nodes} nodes have the change.`)}
      </p>
    </div>
  );
}

type ProjectsProps = { projectIds: readonly string[]; env?: Env | undefined };

/** How a change reaches the nodes of several projects. */
export function ProjectsPropagation({ projectIds, env }: ProjectsProps) {
  const known = useProjects();
  if (projectIds.length > PROJECTS_MAX)
    return (
      <p class="muted">
        Keys of {projectIds.length} projects may have changed. Each node applies the change with its next poll.
      </p>
    );
  return (
    <>
      {projectIds.map((id) => (
        <section key={id}>
          {projectIds.length > 1 && (
            <h3>
              <bdi>{known.find((project) => project.id === id)?.name}</bdi>
            </h3>
          )}
          <Propagation projectId={id} env={env} />
        </section>
      ))}
    </>
  );
}

type PropagationDialogProps = ProjectsProps & {
  title: string;
  /** Above the nodes. */
  children?: ComponentChildren;
  onClose: () => void;
  /** What its button does, and the words on it. */
  action?: { label: string; onClick: () => void };
};

/** What follows a change that the nodes must learn of. */
export function PropagationDialog({ title, children, onClose, action, ...followed }: PropagationDialogProps) {
  return (
    <Dialog title={title} onClose={onClose} env={followed.env}>
      {children}
      <ProjectsPropagation {...followed} />
      <DoneButton onClick={action?.onClick ?? onClose}>{action?.label ?? "Done"}</DoneButton>
    </Dialog>
  );
}
