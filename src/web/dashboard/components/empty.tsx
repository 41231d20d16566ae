// What a page shows when there is nothing yet, nothing that matches, or nothing that could be loaded.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { formatWait } from "../../shared/format.ts";
import { problemText, type Problem } from "../api/problems.ts";
import { param, setParams } from "../links.ts";
import { go, place } from "../routes.ts";
import { Button } from "./button.tsx";
import { Icon, type IconName } from "./icon.tsx";
import { NOT_FOUND } from "./page.tsx";
import { Snippet } from "./snippet.tsx";

type EmptyProps = {
  icon: IconName;
  title: string;
  /** What belongs here. */
  children: ComponentChildren;
  /** The next step. */
  action?: ComponentChildren;
  /** The same step on the command line. */
  command?: string;
};

export function Empty({ icon, title, children, action, command }: EmptyProps) {
  return (
    <section class="empty">
      <span class="empty-icon">
        <Icon name={icon} size={24} />
      </span>
      <h2>{title}</h2>
      <p>{children}</p>
      {action && <div class="buttons">{action}</div>}
      {command && (
        <div class="empty-command">
          <p class="muted small">On the command line</p>
          <Snippet code={command} name="command" />
        </div>
      )}
    </section>
  );
}

export const SEARCH_HINT = "Search matches the start of words and whole ids.";

const FirstPage = () => <Button onClick={() => setParams({ after: null })}>First page</Button>;

/** A page after the last one, as when its rows have been deleted. */
export function NoMore({ what }: { what: string }) {
  return (
    <Empty icon="search" title={`No more ${what}`} action={<FirstPage />}>
      The list ends before this page.
    </Empty>
  );
}

type NoMatchProps = {
  what: string;
  /** What was searched for. */
  q?: string;
  /** Another step than clearing the filters. */
  action?: ComponentChildren;
  onClear: () => void;
};

export function NoMatch({ what, q = "", action, onClear }: NoMatchProps) {
  return (
    <Empty
      icon="search"
      title={`No ${what} match`}
      action={
        <>
          {action}
          <Button onClick={onClear}>Clear filters</Button>
        </>
      }
    >
      Change or clear your search and filters.
      {q !== "" && ` ${SEARCH_HINT}`}
    </Empty>
  );
}

/** Seconds until a refused request may be repeated, as far as the server says so. */
function useSecondsLeft(problem: Problem): number {
  const [left, setLeft] = useState(problem.retryAfterSeconds);
  useEffect(() => {
    setLeft(problem.retryAfterSeconds);
    const timer = setInterval(() => setLeft((seconds) => Math.max(0, seconds - 1)), 1_000);
    return () => clearInterval(timer);
  }, [problem]);
  return left;
}

type RefusedProps = { problem: Problem; onRetry: () => void };

/** Counts down. Outside of live regions, which would announce every second. */
export function RetryButton({ problem, onRetry, isLink = false }: RefusedProps & { isLink?: boolean }) {
  const left = useSecondsLeft(problem);
  const words = left > 0 ? `Try again in ${formatWait(left)}` : "Try again";
  if (!isLink) return <Button onClick={onRetry}>{words}</Button>;
  return (
    <button type="button" class="link" onClick={onRetry}>
      {words}
    </button>
  );
}

/** For the server's log. */
export function RequestId({ of: { requestId } }: { of: Problem }) {
  if (requestId === null) return null;
  return (
    <>
      Request id <code>{requestId}</code>
    </>
  );
}

/** A panel that could not be loaded. */
export function Failed({ problem, onRetry }: RefusedProps) {
  if (problem.status === 404)
    return (
      <section class="empty">
        <h2>Not found</h2>
        <p>{NOT_FOUND}</p>
      </section>
    );
  return (
    <section class="failed">
      <p role="alert">
        <strong>This could not be loaded.</strong> {problemText(problem)}
      </p>
      {problem.requestId !== null && (
        <p class="muted small">
          <RequestId of={problem} />
        </p>
      )}
      <div class="buttons">
        {problem.status === 400 && param("after") !== "" ? (
          <FirstPage />
        ) : (
          <RetryButton problem={problem} onRetry={onRetry} />
        )}
        {problem.status === 400 && place.value.query.size > 0 && param("after") === "" && (
          // It may be the address that was refused.
          <Button onClick={() => go(location.hash.replace(/\?.*/, ""))}>Clear filters</Button>
        )}
      </div>
    </section>
  );
}
