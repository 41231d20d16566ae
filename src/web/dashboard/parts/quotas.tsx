// The balances of quotas: a meter for each, and the same in words.
import type { RouteOutput } from "../../../client.ts";
import { formatNumber } from "../../shared/format.ts";
import { Panel } from "./page.tsx";
import { Time } from "./time.tsx";

export type Balance = RouteOutput<"GET /v1/keys/{id}/quotas">["data"][number];

const SOURCES = { key: "this key's", tenant: "the tenant's", plan: "the plan's" } as const;

function Words({ of }: { of: Balance }) {
  const { amount, remaining, granted, exceeded, resets_at, spent } = of;
  return (
    <>
      {exceeded
        ? `${formatNumber(spent)} used of ${formatNumber(amount)}`
        : `${formatNumber(remaining)} of ${formatNumber(amount)} left`}
      {granted > 0 && `, ${formatNumber(granted)} of them granted`}
      {resets_at !== null && (
        <>
          , resets <Time at={resets_at} />
        </>
      )}
    </>
  );
}

/** Nothing where no quota applies. */
export function QuotaPanel({ balances }: { balances: readonly Balance[] | undefined }) {
  if (!balances || balances.length === 0) return null;
  return (
    <Panel title="Quotas">
      <ul class="quotas">
        {balances.map((of) => {
          const id = `quota-${of.scope}-${of.id}`;
          const max = Math.max(1, of.amount, of.remaining);
          return (
            <li key={id}>
              <div>
                <strong id={id}>{of.id}</strong> <span class="muted small">{SOURCES[of.source]}</span>
              </div>
              <meter min={0} max={max} low={max / 5} optimum={max} value={of.remaining} aria-labelledby={id} />
              <div class="small">
                <Words of={of} />
              </div>
            </li>
          );
        })}
      </ul>
    </Panel>
  );
}
