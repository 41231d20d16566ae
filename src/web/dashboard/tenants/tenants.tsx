// The list of tenants.
import { POLL_MS, useRead } from "../api/query.ts";
import { usePlans, type Plan, type Tenant } from "../api/records.ts";
import { clearFilters, Filters, isFiltered, SelectFilter } from "../forms/filters.tsx";
import { hrefTo, param } from "../links.ts";
import { COUNT_MAX, useOverview } from "../api/overview.ts";
import { Badge } from "../components/badge.tsx";
import { useCreate } from "../forms/create.tsx";
import { Empty, NoMatch } from "../components/empty.tsx";
import { Page } from "../components/page.tsx";
import { nextCursor, pageCursor, Pager, pageSize } from "../components/pager.tsx";
import { SearchField } from "../forms/search.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Table, type Column } from "../components/table.tsx";
import { Name, UserText } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import { CreateTenant } from "./tenant-dialogs.tsx";

const columns = (plans: readonly Plan[]): Column<Tenant>[] => [
  {
    head: "Tenant",
    names: true,
    cell: ({ id, name, external_id }) => (
      <a href={hrefTo("tenants", { id })}>
        <Name name={name} fallback={external_id} />
      </a>
    ),
  },
  {
    head: "Plan",
    cell: ({ plan_id }) => {
      const plan = plans.find(({ id }) => id === plan_id);
      return plan ? <UserText>{plan.name}</UserText> : <span class="muted">None</span>;
    },
  },
  {
    head: "External id",
    room: 560,
    cell: ({ external_id }) => <UserText>{external_id}</UserText>,
    fold: ({ external_id }) => <bdi>{external_id}</bdi>,
  },
  { head: "Created", cell: ({ created_at }) => <Time at={created_at} /> },
  {
    head: "State",
    cell: ({ suspended_at }) =>
      suspended_at === null ? <Badge tone="good">Active</Badge> : <Badge tone="warn">Suspended</Badge>,
  },
];

/** A search is paged by cursor, the plain list by its last id. */
function query() {
  const [q, plan_id, at, isSuspended] = [param("q"), param("plan"), pageCursor(), param("state") === "suspended"];
  const searches = q !== "" || plan_id !== "" || isSuspended;
  return {
    limit: pageSize(),
    ...(q !== "" && { q }),
    ...(plan_id !== "" && { plan_id }),
    ...(isSuspended && { state: "suspended" as const }),
    ...(at !== undefined && (searches ? { cursor: at } : { after: at })),
  };
}

const FILTERS = ["q", "plan", "state"];
const STATES = [
  ["", "All states"],
  ["suspended", "Suspended"],
] as const;

export function Tenants() {
  const read = useRead("GET /v1/tenants", { query: query() }, { keeps: true });
  const plans = usePlans();
  // The navigation reads it too.
  const { data: overview } = useOverview(POLL_MS.rare).state.value;
  const isSearch = FILTERS.some((name) => param(name) !== "");
  const total = isSearch || !overview || overview.tenants >= COUNT_MAX ? undefined : overview.tenants;
  const { button: create, dialog } = useCreate("Create tenant", CreateTenant);
  const isEmpty = read.state.value.data?.data.length === 0 && !isFiltered(FILTERS);
  return (
    <Page title="Tenants" lead="Your customers: the organisations that hold keys." actions={!isEmpty && create}>
      {!isEmpty && (
        <Filters label="Filter tenants" names={FILTERS}>
          <SearchField label="Search tenants" />
          {plans.length > 0 && (
            <SelectFilter
              name="plan"
              label="Filter by plan"
              options={[["", "All plans"], ...plans.map(({ id, name }) => [id, name] as const)]}
            />
          )}
          <SelectFilter name="state" label="Filter by state" options={STATES} />
        </Filters>
      )}
      <Loaded read={read} rows={8}>
        {({ data, has_more, next_cursor = nextCursor({ data, has_more }) }) =>
          isEmpty ? (
            <Empty
              icon="tenant"
              title="No tenants yet"
              action={create}
              command="keyrack tenant create --external-id customer-1"
            >
              A tenant is one of your customers. Keys are made for a tenant, and usage is counted by tenant.
            </Empty>
          ) : data.length === 0 && next_cursor === null ? (
            <NoMatch what="tenants" q={param("q")} onClear={() => clearFilters(FILTERS)} />
          ) : (
            <>
              <Table caption="Tenants" columns={columns(plans)} rows={data} rowKey={({ id }) => id} />
              <Pager next={next_cursor} shown={data.length} what="tenant" total={total} />
            </>
          )
        }
      </Loaded>
      {dialog}
    </Page>
  );
}
