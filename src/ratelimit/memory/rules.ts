// The rules that a cell has counters for. Caution: a rule exists only while one of its rows does; releasing the last
// row must drop the rule.
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import type { Subject } from "../counter.ts";
import type { Cell, Rule } from "./cells.ts";
import { NONE } from "./rows.ts";

/**
 * What a rule costs beside its counters, in places (bench/counter-memory.ts): rules can be forged as well as key ids.
 */
export const RULE_PLACES = 10;

/** The attributes of a rule except its id and limit, packed into one number. */
function codeOf(env: string, limit: RateLimit): number {
  const bits = (env === "live" ? 4 : 0) + (limit.scope === "key" ? 2 : 0) + (limit.algorithm === "sliding" ? 1 : 0);
  return limit.window_ms * 8 + bits;
}

function nameOf(project_id: string, id: string, code: number): string {
  return `${project_id}/${id}/${code}`;
}

export function isRule(rule: Rule, request: Subject, limit: RateLimit): boolean {
  return (
    rule.id === limit.id &&
    rule.project_id === request.project_id &&
    rule.cell.workspace_id === request.workspace_id &&
    rule.code === codeOf(request.env, limit)
  );
}

export class Rules {
  readonly #byNumber: (Rule | undefined)[] = [];
  readonly #freeNumbers: number[] = [];

  at(number: number): Rule {
    return this.#byNumber[number]!;
  }

  find(cell: Cell, request: Subject, limit: RateLimit): Rule | undefined {
    return cell.rules.get(nameOf(request.project_id, limit.id, codeOf(request.env, limit)));
  }

  add(cell: Cell, request: Subject, limit: RateLimit): Rule {
    const { project_id, env } = request;
    const { id, algorithm, window_ms, scope } = limit;
    const code = codeOf(env, limit);
    const number = this.#freeNumbers.pop() ?? this.#byNumber.length;
    const shared = { anonymous: NONE, overflow: NONE, sharedUntil: 0 };
    const rule: Rule = { id, algorithm, window_ms, scope, cell, project_id, code, number, rows: 0, ...shared };
    this.#byNumber[number] = rule;
    cell.rules.set(nameOf(project_id, id, code), rule);
    return rule;
  }

  delete(rule: Rule): void {
    rule.cell.rules.delete(nameOf(rule.project_id, rule.id, rule.code));
    this.#byNumber[rule.number] = undefined;
    this.#freeNumbers.push(rule.number);
  }
}
