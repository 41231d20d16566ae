// The PostgreSQL connection of a worker thread, kept for a moment after each task: an export, or the verification of a
// long chain, is many short tasks in a row, and connecting takes longer than most of them.
import { openSource, withSource, type Source } from "../offline/source.ts";
import type { DatabaseTarget } from "../target.ts";

/** Longer than a client takes for a piece of an export. */
const KEPT_MS = 1_000;

let kept: { url: string; source: Source; expiry: NodeJS.Timeout } | undefined;

/** As `withSource`, for one of many short tasks. */
export async function withKeptSource<T>(target: DatabaseTarget, work: (source: Source) => Promise<T>): Promise<T> {
  if (target.kind === "sqlite") return withSource(target, work);
  const source = (await takeWorking(target.url)) ?? (await openSource(target));
  return keepAfter(target.url, source, work);
}

/** The kept connection, unless it was lost since. */
async function takeWorking(url: string): Promise<Source | undefined> {
  const source = take(url);
  try {
    await source?.ping();
    return source;
  } catch {
    if (source) close(source);
    return undefined;
  }
}

/** Closes the connection if the work fails, which may have left a transaction open. */
async function keepAfter<T>(url: string, source: Source, work: (source: Source) => Promise<T>): Promise<T> {
  try {
    const value = await work(source);
    keep(url, source);
    return value;
  } catch (error) {
    close(source);
    throw error;
  }
}

function take(url: string): Source | undefined {
  if (!kept) return undefined;
  const { source, expiry } = kept;
  clearTimeout(expiry);
  const isSame = kept.url === url;
  kept = undefined;
  if (isSame) return source;
  close(source);
  return undefined;
}

/** A thread has one task at a time, so nothing is kept here yet. */
function keep(url: string, source: Source): void {
  const expiry = setTimeout(() => {
    kept = undefined;
    close(source);
  }, KEPT_MS).unref();
  kept = { url, source, expiry };
}

function close(source: Source): void {
  source.close().catch(() => {}); // lost already
}
