// The legend of a chart: the names and figures of its series, which it also hides.
import { useState } from "preact/hooks";
import { formatNumber } from "../../shared/format.ts";
import { UserText } from "./text.tsx";

export type Series = {
  name: string;
  values: readonly number[];
  /** The figure of all buckets, where that is not their sum. */
  total?: number;
  /** 1 to 6: a colour of the palette, every second one also hatched; 7: an outline. */
  colour: number;
};

/** The names of series that are not drawn. */
export function useHidden(series: readonly Series[]) {
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const toggle = (name: string): void => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    // Without any there is nothing to see.
    setHidden(series.every((one) => next.has(one.name)) ? new Set() : next);
  };
  return [hidden, toggle] as const;
}

type LegendProps = {
  series: readonly Series[];
  at: number | null;
  hidden: ReadonlySet<string>;
  onToggle: (name: string) => void;
};

/** With the figures of the inspected bar, or of all. Pressing a name hides its series, which enlarges the others. */
export function Legend({ series, at, hidden, onToggle }: LegendProps) {
  return (
    <figcaption class="chart-legend small">
      {series.map(({ name: label, colour, values, total: own }) => {
        const total = formatNumber(own ?? values.reduce((sum, value) => sum + value, 0));
        const entry = (
          <>
            <span class={`swatch colour-${colour}`} aria-hidden="true" />
            <UserText>{label}</UserText>{" "}
            <span class="muted" style={{ minInlineSize: `${total.length}ch` }}>
              {at === null ? total : formatNumber(values[at] ?? 0)}
            </span>
          </>
        );
        if (series.length === 1) return <span key={label}>{entry}</span>;
        return (
          <button key={label} type="button" aria-pressed={!hidden.has(label)} onClick={() => onToggle(label)}>
            {entry}
          </button>
        );
      })}
    </figcaption>
  );
}
