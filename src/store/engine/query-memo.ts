// Query memo: memoizes reads within one transaction, by SQL text and bound values. Only for rows that nothing in the
// transaction writes. Undefined results are not memoized. bench: vendor/mint, vendor/get-by-id
import type { Query } from "./tx.ts";

type Level = Map<unknown, unknown>;

export class QueryMemo {
  /** A trie: the SQL text, then the values from last to first, because ids come first and would split it early. */
  #results: Level = new Map();

  getOrRun<T>({ sql, values }: Query, run: () => T): T {
    let level = childOf(this.#results, sql);
    for (let i = values.length - 1; i > 0; i--) level = childOf(level, values[i]);
    let result = level.get(values[0]) as T | undefined;
    if (result === undefined) level.set(values[0], (result = run()));
    return result;
  }

  /** Replaces the Map: clearing it would cost garbage collection (docs/design/0020-short-lived-items.md). */
  clear(): void {
    this.#results = new Map();
  }
}

function childOf(level: Level, key: unknown): Level {
  let child = level.get(key) as Level | undefined;
  if (!child) level.set(key, (child = new Map()));
  return child;
}
