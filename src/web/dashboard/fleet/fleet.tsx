// The nodes that verify keys, and whether they hold the newest policy.
import type { RouteOutput } from "../../../client.ts";
import { CAPABILITIES } from "../../../kernel/policy/capabilities.ts";
import { formatDuration, formatNumber, plural } from "../../shared/format.ts";
import { POLL_MS, useRead } from "../api/query.ts";
import { clearFilters, Filters, isFiltered, projectOptions, SelectFilter } from "../forms/filters.tsx";
import { env, hrefTo, param } from "../links.ts";
import { projectCell } from "../keys/key-name.tsx";
import { useProjects, type Project } from "../api/records.ts";
import { Badge } from "../components/badge.tsx";
import { LinkButton } from "../components/button.tsx";
import { Empty, NoMatch, NoMore } from "../components/empty.tsx";
import { Page } from "../components/page.tsx";
import { pageCursor, Pager, pageSize } from "../components/pager.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Table, type Column } from "../components/table.tsx";
import { UserText } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import { isEmptyList } from "../records/list.tsx";
import { FleetSummary } from "./summary.tsx";

type Fleet = RouteOutput<"GET /v1/nodes">;
type Node = Fleet["data"][number];

const FILTERS = ["project", "state"];
const STATES = [
  ["live", "Live"],
  ["late", "Late"],
  ["degraded", "Degraded"],
  ["silent", "Silent"],
] as const;
const SCOPES: Partial<Record<string, string>> = { live: "Live", test: "Test", all: "Live and test" };

function query() {
  const [project_id, cursor] = [param("project"), pageCursor()];
  const state = STATES.find(([name]) => name === param("state"))?.[0];
  return {
    view: "fleet" as const,
    env: env.value,
    limit: pageSize(),
    ...(project_id !== "" && { project_id }),
    ...(state && { state }),
    ...(cursor !== undefined && { cursor }),
  };
}

/** Keys that need what a node lacks are withheld from it. */
function Lacks({ node: { missing_caps } }: { node: Node }) {
  if (missing_caps.length === 0) return null;
  return <Badge tone="warn">Lacks {missing_caps.join(", ")}</Badge>;
}

/** Beside its state: a node may be late and silent as well. */
function Degraded({ node: { degraded } }: { node: Node }) {
  return degraded ? <Badge tone="warn">Degraded</Badge> : null;
}

function NodeState({ node: { live, late, lag } }: { node: Node }) {
  if (!live) return <Badge>Silent</Badge>;
  if (late) return <Badge tone="bad">Late</Badge>;
  return lag === 0 ? <Badge tone="good">Current</Badge> : <Badge tone="warn">Catching up</Badge>;
}

function lagWords({ live, lag, lag_ms }: Node): string {
  if (!live) return "Unknown";
  const versions = plural(lag, "version");
  return lag_ms === null || lag_ms === undefined ? versions : `${versions}, ${formatDuration(lag_ms)}`;
}

const ALL_CAPABILITIES = "All";

/** Short, and what it lacks is what a person looks for. */
function capabilityWords(caps: readonly string[]): string {
  const lacking = CAPABILITIES.filter((name) => !caps.includes(name));
  if (lacking.length === 0) return ALL_CAPABILITIES;
  return caps.length === 0 ? "None" : `No ${lacking.join(", ")}`;
}

const scopeWords = ({ env_scope }: Node): string => SCOPES[env_scope] ?? env_scope;
const sdkWords = ({ sdk }: Node): string => (sdk ? `${sdk.name} ${sdk.version}` : "Unknown");

function columns(projects: readonly Project[]): Column<Node>[] {
  return [
    { head: "Node", names: true, cell: ({ node_id }) => <UserText>{node_id}</UserText> },
    { head: "Project", cell: projectCell(projects) },
    {
      head: "State",
      cell: (node) => (
        <>
          <NodeState node={node} /> <Degraded node={node} /> <Lacks node={node} />
        </>
      ),
    },
    { head: "Environment", room: 780, cell: scopeWords, fold: scopeWords },
    { head: "Version", room: 780, cell: ({ version }) => formatNumber(version) },
    {
      head: "Lag",
      cell: (node) => (node.live && node.lag === 0 ? <span class="muted">None</span> : lagWords(node)),
    },
    {
      head: "SDK",
      room: 860,
      cell: (node) => <UserText>{sdkWords(node)}</UserText>,
      fold: (node) => <bdi>{sdkWords(node)}</bdi>,
    },
    {
      head: "Capabilities",
      room: 860,
      cell: ({ caps }) => capabilityWords(caps),
      fold: ({ caps }) =>
        capabilityWords(caps) !== ALL_CAPABILITIES && <span class="whole">{capabilityWords(caps)}</span>,
      foldsHead: true,
    },
    { head: "Last seen", cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
  ];
}

function NoNodes() {
  if (pageCursor() !== undefined) return <NoMore what="nodes" />;
  if (isFiltered(FILTERS)) return <NoMatch what="nodes" onClear={() => clearFilters(FILTERS)} />;
  return (
    <Empty
      icon="fleet"
      title="No node is connected"
      action={<LinkButton href={hrefTo("projects")}>Connect a verifier</LinkButton>}
      command="keyrack gateway"
    >
      Nodes verify keys inside your API. They appear here as soon as they connect, and stay for a day after they were
      last seen.
    </Empty>
  );
}

export function FleetPage() {
  const read = useRead("GET /v1/nodes", { query: query() }, { everyMs: POLL_MS.live, keeps: true });
  const projects = useProjects();
  const isEmpty = isEmptyList(read, FILTERS);
  return (
    <Page title="Fleet" lead="The nodes that verify your keys. The list refreshes every two seconds.">
      {!isEmpty && (
        <Filters label="Filter nodes" names={FILTERS}>
          <SelectFilter name="project" label="Filter by project" options={projectOptions(projects)} />
          <SelectFilter name="state" label="Filter by state" options={[["", "All states"], ...STATES]} />
        </Filters>
      )}
      <Loaded read={read}>
        {({ data, counts, next_cursor = null }) =>
          data.length === 0 ? (
            <NoNodes />
          ) : (
            <>
              {counts && <FleetSummary counts={counts} />}
              <Table
                caption="Nodes"
                columns={columns(projects)}
                rows={data}
                rowKey={({ project_id, node_id, env_scope }) => `${project_id} ${node_id} ${env_scope}`}
              />
              <Pager next={next_cursor} shown={data.length} what="node" />
            </>
          )
        }
      </Loaded>
    </Page>
  );
}
