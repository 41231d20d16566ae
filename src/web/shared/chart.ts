// The geometry of a stacked bar chart: a scale, its ticks, and one path for each series.

/** Rounds up to 1, 2 or 5 × 10^n, for readable axis labels. */
export function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
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
  const max = roundUp(Math.max(4, ...totals));
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
