// The balances of quotas: a meter for each, and the same in words.
import type { RouteOutput } from "../../../client.ts";
import { formatNumber } from "../../shared/format.ts";
import type { Read } from "../api/query.ts";
import { Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Time } from "../components/time.tsx";

type Balance = RouteOutput<"GET /v1/keys/{id}/quotas">["data"][number];

const SOURCES: Partial<Record<string, string>> = { key: "this key's", tenant: "the tenant's", plan: "the plan's" };

function Words({ of }: { of: Balance }) {
  const { amount, remaining, granted, exceeded, resets_at, spent } = of;
  const included = granted > 0 ? `, including ${formatNumber(granted)} granted` : "";
  return (
    <>
      {exceeded
        ? `${formatNumber(spent)} used of ${formatNumber(amount)}`
        : `${formatNumber(remaining)} of ${formatNumber(amount + granted)} left${included}`}
      {resets_at !== null && (
        <>
          , resets <Time at={resets_at} />
        </>
      )}
    </>
  );
}

function Meter({ of }: { of: Balance }) {
  const id = `quota-${of.scope}-${of.id}`;
  const max = Math.max(1, of.amount, of.remaining);
  return (
    <li>
      <div>
        <strong id={id}>{of.id}</strong> <span class="muted small">{SOURCES[of.source] ?? of.source}</span>
      </div>
      <meter min={0} max={max} low={max / 5} optimum={max} value={of.remaining} aria-labelledby={id} />
      <div class="small">
        <Words of={of} />
      </div>
    </li>
  );
}

/** Nothing if no quota applies. */
export function QuotaPanel({ read }: { read: Read<{ data: readonly Balance[] }> }) {
  const { data: balances, problem } = read.state.value;
  if (balances ? balances.data.length === 0 : !problem) return null;
  return (
    <Panel title="Quotas">
      <Loaded read={read}>
        {({ data }) => (
          <ul class="quotas">
            {data.map((of) => (
              <Meter key={`${of.scope} ${of.id}`} of={of} />
            ))}
          </ul>
        )}
      </Loaded>
    </Panel>
  );
}
