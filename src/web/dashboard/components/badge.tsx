// A state as shape and word, so that it does not depend on colour.
import type { ComponentChildren } from "preact";

export type Tone = "good" | "warn" | "bad" | "plain" | "accent";

export function Badge({ tone = "plain", children }: { tone?: Tone; children: ComponentChildren }) {
  return (
    <span class={`badge ${tone}`}>
      <span class="dot" aria-hidden="true" />
      {children}
    </span>
  );
}

/**
 * Short values in a row, such as scopes. `max`: for a table, how many are shown before a count replaces the others; a
 * table also cuts long ones.
 */
export function Chips({ values, max = values.length }: { values: readonly string[]; max?: number }) {
  if (values.length === 0) return <span class="muted">None</span>;
  const hidden = values.slice(max);
  return (
    <span class="chips">
      {values.slice(0, max).map((value) => (
        <span key={value} class="chip" title={value}>
          <bdi>{value}</bdi>
        </span>
      ))}
      {hidden.length > 0 && (
        <span class="chip" title={hidden.join(", ")}>
          +{hidden.length}
        </span>
      )}
    </span>
  );
}
