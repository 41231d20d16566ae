// Placeholders while something loads. They appear after a moment, so that quick answers do not flicker.
import type { ComponentChildren } from "preact";
import type { Read } from "../api/query.ts";
import { Failed } from "./empty.tsx";

export function Skeleton({ rows = 5 }: { rows?: number }) {
  return (
    <div class="skeleton" aria-busy="true">
      <span class="hide">Loading…</span>
      {Array.from({ length: rows }, (_, index) => (
        <span key={index} class="bone" aria-hidden="true" />
      ))}
    </div>
  );
}

export type LoadedProps<T> = { read: Read<T>; rows?: number; children: (data: T) => ComponentChildren };

/** Shows the answer of a read: a skeleton first, the problem if there is nothing to show, else the data. */
export function Loaded<T>({ read, rows = 5, children }: LoadedProps<T>) {
  const { data, problem } = read.answer.value;
  if (data !== null && problem?.status !== 404) return <>{children(data)}</>;
  return problem ? <Failed problem={problem} onRetry={read.refresh} /> : <Skeleton rows={rows} />;
}
