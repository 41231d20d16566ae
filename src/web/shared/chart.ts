// The geometry of a stacked bar chart: a scale, its ticks, and one path for each series.

const STEPS = [1, 2, 3, 4, 5, 6, 8, 10];

/** Rounds up to the end of an axis, an even number, so that half of it is a whole one. At least 4. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  const ends = STEPS.map((step) => step * power).filter((end) => end % 2 === 0);
  return ends.find((end) => end >= Math.max(value, 4)) ?? 10 * power;
}

export type Area = { width: number; height: number; left: number; top: number; bottom: number };

export type Chart = {
  max: number;
  /** Values of the axis and their vertical positions. */
  ticks: { value: number; y: number }[];
  /** One path for each series, drawn from the bottom up. */
  paths: string[];
  /** The horizontal extent of each bucket. */
  slots: { x: number; width: number }[];
};

const round = (value: number): number => Math.round(value * 10) / 10;

/** `series`: values per bucket; all have the same length. */
export function layoutChart(series: readonly (readonly number[])[], area: Area): Chart {
  const count = Math.max(1, ...series.map((values) => values.length));
  const totals = Array.from({ length: count }, (_, i) => series.reduce((sum, values) => sum + (values[i] ?? 0), 0));
  const max = roundUp(Math.max(...totals));
  const floor = area.height - area.bottom;
  const y = (value: number): number => floor - (value / max) * (floor - area.top);
  const step = (area.width - area.left) / count;
  const bar = Math.max(1, Math.min(step - (step > 6 ? 3 : 1), 26));
  const slots = totals.map((_, i) => ({ x: area.left + i * step, width: step }));
  const below = totals.map(() => 0);
  const paths = series.map((values) => {
    let path = "";
    for (const [i, value] of values.entries()) {
      if (value <= 0) continue;
      const base = below[i] ?? 0;
      const [bottom, top] = [round(y(base)), round(y(base + value))];
      below[i] = base + value;
      path += `M${round(area.left + i * step + (step - bar) / 2)} ${bottom}V${top}h${round(bar)}V${bottom}z`;
    }
    return path;
  });
  return { max, ticks: [0, max / 2, max].map((value) => ({ value, y: y(value) })), paths, slots };
}

const CHAR_WIDTH = 7;
const LABEL_GAP = 16;
const LABEL_ROOM_MIN = 120;
/** Steps that people count in: hours of a day, months of a year. */
const LABEL_STEPS = [1, 2, 3, 4, 6, 12, 24, 48, 72, 96];

type AxisLabel = { index: number; x: number; anchor: "start" | "middle" | "end" };

/** The buckets with a name below them: the last, and before it every n-th for which there is room. */
export function axisLabels(names: readonly string[], { left, width }: Area): AxisLabel[] {
  const longest = Math.max(0, ...names.map((name) => name.length)) * CHAR_WIDTH;
  // A name at an end of the axis may have to begin or end there, so it takes its whole width on one side.
  const room = Math.max(LABEL_ROOM_MIN, 1.5 * longest + LABEL_GAP);
  const last = names.length - 1;
  const least = Math.max(1, Math.ceil(last / Math.max(1, Math.floor((width - left) / room))));
  const step = LABEL_STEPS.find((one) => one >= least) ?? least;
  return names.flatMap((name, index): AxisLabel[] => {
    if ((last - index) % step !== 0) return [];
    const half = (name.length * CHAR_WIDTH) / 2;
    const x = left + ((width - left) * (index + 0.5)) / names.length;
    if (x + half > width) return [{ index, x: width, anchor: "end" }];
    return [x - half < left ? { index, x: left, anchor: "start" } : { index, x, anchor: "middle" }];
  });
}
