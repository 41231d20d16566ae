// Requests over time as a chart: in all by outcome, or by project, tenant, key or route.
import type { RouteInput, RouteOutput } from "../../../client.ts";
import { formatClock, formatDate, formatPercent, plural } from "../../shared/format.ts";
import { serverNow } from "../api/clock.ts";
import { useRead } from "../api/query.ts";
import { env, param, setParams } from "../here.ts";
import { Chart, type Series } from "../parts/chart.tsx";
import { Panel } from "../parts/page.tsx";
import { Loaded } from "../parts/skeleton.tsx";

type Answer = RouteOutput<"GET /v1/usage/series">;
type Query = NonNullable<RouteInput<"GET /v1/usage/series">["query"]>;

const EVERY_MS = 10_000;
const HOUR_MS = 3_600_000;
const RANGES = [
  ["24h", "Last 24 hours"],
  ["7d", "Last 7 days"],
  ["30d", "Last 30 days"],
] as const;
const GROUPS = [
  ["outcome", "By outcome"],
  ["project", "By project"],
  ["tenant", "By tenant"],
  ["key", "By key"],
  ["route", "By route"],
] as const;
/** The palette has a colour for each, and one for all others. */
const TOP = 5;
const REST_COLOUR = 6;
/** Their order, colours and names are the same on every page. */
const OUTCOMES: Record<string, string> = {
  allowed: "Allowed",
  rate_limited: "Rate limited",
  invalid_key: "Invalid key",
  expired_key: "Expired key",
  insufficient_scope: "Missing scope",
};

type RangeName = (typeof RANGES)[number][0];
type GroupName = (typeof GROUPS)[number][0];

/** Days are those of the browser's time zone. */
function spanOf(range: RangeName): Query {
  if (range === "24h") return { bucket: "hour" };
  if (range === "30d") return { bucket: "day", time_zone: new Intl.DateTimeFormat().resolvedOptions().timeZone };
  const hour = Math.floor(serverNow() / HOUR_MS) * HOUR_MS;
  return { bucket: "hour", from: new Date(hour - 7 * 24 * HOUR_MS).toISOString() };
}

function bucketName(start: string, range: RangeName): string {
  const at = Date.parse(start);
  if (range === "24h") return formatClock(at);
  return range === "7d" ? `${formatDate(at)} ${formatClock(at)}` : formatDate(at);
}

const add = (a: readonly number[], b: readonly number[]): number[] => a.map((value, i) => value + (b[i] ?? 0));

/** The outcomes that have a colour, and all others together. */
function outcomeSeries({ series, buckets }: Answer): Series[] {
  const values = new Map(series.map(({ group, requests }) => [group ?? "", requests]));
  const named = Object.entries(OUTCOMES).map(([outcome, name], i) => {
    return { name, values: values.get(outcome) ?? [], colour: i + 1 };
  });
  let rest = buckets.map(() => 0);
  for (const [outcome, requests] of values) if (!(outcome in OUTCOMES)) rest = add(rest, requests);
  return [...named, { name: "Other", values: rest, colour: REST_COLOUR }].filter((one) =>
    one.values.some((value) => value > 0),
  );
}

function groupSeries({ series, other }: Answer): Series[] {
  const listed = series.map(({ label, requests }, i) => {
    return { name: label ?? "None", values: requests, colour: (i % TOP) + 1 };
  });
  return other ? [...listed, { name: "Other", values: other.requests, colour: REST_COLOUR }] : listed;
}

/** "1,204 requests, 3 % with errors, last 24 hours" */
function finding(answer: Answer, range: RangeName): string {
  const { requests, errors } = answer.total.total;
  const span = (RANGES.find(([name]) => name === range)?.[1] ?? "").toLowerCase();
  const share = requests > 0 ? `, ${formatPercent(errors / requests)} with errors` : "";
  return `${plural(requests, "request")}${share}, ${span}`;
}

type ChoiceProps = { name: string; label: string; options: readonly (readonly [value: string, text: string])[] };

function Choice({ name, label, options }: ChoiceProps) {
  return (
    <select aria-label={label} onChange={(event) => setParams({ [name]: event.currentTarget.value })}>
      {options.map(([value, text]) => (
        <option key={value} value={value} selected={value === param(name)}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** A server without usage series answers 404. */
function Off() {
  return <p class="muted">Usage over time is switched off on this server (KEYRACK_SERIES).</p>;
}

/** `groups`: whether the person chooses what to group by. */
export function Traffic({ title, groups = false }: { title: string; groups?: boolean }) {
  const range = RANGES.find(([name]) => name === param("range"))?.[0] ?? "24h";
  const group: GroupName = (groups && GROUPS.find(([name]) => name === param("by"))?.[0]) || "outcome";
  const query: Query = { ...spanOf(range), env: env.value, group_by: group, top: TOP };
  const read = useRead("GET /v1/usage/series", { query }, { everyMs: EVERY_MS });
  const isOff = read.answer.value.problem?.status === 404;
  return (
    <Panel
      title={title}
      actions={
        <div class="buttons">
          {groups && <Choice name="by" label="Group" options={GROUPS} />}
          <Choice name="range" label="Range" options={RANGES} />
        </div>
      }
    >
      {isOff ? (
        <Off />
      ) : (
        <Loaded read={read}>
          {(answer) => {
            const text = finding(answer, range);
            return (
              <>
                <p>{text}.</p>
                <Chart
                  name={text}
                  file={`requests-by-${group}-${range}`}
                  buckets={answer.buckets.map((start) => bucketName(start, range))}
                  series={group === "outcome" ? outcomeSeries(answer) : groupSeries(answer)}
                />
                {answer.overflow && (
                  <p class="panel-foot muted small">
                    There are more groups than are listed; the others are counted as other.
                  </p>
                )}
              </>
            );
          }}
        </Loaded>
      )}
    </Panel>
  );
}
