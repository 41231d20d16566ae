// What was found in one transaction and need not be looked for again: where nothing in it writes there, it is the same.
import type { Query } from "./statement.ts";

export class Asked {
  /** By the statement, then by its values. */
  readonly #answers = new Map<string, Map<string, unknown>>();

  once<T>({ sql, values }: Query, ask: () => T): T {
    let answers = this.#answers.get(sql);
    if (!answers) this.#answers.set(sql, (answers = new Map()));
    const name = JSON.stringify(values);
    let answer = answers.get(name) as T | undefined;
    if (answer === undefined) answers.set(name, (answer = ask()));
    return answer;
  }

  clear(): void {
    this.#answers.clear();
  }
}
