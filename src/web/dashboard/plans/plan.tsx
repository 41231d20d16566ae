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
import { Snippet } from "../components/snippet.tsx";
import { Time } from "../components/time.tsx";
import { DeletePlan, EditPlan } from "./plan-dialogs.tsx";
import { QuotaList } from "./quota-list.tsx";
import { daysText, keysText, limitsText } from "./words.ts";

const SAMPLE = [{ id: "calls", amount: 10_000, refill: "monthly" }];

/** The command has the quotas as they are, because it replaces them. */
function Quotas({ of: { id, quotas } }: { of: Plan }) {
  const isEmpty = quotas.length === 0;
  const code = `keyrack plan update ${id} --quotas '${JSON.stringify(isEmpty ? SAMPLE : quotas)}'`;
  return (
    <>
      {isEmpty ? "None" : <QuotaList quotas={quotas} />}
      <p class="muted small">For each tenant. Set on the command line:</p>
      <Snippet name="command" code={code} />
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
              Scopes: scopes === null ? "Every scope" : <Chips values={scopes} />,
              Quotas: <Quotas of={plan} />,
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
