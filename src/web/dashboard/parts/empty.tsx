// What a page shows when there is nothing yet, nothing that matches, or nothing that could be loaded.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { formatWait } from "../../shared/format.ts";
import { problemMessage, type Problem } from "../api/problems.ts";
import { Button } from "./button.tsx";
import { Icon, type IconName } from "./icon.tsx";
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

/** `q`: what was searched for. */
export function NoMatch({ what, q = "", onClear }: { what: string; q?: string; onClear: () => void }) {
  return (
    <section class="empty">
      <span class="empty-icon">
        <Icon name="search" size={24} />
      </span>
      <h2>No {what} match</h2>
      <p>
        Nothing fits the search and filters you have set.
        {q !== "" && " A search finds the beginnings of words, and whole ids."}
      </p>
      <div class="buttons">
        <Button onClick={onClear}>Clear filters</Button>
      </div>
    </section>
  );
}

/** A panel that could not be loaded. Counts down where the server says how long to wait. */
export function Failed({ problem, onRetry }: { problem: Problem; onRetry: () => void }) {
  const [left, setLeft] = useState(problem.retryAfterSeconds);
  useEffect(() => {
    setLeft(problem.retryAfterSeconds);
    const timer = setInterval(() => setLeft((seconds) => Math.max(0, seconds - 1)), 1_000);
    return () => clearInterval(timer);
  }, [problem]);
  if (problem.status === 404)
    return (
      <section class="empty">
        <h2>Not found</h2>
        <p>It does not exist, was deleted, or belongs to another workspace.</p>
      </section>
    );
  return (
    <section class="failed" role="alert">
      <p>
        <strong>This could not be loaded.</strong> {problemMessage(problem)}
      </p>
      {problem.requestId && (
        <p class="muted small">
          Request id <code>{problem.requestId}</code>
        </p>
      )}
      <div class="buttons">
        <Button onClick={onRetry}>{left > 0 ? `Try again (${formatWait(left)})` : "Try again"}</Button>
      </div>
    </section>
  );
}
