// The workspace in numbers. Each figure links to the list behind it.
import type { RouteOutput } from "../../../client.ts";
import { formatNumber } from "../../shared/format.ts";
import { POLL_MS, useRead, type Read } from "../api/query.ts";
import { env, hrefTo } from "../here.ts";
import { LinkButton } from "../parts/button.tsx";
import { Icon } from "../parts/icon.tsx";
import { Loaded } from "../parts/skeleton.tsx";
import { Time } from "../parts/time.tsx";

type Overview = RouteOutput<"GET /v1/overview">;

/** Counts end here. */
export const COUNT_MAX = 10_000;
const LEAKS_MAX = 1_000;

/** Shared by everything that shows a part of it. */
export const useOverview = (everyMs: number = POLL_MS.usual): Read<Overview> =>
  useRead("GET /v1/overview", { query: { env: env.value } }, { everyMs });

const countUpTo =
  (max: number) =>
  (value: number): string =>
    value >= max ? `${formatNumber(max)} or more` : formatNumber(value);

const count = countUpTo(COUNT_MAX);
export const countLeaks = countUpTo(LEAKS_MAX);

type FigureProps = { name: string; value: string; href: string; look?: "warn" | "bad" | "words" | null };

function Figure({ name, value, href, look = null }: FigureProps) {
  return (
    <a class="figure" href={href}>
      <span class="name">{name}</span>
      <span class={look === null ? "value" : `value ${look}`}>{value}</span>
    </a>
  );
}

function Grid({ overview: { keys, nodes } }: { overview: Overview }) {
  const keysHref = (state: string): string => hrefTo("keys", { query: { state } });
  return (
    <div class="figures">
      <Figure name="Active keys" value={count(keys.active)} href={keysHref("active")} />
      <Figure
        name="Expiring in 7 days"
        value={count(keys.expiring)}
        href={keysHref("expiring")}
        look={keys.expiring > 0 ? "warn" : null}
      />
      <Figure name="Unused for 30 days" value={count(keys.idle)} href={keysHref("idle")} />
      <Figure
        name="Quarantined"
        value={count(keys.quarantined)}
        href={keysHref("quarantined")}
        look={keys.quarantined > 0 ? "bad" : null}
      />
      <Figure
        name="Nodes up to date"
        value={nodes.live === 0 ? "None connected" : `${count(nodes.current)} of ${count(nodes.live)}`}
        href={hrefTo("fleet")}
        look={nodes.live === 0 ? "words" : null}
      />
    </div>
  );
}

/** Leaked keys stop working by themselves, so their owners need to know before. One with a successor is dealt with. */
function LeakAlert({ leaks: { unreplaced, stops_at } }: { leaks: Overview["leaks"] }) {
  return (
    <div class="leak-alert" role="status">
      <Icon name="leak" />
      <p class="grow">
        {unreplaced === 1
          ? "1 leaked key has not been replaced. It stops working"
          : `${countLeaks(unreplaced)} leaked keys have not been replaced. The first stops working`}{" "}
        {stops_at === null ? "soon" : <Time at={stops_at} />}.
      </p>
      <LinkButton href={hrefTo("leaks")}>Review leaks</LinkButton>
    </div>
  );
}

export function Figures() {
  return (
    <Loaded read={useOverview()} rows={3}>
      {(overview) => (
        <>
          {overview.leaks.unreplaced > 0 && <LeakAlert leaks={overview.leaks} />}
          <Grid overview={overview} />
        </>
      )}
    </Loaded>
  );
}
