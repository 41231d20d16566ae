// One action on many keys: counts them first, then changes them page by page. A page that failed is repeated with the
// same Idempotency-Key, so a run continues where it stopped and changes no key twice.
import { useEffect, useRef, useState } from "preact/hooks";
import type { RouteInput, RouteOutput } from "../../../client.ts";
import { call, newIdempotencyKey } from "../api/call.ts";
import { toProblem, type Problem } from "../api/problems.ts";
import { refreshReads } from "../api/query.ts";
import { place } from "../routes.ts";

type Body = RouteInput<"POST /v1/bulk/keys">["body"];
type Page = RouteOutput<"POST /v1/bulk/keys">;
export type BulkFilter = Body["filter"];
export type BulkAction = "revoke" | "disable";

/** What the count found. */
export type Found = { bulk_id: string; matched: number; keys: Page["data"] };

export type Run = {
  found: Found | null;
  /** Keys changed so far; null before it begins. */
  done: number | null;
  state: "counting" | "asking" | "running" | "stopped" | "failed" | "done";
  problem: Problem | null;
  /** Projects whose nodes learn of it. */
  projects: readonly string[];
};

const START: Run = { found: null, done: null, state: "counting", problem: null, projects: [] };

type Next = { cursor: string | null; idempotencyKey: string };

/** Counts the keys when the dialog opens. */
function useCount(body: Body, change: (part: Partial<Run>) => void): void {
  useEffect(() => {
    const abort = new AbortController();
    const count = async (): Promise<void> => {
      const { bulk_id, matched, data } = await call("POST /v1/bulk/keys", { body }, { signal: abort.signal });
      change({ state: "asking", found: { bulk_id, matched: matched ?? data.length, keys: data } });
    };
    count().catch((error: unknown) => abort.signal.aborted || change({ state: "failed", problem: toProblem(error) }));
    return () => abort.abort();
  }, []);
}

export function useBulkRun(action: BulkAction, filter: BulkFilter) {
  const [run, setRun] = useState(START);
  const change = (part: Partial<Run>): void => setRun((before) => ({ ...before, ...part }));
  const stopping = useRef(false);
  const reason = useRef("");
  const next = useRef<Next>({ cursor: null, idempotencyKey: newIdempotencyKey() });

  const stop = (): void => void (stopping.current = true);
  useCount({ action, filter, dry_run: true, limit: PAGE }, change);
  // Also when the person has agreed to leave for other filters: the dialog stays, with the count and Continue.
  useEffect(() => stop, [place.value]);

  /** Changes one page; the next one has its own Idempotency-Key. */
  const changePage = async ({ bulk_id, matched }: Found): Promise<Page> => {
    const { cursor, idempotencyKey } = next.current;
    const position = cursor === null ? { expect: matched } : { cursor };
    const given = reason.current === "" ? {} : { reason: reason.current };
    const body = { action, filter, dry_run: false, limit: PAGE, bulk_id, ...position, ...given };
    const page = await call("POST /v1/bulk/keys", { body, idempotencyKey });
    next.current = { cursor: page.next_cursor, idempotencyKey: newIdempotencyKey() };
    return page;
  };

  const proceed = async (found: Found): Promise<void> => {
    stopping.current = false;
    change({ state: "running", problem: null });
    try {
      for (;;) {
        const { changed, versions, next_cursor } = await changePage(found);
        setRun((before) => ({
          ...before,
          done: (before.done ?? 0) + changed,
          projects: [...new Set([...before.projects, ...versions.map(({ project_id }) => project_id)])],
        }));
        if (next_cursor === null) return change({ state: "done" });
        if (stopping.current) return change({ state: "stopped" });
      }
    } catch (error) {
      change({ state: "failed", problem: toProblem(error) });
    } finally {
      refreshReads("/v1/keys");
    }
  };

  return {
    run,
    start: (found: Found, why: string): void => {
      reason.current = why;
      change({ done: 0 });
      void proceed(found);
    },
    /** After a failure, or when it was stopped. */
    resume: (found: Found): void => void proceed(found),
    /** After the page that is on its way. */
    stop,
  };
}

/** Keys that the question names. */
export const SHOWN = 10;
/** Keys that one request names or changes: short enough that the progress moves. */
const PAGE = 200;
