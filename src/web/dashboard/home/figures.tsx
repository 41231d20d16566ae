// The workspace in numbers. Each figure links to the list behind it.
import { count, countLeaks, useOverview, type Overview } from "../api/overview.ts";
import { hrefTo } from "../links.ts";
import { LinkButton } from "../components/button.tsx";
import { Icon } from "../components/icon.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Time } from "../components/time.tsx";

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
        name="Expiring within 7 days"
        value={count(keys.expiring)}
        href={keysHref("expiring")}
        look={keys.expiring > 0 ? "warn" : null}
      />
      <Figure name="Unused for 30 days" value={count(keys.idle)} href={keysHref("idle")} />
      <Figure
        name="Leaked"
        value={count(keys.quarantined)}
        href={keysHref("quarantined")}
        look={keys.quarantined > 0 ? "bad" : null}
      />
      <Figure
        name="Nodes up to date"
        value={nodes.live === 0 ? "None connected" : `${count(nodes.current)} of ${count(nodes.live)}`}
        href={hrefTo("fleet")}
        look={nodes.live === 0 ? "words" : nodes.current < nodes.live ? "warn" : null}
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
    <div class="figures-room">
      <Loaded read={useOverview()} rows={3}>
        {(overview) => (
          <>
            {overview.leaks.unreplaced > 0 && <LeakAlert leaks={overview.leaks} />}
            <Grid overview={overview} />
          </>
        )}
      </Loaded>
    </div>
  );
}
