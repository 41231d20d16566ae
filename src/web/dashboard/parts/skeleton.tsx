// Placeholders while something loads. They appear after a moment, so that quick responses do not flicker.
import type { ComponentChildren } from "preact";
import { formatClock } from "../../shared/format.ts";
import { problemMessage, type Problem } from "../api/problems.ts";
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

/** The newest response was a refusal. Without a connection the banner says so. */
function Stale({ problem, at, onRetry }: { problem: Problem; at: number; onRetry: () => void }) {
  if (problem.status === 0) return null;
  return (
    <p class="stale small" role="status">
      Showing data from {formatClock(at)}. {problemMessage(problem)}{" "}
      <button type="button" class="link" onClick={onRetry}>
        Try again
      </button>
    </p>
  );
}

type LoadedProps<T> = { read: Read<T>; rows?: number; children: (data: T) => ComponentChildren };

/** Shows the state of a read: a skeleton first, the problem if there is nothing to show, else the newest data. */
export function Loaded<T>({ read, rows = 5, children }: LoadedProps<T>) {
  const { data, problem, at } = read.state.value;
  if (data !== null && problem?.status !== 404)
    return (
      <>
        {problem && at !== null && <Stale problem={problem} at={at} onRetry={read.refresh} />}
        {children(data)}
      </>
    );
  return problem ? <Failed problem={problem} onRetry={read.refresh} /> : <Skeleton rows={rows} />;
}
