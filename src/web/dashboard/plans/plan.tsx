// The page of one plan.
import { useState } from "preact/hooks";
import { formatNumber } from "../../shared/format.ts";
import { isNotFound, useRead } from "../api/query.ts";
import type { Plan } from "../api/records.ts";
import { Recent } from "../home/recent.tsx";
import { hrefTo, hrefToList } from "../links.ts";
import { RuleList } from "../keys/rule-list.tsx";
import { Chips } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { CopyText } from "../components/copy.tsx";
import { Facts, Page, Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
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

export function PlanPage({ id }: { id: string }) {
  const read = useRead("GET /v1/plans/{id}", { params: { id } });
  const [open, setOpen] = useState<"edit" | "delete" | null>(null);
  const plan = read.state.value.data;
  const close = (): void => setOpen(null);
  const used = plan && plan.tenants > 0 ? "Tenants still use this plan." : null;
  return (
    <Page
      isMissing={isNotFound(read)}
      title={plan?.name ?? "Plan"}
      back={{ href: hrefToList("plans"), label: "Plans" }}
      actions={
        plan && (
          <>
            <Button needs="admin" onClick={() => setOpen("edit")}>
              Edit
            </Button>
            <Button needs="admin" disabled={used} onClick={() => setOpen("delete")}>
              Delete plan
            </Button>
          </>
        )
      }
    >
      <Loaded read={read}>{(data) => <Details plan={data} />}</Loaded>
      {plan && open === "edit" && <EditPlan plan={plan} onClose={close} />}
      {plan && open === "delete" && <DeletePlan plan={plan} onClose={close} />}
    </Page>
  );
}
