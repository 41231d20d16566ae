// Usage: traffic over time, and for billing the active tenants by month and the requests of each tenant.
import type { RouteOutput } from "../../../client.ts";
import { toCsv } from "../../../kernel/text/csv.ts";
import { formatNumber, plural } from "../../shared/format.ts";
import { useRead } from "../api/query.ts";
import { Filters, projectOptions, SelectFilter } from "../forms/filters.tsx";
import { env, hrefTo, param, setParams } from "../links.ts";
import { TenantFilter } from "../keys/filters.tsx";
import { projectCell } from "../keys/key-name.tsx";
import { tenantLabel, useProjects, useTenants, type Project, type Tenant } from "../api/records.ts";
import { Button } from "../components/button.tsx";
import { Chart } from "../components/chart.tsx";
import { download } from "../components/download.ts";
import { Page, Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Table, type Column } from "../components/table.tsx";
import { Tabs } from "../components/tabs.tsx";
import { UserText } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import { monthName } from "./months.ts";
import { NoRequests, Traffic, TRAFFIC_FILTERS } from "./traffic.tsx";

type Activity = RouteOutput<"GET /v1/usage/tenants">["data"][number];

const MONTHS = 12;
const ROWS_MAX = 200;

function ActiveTenants() {
  const read = useRead("GET /v1/usage/billing", { query: { months: MONTHS } });
  return (
    <Panel title="Active tenants by month">
      <Loaded read={read}>
        {({ data }) => {
          const oldestFirst = data.toReversed();
          const now = oldestFirst.at(-1)?.active_tenants ?? 0;
          const finding = `${plural(now, "active tenant")} this month`;
          return (
            <>
              <p>{finding}. A tenant is active in a month in which a request with one of its live keys was allowed.</p>
              {oldestFirst.some((row) => row.active_tenants > 0) && (
                <Chart
                  name={`${finding}, last ${MONTHS} months`}
                  file="active-tenants"
                  starts={oldestFirst.map(({ month }) => month)}
                  buckets={oldestFirst.map(({ month }) => monthName(month))}
                  // A tenant that is active in two months is one tenant.
                  series={[
                    {
                      name: "Active tenants",
                      values: oldestFirst.map((row) => row.active_tenants),
                      total: now,
                      colour: 1,
                    },
                  ]}
                />
              )}
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}

type Names = { projects: readonly Project[]; tenants: ReadonlyMap<string, Tenant> };

const projectName = ({ projects }: Names, wanted: string): string =>
  projects.find(({ id }) => id === wanted)?.name ?? wanted;

function tenantName({ tenants }: Names, id: string): string {
  const tenant = tenants.get(id);
  return tenant ? tenantLabel(tenant) : id;
}

function columns(names: Names): Column<Activity>[] {
  return [
    {
      head: "Tenant",
      names: true,
      cell: ({ tenant_id }) => (
        <a href={hrefTo("tenants", { id: tenant_id })}>
          <UserText>{tenantName(names, tenant_id)}</UserText>
        </a>
      ),
    },
    { head: "Project", cell: projectCell(names.projects) },
    { head: "Requests", number: true, cell: ({ request_count }) => formatNumber(request_count) },
    { head: "First", cell: ({ first_seen_at }) => <Time at={first_seen_at} /> },
    { head: "Last", cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
  ];
}

function save(rows: readonly Activity[], names: Names): void {
  const head = [
    "month",
    "tenant_id",
    "tenant",
    "project_id",
    "project",
    "env",
    "requests",
    "first_seen_at",
    "last_seen_at",
  ];
  const lines = rows.map((row) => [
    row.month,
    row.tenant_id,
    tenantName(names, row.tenant_id),
    row.project_id,
    projectName(names, row.project_id),
    row.env,
    row.request_count,
    row.first_seen_at,
    row.last_seen_at,
  ]);
  download("tenant-usage.csv", [toCsv(head, lines)], "text/csv");
}

function TenantUsage() {
  const read = useRead("GET /v1/usage/tenants", { query: { months: 1, env: env.value, limit: ROWS_MAX } });
  const rows = read.state.value.data?.data ?? [];
  const names: Names = { projects: useProjects(), tenants: useTenants(rows.map(({ tenant_id }) => tenant_id)) };
  return (
    <Panel
      title="Requests by tenant, this month"
      actions={
        <Button
          icon="download"
          disabled={rows.length === 0 ? "There is no data to download." : null}
          onClick={() => save(rows, names)}
        >
          Download CSV
        </Button>
      }
    >
      <Loaded read={read}>
        {({ has_more }) =>
          rows.length === 0 ? (
            <NoRequests title={`No ${env.value} request was allowed this month`} />
          ) : (
            <>
              <Table
                caption="Requests by tenant"
                columns={columns(names)}
                rows={rows}
                rowKey={({ tenant_id, project_id }) => `${tenant_id} ${project_id}`}
              />
              {has_more && (
                <p class="panel-foot muted small">
                  The {formatNumber(rows.length)} with the most requests. <code>keyrack usage tenants</code> lists all.
                </p>
              )}
            </>
          )
        }
      </Loaded>
    </Panel>
  );
}

function FilteredTraffic() {
  const [project_id, tenant_id] = [param("project"), param("tenant")];
  const of = { ...(project_id !== "" && { project_id }), ...(tenant_id !== "" && { tenant_id }) };
  return (
    <>
      <Filters label="Filter requests" names={TRAFFIC_FILTERS}>
        <SelectFilter name="project" label="Filter by project" options={projectOptions(useProjects())} />
        <TenantFilter />
      </Filters>
      <Traffic title="Requests" groups of={of} />
    </>
  );
}

const TABS = [
  ["traffic", "Traffic"],
  ["billing", "Billing"],
] as const;

export function UsagePage() {
  const tab = param("tab") === "billing" ? "billing" : "traffic";
  return (
    <Page title="Usage" lead="What your customers use, and what is billed.">
      <Tabs
        label="Usage"
        tabs={TABS}
        chosen={tab}
        onChoose={(chosen) => setParams({ tab: chosen, range: null, by: null, project: null, tenant: null })}
      >
        {tab === "traffic" ? (
          <FilteredTraffic />
        ) : (
          <>
            {env.value === "live" && <ActiveTenants />}
            <TenantUsage />
          </>
        )}
      </Tabs>
    </Page>
  );
}
