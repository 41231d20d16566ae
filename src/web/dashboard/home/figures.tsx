// The workspace in numbers. Each figure links to the list behind it.
import type { RouteOutput } from "../../../client.ts";
import { formatNumber } from "../../shared/format.ts";
import { useRead, type Read } from "../api/query.ts";
import { env, hrefTo } from "../here.ts";
import { Loaded } from "../parts/skeleton.tsx";

type Overview = RouteOutput<"GET /v1/overview">;

const EVERY_MS = 10_000;
const COUNT_MAX = 10_000;

/** Shared by everything on Home that shows a part of it. */
export const useOverview = (): Read<Overview> =>
  useRead("GET /v1/overview", { query: { env: env.value } }, { everyMs: EVERY_MS });

const count = (value: number): string =>
  value >= COUNT_MAX ? `${formatNumber(COUNT_MAX)} or more` : formatNumber(value);

function Figure({ name, value, href }: { name: string; value: string; href: string }) {
  return (
    <a class="figure" href={href}>
      <span class="name">{name}</span>
      <span class="value">{value}</span>
    </a>
  );
}

function Grid({ overview: { keys, nodes } }: { overview: Overview }) {
  const keysHref = (state: string): string => hrefTo("keys", { query: { state } });
  return (
    <div class="grid">
      <Figure name="Active keys" value={count(keys.active)} href={keysHref("active")} />
      <Figure name="Expiring in 7 days" value={count(keys.expiring)} href={keysHref("expiring")} />
      <Figure name="Unused for 30 days" value={count(keys.idle)} href={keysHref("idle")} />
      <Figure name="Quarantined" value={count(keys.quarantined)} href={keysHref("quarantined")} />
      <Figure
        name="Nodes up to date"
        value={`${count(nodes.current)} of ${count(nodes.live)}`}
        href={hrefTo("fleet")}
      />
    </div>
  );
}

export function Figures() {
  return (
    <Loaded read={useOverview()} rows={3}>
      {(overview) => <Grid overview={overview} />}
    </Loaded>
  );
}
