// What was found in one transaction and need not be looked for again: where nothing in it writes there, it is the same.
import type { Query } from "./statement.ts";

type Level = Map<unknown, unknown>;

export class QueryMemo {
  /** By the statement, then by one value after the other. */
  readonly #answers: Level = new Map();

  once<T>({ sql, values }: Query, ask: () => T): T {
    let level = below(this.#answers, sql);
    const last = values.length - 1;
    for (let i = 0; i < last; i++) level = below(level, values[i]);
    let answer = level.get(values[last]) as T | undefined;
    if (answer === undefined) level.set(values[last], (answer = ask()));
    return answer;
  }

  clear(): void {
    this.#answers.clear();
  }
}

function below(level: Level, name: unknown): Level {
  let next = level.get(name) as Level | undefined;
  if (!next) level.set(name, (next = new Map()));
  return next;
}
