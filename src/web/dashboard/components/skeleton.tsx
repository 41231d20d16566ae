// Placeholders while something loads. They appear after a moment, so that quick responses do not flicker.
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { formatClock } from "../../shared/format.ts";
import { problemText, type Problem } from "../api/problems.ts";
import type { Read } from "../api/query.ts";
import { focusPage } from "./keyboard.ts";
import { Failed, RequestId, RetryButton } from "./empty.tsx";

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

/** Before anything of a page is known. */
export function Waiting() {
  return (
    <main class="sign-in">
      <Skeleton />
    </main>
  );
}

/** The newest response was a refusal. Without a connection the banner says so. */
function Stale({ problem, at, onRetry }: { problem: Problem; at: number; onRetry: () => void }) {
  if (problem.status === 0) return null;
  return (
    <div class="stale small">
      <p role="status">
        Showing data from {formatClock(at)}. {problemText(problem)}
      </p>
      <RetryButton problem={problem} onRetry={onRetry} isLink />
      <RequestId of={problem} />
    </div>
  );
}

/** A list that is searched and paged. Rows of the query before are inert: what is selected there would stay so. */
function Kept({ isOld, children }: { isOld: boolean; children: ComponentChildren }) {
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const focused = document.activeElement as HTMLElement | null;
    // An inert element loses the focus.
    const restore = (): void => {
      if (document.activeElement !== document.body) return;
      if (focused?.isConnected) focused.focus();
      else focusPage();
    };
    return isOld && list.current?.contains(focused) ? restore : undefined;
  }, [isOld]);
  return (
    <div ref={list} class="kept" inert={isOld} aria-busy={isOld}>
      {children}
    </div>
  );
}

type LoadedProps<T> = { read: Read<T>; rows?: number; children: (data: T) => ComponentChildren };

/** Shows the state of a read: a skeleton first, the problem if there is nothing to show, else the newest data. */
export function Loaded<T>({ read, rows = 5, children }: LoadedProps<T>) {
  const { data, problem, at, isOld } = read.state.value;
  if (data !== null && problem?.status !== 404) {
    const content = (
      <>
        {problem && at !== null && <Stale problem={problem} at={at} onRetry={read.refresh} />}
        {children(data)}
      </>
    );
    if (isOld === undefined) return content;
    return <Kept isOld={isOld}>{content}</Kept>;
  }
  return problem ? <Failed problem={problem} onRetry={read.refresh} /> : <Skeleton rows={rows} />;
}
