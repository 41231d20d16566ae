// The workspace in numbers. Each figure links to the list behind it.
import { formatNumber } from "../../shared/format.ts";
import { request } from "../api/call.ts";
import { useQuery, useRead } from "../api/query.ts";
import { env, hrefTo, knownPages } from "../here.ts";

const EVERY_MS = 10_000;
const COUNT_MAX = 10_000;

type Overview = {
  keys: { active: number; expiring: number; idle?: number; quarantined: number };
  tenants: number;
  projects: number;
};

const count = (value: number): string =>
  value >= COUNT_MAX ? `${formatNumber(COUNT_MAX)} or more` : formatNumber(value);

function Figure({ name, value, href }: { name: string; value: string; href: string | null }) {
  if (href === null)
    return (
      <div class="figure">
        <span class="name">{name}</span>
        <span class="value">{value}</span>
      </div>
    );
  return (
    <a class="figure" href={href}>
      <span class="name">{name}</span>
      <span class="value">{value}</span>
    </a>
  );
}

function NodesFigure() {
  const query = { view: "fleet" as const, env: env.value, limit: 1 };
  const { data } = useRead("GET /v1/nodes", { query }, { everyMs: EVERY_MS }).answer.value;
  if (!data?.counts) return null;
  const { live, current } = data.counts;
  return (
    <Figure
      name="Verifiers up to date"
      value={`${count(current)} of ${count(live)}`}
      href={knownPages.has("fleet") ? hrefTo("fleet") : null}
    />
  );
}

/** Servers before the overview endpoint show the other figures only. */
export function Figures() {
  const load = async (abort: AbortSignal): Promise<Overview> => {
    const response = await request("GET /v1/overview", { query: { env: env.value } }, { signal: abort });
    return (await response.json()) as Overview;
  };
  const { data } = useQuery(`GET /v1/overview ${env.value}`, load, { everyMs: EVERY_MS }).answer.value;
  const keysHref = (state?: string): string => hrefTo("keys", { query: { state } });
  return (
    <div class="grid">
      {data && (
        <>
          <Figure name="Active keys" value={count(data.keys.active)} href={keysHref("active")} />
          <Figure name="Expiring within 7 days" value={count(data.keys.expiring)} href={keysHref("expiring")} />
          {data.keys.idle !== undefined && (
            <Figure name="Idle for 30 days" value={count(data.keys.idle)} href={keysHref("idle")} />
          )}
          <Figure name="Quarantined" value={count(data.keys.quarantined)} href={keysHref("quarantined")} />
        </>
      )}
      <NodesFigure />
    </div>
  );
}
