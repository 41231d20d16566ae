// What was asked in one transaction and need not be asked again: its answer could only be the same.
import type { Query } from "./statement.ts";

export class Asked {
  /** By the statement, then by its values. */
  readonly #answers = new Map<string, Map<string, unknown>>();

  once<T>({ sql, values }: Query, ask: () => T): T {
    let answers = this.#answers.get(sql);
    if (!answers) this.#answers.set(sql, (answers = new Map()));
    const name = values.join("\0"); // no text of ours holds a NUL
    let answer = answers.get(name) as T | undefined;
    if (answer === undefined) answers.set(name, (answer = ask()));
    return answer;
  }

  clear(): void {
    this.#answers.clear();
  }
}
