// The list of plans.
import { formatNumber } from "../../shared/format.ts";
import { useRead } from "../api/query.ts";
import type { Plan } from "../api/records.ts";
import { useCreate } from "../records/use-dialogs.tsx";
import { hrefTo } from "../links.ts";
import { Chips } from "../components/badge.tsx";
import { Empty } from "../components/empty.tsx";
import { Page } from "../components/page.tsx";
import { isEmptyList, List } from "../records/list.tsx";
import type { Column } from "../components/table.tsx";
import { UserText } from "../components/text.tsx";
import { CreatePlan } from "./plan-dialogs.tsx";
import { daysText, keysText, limitsText, quotaText } from "./words.ts";

const COLUMNS: readonly Column<Plan>[] = [
  {
    head: "Name",
    names: true,
    cell: ({ id, name }) => (
      <a href={hrefTo("plans", { id })}>
        <UserText>{name}</UserText>
      </a>
    ),
  },
  { head: "Slug", room: 860, cell: ({ slug }) => <code>{slug}</code> },
  {
    head: "Limits",
    cell: ({ rate_limits, quotas }) => (
      <>
        {limitsText(rate_limits)}
        {quotas.length > 0 && <span class="under small">{quotas.map(quotaText).join("; ")}</span>}
      </>
    ),
  },
  { head: "Scopes", cell: ({ scopes }) => (scopes === null ? "Every scope" : <Chips values={scopes} max={2} />) },
  { head: "Active keys", room: 560, cell: ({ max_keys }) => keysText(max_keys) },
  { head: "Lifetime of keys", room: 860, cell: ({ key_ttl_days }) => daysText(key_ttl_days) },
  {
    head: "Tenants",
    number: true,
    cell: ({ id, tenants }) => <a href={hrefTo("tenants", { query: { plan: id } })}>{formatNumber(tenants)}</a>,
  },
];

export function Plans() {
  const read = useRead("GET /v1/plans", {});
  const { button: create, dialog } = useCreate("Create plan", CreatePlan);
  return (
    <Page
      title="Plans"
      lead="What tenants may have: rate limits, scopes, how many keys and for how long."
      actions={!isEmptyList(read) && create}
    >
      <List
        read={read}
        caption="Plans"
        columns={COLUMNS}
        what="plan"
        empty={
          <Empty
            icon="plan"
            title="No plans yet"
            action={create}
            command='keyrack plan create --name "Pro" --slug pro --max-keys 10'
          >
            A plan gives its tenants rate limits, the scopes that their keys may have, how many keys they may have and
            how long those live. Changing it changes all of them at once.
          </Empty>
        }
      />
      {dialog}
    </Page>
  );
}
