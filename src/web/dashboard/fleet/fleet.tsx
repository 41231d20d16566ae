// The nodes that verify keys, and whether they hold the newest policy.
import type { RouteOutput } from "../../../client.ts";
import { formatDuration, formatNumber, plural } from "../../shared/format.ts";
import { useRead } from "../api/query.ts";
import { env, hrefTo, param, setParams } from "../here.ts";
import { useProjects, type Project } from "../keys/records.ts";
import { Badge } from "../parts/badge.tsx";
import { Button, LinkButton } from "../parts/button.tsx";
import { Empty, NoMatch } from "../parts/empty.tsx";
import { Page } from "../parts/page.tsx";
import { pageCursor, Pager, pageSize } from "../parts/pager.tsx";
import { Loaded } from "../parts/skeleton.tsx";
import { Table, type Column } from "../parts/table.tsx";
import { UserText } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";

type Fleet = RouteOutput<"GET /v1/nodes">;
type Node = Fleet["data"][number];

const EVERY_MS = 2_000;
const STATES = ["live", "late", "silent"] as const;
const SCOPES: Record<Node["env_scope"], string> = { live: "Live", test: "Test", all: "Live and test" };

function query() {
  const [project_id, cursor] = [param("project"), pageCursor()];
  const state = STATES.find((name) => name === param("state"));
  return {
    view: "fleet" as const,
    env: env.value,
    limit: pageSize(),
    ...(project_id !== "" && { project_id }),
    ...(state && { state }),
    ...(cursor !== undefined && { cursor }),
  };
}

const isFiltered = (): boolean => ["project", "state", "after"].some((name) => param(name) !== "");
const clear = (): void => setParams({ project: null, state: null, after: null });

function Filters({ projects }: { projects: readonly Project[] }) {
  const choose = (name: string) => (event: Event) =>
    setParams({ [name]: (event.currentTarget as HTMLSelectElement).value, after: null });
  return (
    <div class="filters" role="search" aria-label="Filter nodes">
      <select aria-label="Project" onChange={choose("project")}>
        <option value="">All projects</option>
        {projects.map(({ id, name }) => (
          <option key={id} value={id} selected={id === param("project")}>
            {name}
          </option>
        ))}
      </select>
      <select aria-label="State" onChange={choose("state")}>
        <option value="">All states</option>
        {STATES.map((state) => (
          <option key={state} value={state} selected={state === param("state")}>
            {state}
          </option>
        ))}
      </select>
      {isFiltered() && (
        <Button kind="quiet" onClick={clear}>
          Clear filters
        </Button>
      )}
    </div>
  );
}

/** Keys that need what a node lacks are withheld from it. */
function Lacks({ node: { missing_caps } }: { node: Node }) {
  if (missing_caps.length === 0) return null;
  return <Badge tone="warn">Lacks {missing_caps.join(", ")}</Badge>;
}

function NodeState({ node: { live, late, lag } }: { node: Node }) {
  if (!live) return <Badge>Silent</Badge>;
  if (late) return <Badge tone="bad">Late</Badge>;
  return lag === 0 ? <Badge tone="good">Current</Badge> : <Badge tone="warn">Catching up</Badge>;
}

function lagWords({ lag, lag_ms }: Node): string {
  if (lag === 0) return "None";
  const versions = plural(lag, "version");
  return lag_ms === null || lag_ms === undefined ? versions : `${versions}, ${formatDuration(lag_ms)}`;
}

function columns(projects: readonly Project[]): Column<Node>[] {
  return [
    { head: "Node", names: true, cell: ({ node_id }) => <UserText>{node_id}</UserText> },
    {
      head: "Project",
      cell: ({ project_id }) => (
        <a href={hrefTo("projects", { id: project_id })}>
          <bdi>{projects.find(({ id }) => id === project_id)?.name ?? project_id.slice(0, 8)}</bdi>
        </a>
      ),
    },
    {
      head: "State",
      cell: (node) => (
        <>
          <NodeState node={node} /> <Lacks node={node} />
        </>
      ),
    },
    { head: "Environment", cell: ({ env_scope }) => SCOPES[env_scope] },
    { head: "Version", number: true, cell: ({ version }) => formatNumber(version) },
    { head: "Lag", cell: lagWords },
    { head: "Last seen", cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
  ];
}

/** "3 of 4 nodes are current. 1 is silent." */
function Summary({ counts }: { counts: NonNullable<Fleet["counts"]> }) {
  const { live, current, late, silent } = counts;
  const are = (count: number): string => `${formatNumber(count)} ${count === 1 ? "is" : "are"}`;
  const parts = [
    live === 0
      ? "No node is live."
      : `${formatNumber(current)} of ${plural(live, "node")} ${live === 1 ? "is" : "are"} current.`,
    late > 0 && `${are(late)} late.`,
    silent > 0 && `${are(silent)} silent.`,
  ];
  return <p class="fleet-summary">{parts.filter(Boolean).join(" ")}</p>;
}

function NoNodes() {
  if (isFiltered()) return <NoMatch what="nodes" onClear={clear} />;
  return (
    <Empty
      icon="fleet"
      title="No verifier is connected"
      action={<LinkButton href={hrefTo("projects")}>Connect a verifier</LinkButton>}
      command="keyrack gateway"
    >
      Nodes verify keys inside your API. They appear here as soon as they connect, and stay for a day after they were
      last seen.
    </Empty>
  );
}

export function FleetPage() {
  const read = useRead("GET /v1/nodes", { query: query() }, { everyMs: EVERY_MS });
  const projects = useProjects();
  return (
    <Page title="Fleet" lead="The nodes that verify your keys. The list refreshes every two seconds.">
      <Filters projects={projects} />
      <Loaded read={read}>
        {({ data, counts, next_cursor = null }) =>
          data.length === 0 ? (
            <NoNodes />
          ) : (
            <>
              {counts && <Summary counts={counts} />}
              <Table
                caption="Nodes"
                columns={columns(projects)}
                rows={data}
                rowKey={({ project_id, node_id, env_scope }) => `${project_id} ${node_id} ${env_scope}`}
              />
              {(next_cursor !== null || pageCursor() !== undefined) && (
                <Pager next={next_cursor} shown={data.length} what="nodes" />
              )}
            </>
          )
        }
      </Loaded>
    </Page>
  );
}
