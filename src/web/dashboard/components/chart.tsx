// A stacked bar chart as SVG. Its name states the finding; the figures are also there as a table and as CSV, and the
// arrow keys walk through the points.
import { Fragment, type RefObject } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { axisLabels, layoutChart, type Area, type Chart as Layout } from "../../shared/chart.ts";
import { toCsv } from "../../../kernel/text/csv.ts";
import { formatCompact, formatNumber } from "../../shared/format.ts";
import { Button } from "./button.tsx";
import { Legend, useHidden, type Series } from "./chart-legend.tsx";
import { download } from "./download.ts";
import { isPlainKey } from "./keyboard.ts";

type ChartProps = {
  /** The finding: "1 204 requests, 3 % denied, last 24 hours". */
  name: string;
  buckets: readonly string[];
  /** Shorter names of the buckets, below the axis. */
  axis?: readonly string[];
  /** When each bucket starts, in ISO 8601: the times of the CSV file. */
  starts: readonly string[];
  series: readonly Series[];
  /** Name of the CSV file. */
  file: string;
};

const HEIGHT = 180;
const MARGINS = { left: 48, top: 8, bottom: 24 };

function useWidth() {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(640);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(Math.max(240, element.clientWidth)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width] as const;
}

/** Stripes, so that neighbouring series differ without colour. */
function Hatch({ id, colour }: { id: string; colour: number }) {
  return (
    <pattern id={id} width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect width="5" height="5" class={`colour-${colour}`} />
      <line x1="0" x2="0" y1="0" y2="5" class="stripe" />
    </pattern>
  );
}

type DrawingProps = ChartProps & { layout: Layout; area: Area; at: number | null; id: string };

function Drawing({ name, buckets, axis = buckets, series, layout, area, at, id }: DrawingProps) {
  const slot = at === null ? undefined : layout.slots[at];
  return (
    <svg
      viewBox={`0 0 ${area.width} ${area.height}`}
      width={area.width}
      height={area.height}
      role="img"
      aria-label={name}
    >
      <defs>
        {series.map(({ colour }) => colour % 2 === 0 && <Hatch key={colour} id={`${id}-${colour}`} colour={colour} />)}
      </defs>
      {slot && (
        <rect
          class="chart-cursor"
          x={slot.x}
          width={slot.width}
          y={area.top}
          height={area.height - area.bottom - area.top}
        />
      )}
      {layout.ticks.map(({ value, y }) => (
        <g key={value}>
          <line class="chart-grid" x1={area.left} x2={area.width} y1={y} y2={y} />
          <text x={area.left - 8} y={y + 4} text-anchor="end">
            {formatCompact(value)}
          </text>
        </g>
      ))}
      {series.map(({ name: label, colour }, i) => (
        <path
          key={label}
          d={layout.paths[i]}
          class={`colour-${colour}`}
          {...(colour % 2 === 0 && { fill: `url(#${id}-${colour})`, class: "" })}
        />
      ))}
      {axisLabels(axis, area).map(({ index, anchor, x }) => (
        <text key={index} x={x} y={area.height - 6} text-anchor={anchor}>
          {axis[index]}
        </text>
      ))}
    </svg>
  );
}

function Point({ buckets, series, at }: Pick<ChartProps, "buckets" | "series"> & { at: number }) {
  const counted = series.filter(({ values }) => (values[at] ?? 0) > 0);
  return (
    <>
      {buckets[at]}
      {counted.length === 0 && " · None"}
      {counted.map(({ name, values }) => (
        <Fragment key={name}>
          {" · "}
          <bdi>{name}</bdi> {formatNumber(values[at] ?? 0)}
        </Fragment>
      ))}
    </>
  );
}

/** Which bar is inspected. The legend has its figures; screen readers get both at once. */
function Inspected(props: Pick<ChartProps, "buckets" | "series"> & { at: number | null }) {
  const { buckets, at } = props;
  return (
    <>
      <p class="small muted" aria-hidden="true">
        {at === null ? [...new Set([buckets[0], buckets.at(-1)])].join(" – ") : buckets[at]}
      </p>
      <p class="hide" role="status">
        {at !== null && <Point {...props} at={at} />}
      </p>
    </>
  );
}

/** The bar that the pointer or the arrow keys are at. */
function useInspected(ref: RefObject<HTMLElement>, slots: Layout["slots"], last: number) {
  const [inspected, setAt] = useState<number | null>(null);
  const at = inspected !== null && inspected <= last ? inspected : null;
  const onKeyDown = (event: KeyboardEvent): void => {
    const from = at ?? last + 1;
    const next = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[event.key];
    if (next === undefined || !isPlainKey(event)) return;
    event.preventDefault();
    setAt(Math.min(last, Math.max(0, next)));
  };
  const onMouseMove = (event: MouseEvent): void => {
    const x = event.clientX - (ref.current?.getBoundingClientRect().left ?? 0);
    const found = slots.findIndex((slot) => x >= slot.x && x < slot.x + slot.width);
    setAt(found < 0 ? null : found);
  };
  const onBlur = (): void => setAt(null);
  // A finger that is lifted leaves too; the figures stay until something else is touched.
  const onPointerLeave = ({ pointerType }: PointerEvent): void => {
    if (pointerType !== "touch") setAt(null);
  };
  return { at, handlers: { onKeyDown, onMouseMove, onPointerLeave, onBlur } };
}

export function Chart(props: ChartProps) {
  const { name, buckets, starts, series, file } = props;
  const [ref, width] = useWidth();
  const [hidden, toggle] = useHidden(series);
  const [open, setOpen] = useState(false);
  const id = useId();
  const area: Area = { width, height: HEIGHT, ...MARGINS };
  const layout = layoutChart(
    series.map(({ name: label, values }) => (hidden.has(label) ? values.map(() => 0) : values)),
    area,
  );
  const { at, handlers } = useInspected(ref, layout.slots, buckets.length - 1);
  const rowsOf = (times: readonly string[]) =>
    times.map((at, i) => [at, ...series.map(({ values }) => values[i] ?? 0)]);
  const head = ["Time", ...series.map((one) => one.name)];
  return (
    <figure class="chart">
      <Legend series={series} at={at} hidden={hidden} onToggle={toggle} />
      <Inspected {...props} at={at} />
      <div ref={ref} tabIndex={0} role="group" aria-label="Bars. Use the arrow keys to read each." {...handlers}>
        <Drawing {...props} layout={layout} area={area} at={at} id={id} />
      </div>
      <div class="buttons">
        <Button pressed={open} onClick={() => setOpen(!open)}>
          Show as table
        </Button>
        <Button icon="download" onClick={() => download(`${file}.csv`, [toCsv(head, rowsOf(starts))], "text/csv")}>
          Download CSV
        </Button>
      </div>
      {open && <ChartTable caption={name} head={head} rows={rowsOf(buckets)} />}
    </figure>
  );
}

type TableProps = {
  caption: string;
  head: readonly string[];
  rows: readonly (readonly (string | number | undefined)[])[];
};

function ChartTable({ caption, head, rows }: TableProps) {
  return (
    <div class="table-scroll chart-table" tabIndex={0} role="region" aria-label={caption}>
      <table class="table plain-table">
        <caption class="hide">{caption}</caption>
        <thead>
          <tr>
            {head.map((text, i) => (
              <th key={text} scope="col" class={i === 0 ? undefined : "number"}>
                <bdi>{text}</bdi>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([bucket, ...values]) => (
            <tr key={bucket}>
              <th scope="row">{bucket}</th>
              {values.map((value, i) => (
                <td key={head[i + 1]} class="number">
                  {formatNumber(Number(value))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
