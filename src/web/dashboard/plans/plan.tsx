// The page of one plan.
import { formatNumber } from "../../shared/format.ts";
import { useRead } from "../api/query.ts";
import type { Plan } from "../api/records.ts";
import { Recent } from "../home/recent.tsx";
import { useDialogs } from "../records/use-dialogs.tsx";
import { hrefTo } from "../links.ts";
import { RuleList } from "../keys/rule-list.tsx";
import { Chips } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { CopyText } from "../components/copy.tsx";
import { Facts, Panel } from "../components/page.tsx";
import { RecordPage } from "../records/page.tsx";
import { Time } from "../components/time.tsx";
import { DeletePlan, EditPlan } from "./plan-dialogs.tsx";
import { daysText, keysText, limitsText, quotaText } from "./words.ts";

function Quotas({ of }: { of: Plan["quotas"] }) {
  if (of.length === 0) return "None";
  return (
    <>
      <ul class="plain-list">
        {of.map((quota) => (
          <li key={quota.id}>
            {quotaText(quota)} <span class="muted small">{quota.id}</span>
          </li>
        ))}
      </ul>
      <p class="muted small">
        For each tenant. Change them with <code>keyrack plan update</code>.
      </p>
    </>
  );
}

function Details({ plan }: { plan: Plan }) {
  const { scopes, rate_limits: rules } = plan;
  return (
    <div class="two-columns">
      <div>
        <Panel title="Limits and scopes">
          <Facts
            facts={{
              "Rate limits": rules?.length ? <RuleList rules={rules} /> : limitsText(rules),
              Scopes: scopes === null ? "All scopes" : <Chips values={scopes} />,
              Quotas: <Quotas of={plan.quotas} />,
              "Active keys": keysText(plan.max_keys),
              "Lifetime of keys": daysText(plan.key_ttl_days),
            }}
          />
        </Panel>
        <Recent target={plan.id} title="Changes" />
      </div>
      <Panel title="Details">
        <Facts
          facts={{
            Slug: <code>{plan.slug}</code>,
            Id: <CopyText text={plan.id} name="Copy id" />,
            Tenants: <a href={hrefTo("tenants", { query: { plan: plan.id } })}>{formatNumber(plan.tenants)}</a>,
            Created: <Time at={plan.created_at} />,
            Updated: <Time at={plan.updated_at} />,
          }}
        />
      </Panel>
    </div>
  );
}

function Actions({ of }: { of: Plan }) {
  const { open, dialog } = useDialogs({ edit: EditPlan, delete: DeletePlan });
  return (
    <>
      <Button needs="admin" onClick={() => open("edit", of)}>
        Edit
      </Button>
      <Button
        needs="admin"
        disabled={of.tenants > 0 ? "Tenants still use this plan." : null}
        onClick={() => open("delete", of)}
      >
        Delete plan
      </Button>
      {dialog}
    </>
  );
}

export function PlanPage({ id }: { id: string }) {
  const read = useRead("GET /v1/plans/{id}", { params: { id } });
  return (
    <RecordPage read={read} type="Plan" title={({ name }) => name} actions={(of) => <Actions of={of} />}>
      {(of) => <Details plan={of} />}
    </RecordPage>
  );
}
