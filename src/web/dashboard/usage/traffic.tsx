// Requests over time as a chart: in all by outcome, or by project, tenant, key or route.
import { useRef } from "preact/hooks";
import { formatPercent, plural } from "../../shared/format.ts";
import { POLL_MS, useRead } from "../api/query.ts";
import { clearFilters, SelectFilter } from "../forms/filters.tsx";
import { env, hrefTo, param } from "../links.ts";
import type { UsageSeries } from "../api/records.ts";
import { Button, LinkButton } from "../components/button.tsx";
import { Chart } from "../components/chart.tsx";
import type { Series } from "../components/chart-legend.tsx";
import { Empty } from "../components/empty.tsx";
import { Panel } from "../components/page.tsx";
import { Loaded } from "../components/skeleton.tsx";
import { Breakdown, type Figures } from "./breakdown.tsx";
import { useLabels, type LabelOf } from "./labels.ts";
import { OUTCOMES } from "./outcomes.ts";
import { byMonth } from "./months.ts";
import {
  axisNames,
  bucketNames,
  isByUtcDays,
  RANGES,
  spanOf,
  spanWords,
  useKeptHours,
  type RangeName,
  type SeriesQuery,
} from "./ranges.ts";

const GROUPS = [
  ["outcome", "By outcome"],
  ["project", "By project"],
  ["tenant", "By tenant"],
  ["key", "By key"],
  ["route", "By route"],
] as const;
/** Colours of groups without a verdict: not the red of refused requests. Every second one is hatched. */
const GROUP_COLOURS = [1, 4, 5, 2] as const;
const REST_COLOUR = 6;
/** Often the most of a chart, so it is quieter than the groups. */
const BEYOND_COLOUR = 7;
/** Groups in the table below the chart. */
const LISTED_MAX = 10;
/** More than the number of outcomes. */
const OUTCOMES_MAX = 30;
/** Parameters of the address that filter the requests on Usage. */
export const TRAFFIC_FILTERS = ["project", "tenant"] as const;

type GroupName = (typeof GROUPS)[number][0];

const add = (a: readonly number[], b: readonly number[]): number[] => a.map((value, i) => value + (b[i] ?? 0));

/** The outcomes that have a colour, and all others together. */
function outcomeSeries({ series, buckets }: UsageSeries): Series[] {
  const values = new Map(series.map(({ group, requests }) => [group ?? "", requests]));
  const named = [...OUTCOMES].map(([outcome, name], i) => {
    return { name, values: values.get(outcome) ?? [], colour: i + 1 };
  });
  let rest = buckets.map(() => 0);
  for (const [outcome, requests] of values) if (!OUTCOMES.has(outcome)) rest = add(rest, requests);
  return [...named, { name: "Other", values: rest, colour: REST_COLOUR }].filter((one) =>
    one.values.some((value) => value > 0),
  );
}

/** The list names more groups than the chart, so its others are fewer. */
const beyond = (named: number): string => `All but the ${named} largest`;

/** The colour of a row of the list: that of the chart. */
function colourOf(group: GroupName, id: string | null, i: number): number {
  if (group !== "outcome") return GROUP_COLOURS[i] ?? BEYOND_COLOUR;
  const at = [...OUTCOMES.keys()].indexOf(id ?? "");
  return at < 0 ? REST_COLOUR : at + 1;
}

/** The largest groups, each with a colour, and all others together: a single one by its name. */
function groupSeries({ series, other }: UsageSeries, labelOf: LabelOf): Series[] {
  const drawn = GROUP_COLOURS.flatMap((colour, i) => {
    const one = series[i];
    return one ? [{ name: labelOf(one).whole, values: one.requests, colour }] : [];
  });
  const undrawn = series.slice(drawn.length);
  const [first, ...more] = [...undrawn, ...(other ? [other] : [])].map(({ requests }) => requests);
  if (!first) return drawn;
  const [only] = undrawn;
  const name = only && more.length === 0 ? labelOf(only).whole : beyond(drawn.length);
  return [...drawn, { name, values: more.reduce(add, first), colour: BEYOND_COLOUR }];
}

function figures({ series, other, total }: UsageSeries, labelOf: LabelOf, group: GroupName): Figures[] {
  const listed = series.map((one, i) => {
    return { ...labelOf(one), id: one.group, colour: colourOf(group, one.group, i), ...one.total };
  });
  const others = { name: beyond(series.length), id: null, colour: BEYOND_COLOUR };
  return [...listed, ...(other ? [{ ...others, ...other.total }] : [])].filter(
    ({ requests }) => requests > 0 && total.total.requests > 0,
  );
}

/** What share of the requests was refused. */
function share({ series, total }: UsageSeries): string {
  const { requests } = total.total;
  if (requests === 0) return "";
  const allowed = series.find((one) => one.group === "allowed")?.total.requests ?? 0;
  return `, ${formatPercent((requests - allowed) / requests)} denied`;
}

