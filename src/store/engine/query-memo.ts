// Query memo: memoizes reads within one transaction, by SQL text and bound values. Only for rows that nothing in the
// transaction writes. Undefined results are not memoized. bench: vendor/mint, vendor/get-by-id
import type { Query } from "./tx.ts";

type Level = Map<unknown, unknown>;

export class QueryMemo {
  /** A trie: the SQL text, then one level per bound value. */
  readonly #results: Level = new Map();

  getOrRun<T>({ sql, values }: Query, run: () => T): T {
    let level = childOf(this.#results, sql);
    const last = values.length - 1;
    for (let i = 0; i < last; i++) level = childOf(level, values[i]);
    let result = level.get(values[last]) as T | undefined;
    if (result === undefined) level.set(values[last], (result = run()));
    return result;
  }

  clear(): void {
    this.#results.clear();
  }
}

function childOf(level: Level, key: unknown): Level {
  let child = level.get(key) as Level | undefined;
  if (!child) level.set(key, (child = new Map()));
  return child;
}
