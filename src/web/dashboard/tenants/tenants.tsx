// The list of tenants.
import { POLL_MS, useRead } from "../api/query.ts";
import { usePlansRead, type Tenant } from "../api/records.ts";
import { Filters, recordOptions, SelectFilter } from "../forms/filters.tsx";
import { hrefTo, param } from "../links.ts";
import { COUNT_MAX, useOverview } from "../api/overview.ts";
import { Badge } from "../components/badge.tsx";
import { useCreate } from "../records/use-dialogs.tsx";
import { Empty } from "../components/empty.tsx";
import { Page } from "../components/page.tsx";
import { pageCursor, pageSize } from "../components/pager.tsx";
import { SearchField } from "../forms/search.tsx";
import { isEmptyList, List } from "../records/list.tsx";
import type { Column } from "../components/table.tsx";
import { Cut, Name } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import { PlanLink } from "./plan-field.tsx";
import { CreateTenant } from "./tenant-dialogs.tsx";

const columns: Column<Tenant>[] = [
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
    cell: ({ plan_id }) => (plan_id === undefined ? <span class="muted">None</span> : <PlanLink id={plan_id} />),
  },
  {
    head: "External id",
    room: 560,
    cell: ({ external_id }) => <Cut>{external_id}</Cut>,
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
  const [q, plan_id, at] = [param("q"), param("plan"), pageCursor()];
  const state = STATES.find(([name]) => name === param("state"))?.[0];
  const searches = q !== "" || plan_id !== "" || state !== undefined;
  return {
    limit: pageSize(),
    ...(q !== "" && { q }),
    ...(plan_id !== "" && { plan_id }),
    ...(state && { state }),
    ...(at !== undefined && (searches ? { cursor: at } : { after: at })),
  };
}

const FILTERS = ["q", "plan", "state"];
const STATES = [
  ["active", "Active"],
  ["suspended", "Suspended"],
] as const;

export function Tenants() {
  const read = useRead("GET /v1/tenants", { query: query() }, { keeps: true });
  const { data: known, problem } = usePlansRead().state.value;
  const plans = known?.data ?? [];
  const plan = param("plan");
  // The navigation reads it too.
  const { data: overview } = useOverview(POLL_MS.rare).state.value;
  const isSearch = FILTERS.some((name) => param(name) !== "");
  const total = isSearch || !overview || overview.tenants >= COUNT_MAX ? undefined : overview.tenants;
  const { button: create, dialog } = useCreate("Create tenant", CreateTenant);
  const isEmpty = isEmptyList(read, FILTERS);
  return (
    <Page title="Tenants" lead="Your customers: the organisations that hold keys." actions={!isEmpty && create}>
      {!isEmpty && (
        <Filters label="Filter tenants" names={FILTERS}>
          <SearchField label="Search tenants" />
          {(plans.length > 0 || problem || plan !== "") && (
            <SelectFilter
              name="plan"
              label="Filter by plan"
              options={recordOptions(known || !problem ? "All plans" : "Plans could not be loaded", plans, plan)}
            />
          )}
          <SelectFilter name="state" label="Filter by state" options={[["", "All states"], ...STATES]} />
        </Filters>
      )}
      <List
        read={read}
        caption="Tenants"
        columns={columns}
        what="tenant"
        filters={FILTERS}
        total={total}
        empty={
          <Empty
            icon="tenant"
            title="No tenants yet"
            action={create}
            command="keyrack tenant create --external-id customer-1"
          >
            A tenant is one of your customers. Keys are made for a tenant, and usage is counted by tenant.
          </Empty>
        }
      />
      {dialog}
    </Page>
  );
}