/** "1,204 requests, 3% denied, last 24 hours" */
const finding = (usage: UsageSeries, outcomes: UsageSeries | null, range: RangeName): string =>
  `${plural(usage.total.total.requests, "request")}${outcomes ? share(outcomes) : ""}, ${spanWords(range)}`;

type RequestsProps = {
  usage: UsageSeries;
  /** The same requests by outcome, once they are read. */
  outcomes: UsageSeries | null;
  range: RangeName;
  group: GroupName;
  isPage: boolean;
};

function Requests({ usage: read, outcomes, range, group, isPage }: RequestsProps) {
  const usage = range === "12m" ? byMonth(read) : read;
  const text = finding(usage, outcomes, range);
  const labelOf = useLabels(group, usage);
  return (
    <>
      <p>
        {text}.{isByUtcDays(range) && " Days are in UTC."}
      </p>
      <Chart
        name={text}
        file={`requests-by-${group}-${range}`}
        starts={usage.buckets}
        buckets={bucketNames(usage.buckets, range)}
        axis={axisNames(usage.buckets, range)}
        series={group === "outcome" ? outcomeSeries(usage) : groupSeries(usage, labelOf)}
      />
      {isPage && <Breakdown rows={figures(usage, labelOf, group)} group={group} total={usage.total.total.requests} />}
      {usage.overflow && (
        <p class="muted small">There are more groups than are listed; the others are counted as other.</p>
      )}
    </>
  );
}

/** A server without usage series answers 404. */
function Off() {
  return <p class="muted">Usage over time is switched off on this server (KEYRACK_SERIES).</p>;
}

/** A list of requests or of their tenants that is empty. */
export function NoRequests({ title }: { title: string }) {
  return (
    <Empty
      icon="usage"
      title={title}
      action={<LinkButton href={hrefTo("projects")}>Connect a verifier</LinkButton>}
      command="keyrack gateway"
    >
      Nodes report the requests that they verify. They appear here within seconds.
    </Empty>
  );
}

/** On Usage with the next step; on other pages it is one panel of many. */
function Unused({ isPage, isOfSome, span }: { isPage: boolean; isOfSome: boolean; span: string }) {
  const words = isOfSome && !isPage ? `Not used in the ${span}` : `No requests in the ${span}`;
  if (!isPage) return <p class="muted">{words}.</p>;
  if (!isOfSome) return <NoRequests title={words} />;
  return (
    <Empty
      icon="search"
      title={words}
      action={<Button onClick={() => clearFilters(TRAFFIC_FILTERS)}>Clear filters</Button>}
    >
      No requests match your filters.
    </Empty>
  );
}

type TrafficProps = {
  title: string;
  /** Whether the person chooses what to group by. */
  groups?: boolean;
  /** Requests of one record only. */
  of?: Pick<SeriesQuery, "tenant_id" | "key_id" | "project_id"> | undefined;
  /** Unless the address has another. */
  range?: RangeName;
};

export function Traffic({ title, groups = false, of, range: usual = "24h" }: TrafficProps) {
  const range = RANGES.find(([name]) => name === param("range"))?.[0] ?? usual;
  const group: GroupName = (groups && GROUPS.find(([name]) => name === param("by"))?.[0]) || "outcome";
  const requests: SeriesQuery = { ...spanOf(range), ...of, env: env.value };
  const every = { everyMs: range === "12m" ? POLL_MS.rare : POLL_MS.usual, keeps: true };
  const byOutcome = { ...requests, group_by: "outcome", top: OUTCOMES_MAX };
  const outcomes = useRead("GET /v1/usage/series", { query: byOutcome }, every);
  // The same read where the groups are outcomes.
  const query = group === "outcome" ? byOutcome : { ...requests, group_by: group, top: LISTED_MAX };
  const read = useRead("GET /v1/usage/series", { query }, every);
  const { problem, isOld } = read.state.value;
  // Kept requests have the words of their own range.
  const shown = useRef({ range, group });
  if (!isOld) shown.current = { range, group };
  useKeptHours(range, read);
  const ranges = RANGES.filter(([name]) => name !== "12m" || groups || usual === "12m");
  return (
    <Panel
      title={title}
      actions={
        <div class="buttons">
          {groups && <SelectFilter name="by" label="Group" options={GROUPS} />}
          <SelectFilter name="range" label="Range" options={ranges} chosen={range} />
        </div>
      }
    >
      {problem?.status === 404 ? (
        <Off />
      ) : (
        // On Home, as high as the chart, so that what follows does not move.
        <Loaded read={read} rows={of ? 5 : 10}>
          {(usage) =>
            usage.total.total.requests === 0 ? (
              <Unused
                isPage={groups}
                isOfSome={Object.keys(of ?? {}).length > 0}
                span={spanWords(shown.current.range)}
              />
            ) : (
              <Requests
                usage={usage}
                outcomes={outcomes.state.value.isOld === isOld ? outcomes.state.value.data : null}
                {...shown.current}
                isPage={groups}
              />
            )
          }
        </Loaded>
      )}
    </Panel>
  );
}
