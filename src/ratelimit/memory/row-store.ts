// The open rows by name: cells, their rules, and the rows of each rule's subjects. Nothing is bounded here
// (row-index.ts). Caution: what a row, a rule and a cell cost is charged to the owner as it opens, and given back as it
// is released.
import type { Ledger } from "../../fairness/ledger.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { lapsesAt } from "../../kernel/ratelimit/window.ts";
import { ANONYMOUS, type Subject, subjectOf } from "../counter.ts";
import { Cell, Cells, type Rule } from "./cells.ts";
import { RowTable } from "./row-table.ts";
import { CounterRows, NONE, RULE } from "./rows.ts";
import { isRule, RULE_PLACES, Rules } from "./rules.ts";
import { formatSubject, readSubject } from "./subjects.ts";

/** The subject under which a rule's overflow counter is saved. No id can be this: ids are UUIDs or "-". */
export const OVERFLOW_SUBJECT = "*";

export class RowStore {
  readonly rows = new CounterRows();
  readonly cells = new Cells();
  readonly #rules = new Rules();
  readonly #table: RowTable;
  readonly #ledger: Ledger;
  readonly #subject = new Int32Array(4);
  /** The rule that was last at each position of a request. bench: limiter/check */
  readonly #last: (Rule | undefined)[] = [];
  /** Rows of one subject each, and overflow rows. */
  counters = 0;
  overflow = 0;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
    this.#table = new RowTable(this.rows, ledger.limits.bound);
  }

  ruleOf(slot: number): Rule {
    return this.#rules.at(this.rows.get(slot, RULE));
  }

  nameOf(slot: number): string {
    const rule = this.ruleOf(slot);
    if (rule.overflow === slot) return OVERFLOW_SUBJECT;
    return rule.anonymous === slot ? ANONYMOUS : formatSubject(this.rows.subjectOf(slot));
  }

  /** When the row's last unit expires. It may be late (returned units do not move it), never early. */
  lapsesAt(slot: number): number {
    return this.rows.total(slot) === 0 ? 0 : lapsesAt(this.ruleOf(slot), this.rows.newest(slot));
  }

  /** The row of this name, overflow rows included; NONE if it is not open. */
  slotOf(request: Subject, limit: RateLimit): number {
    const rule = this.#findRule(request, limit);
    return rule ? this.rowOf(rule, subjectOf(request, limit)) : NONE;
  }

  /**
   * The rule at position `i` of a request. Fast path: most calls use the rules of the call before. bench: limiter/check
   */
  rule(request: Subject, limit: RateLimit, i: number): Rule | undefined {
    const last = this.#last[i];
    if (last !== undefined && isRule(last, request, limit)) return last;
    return (this.#last[i] = this.#findRule(request, limit));
  }

  #findRule(request: Subject, limit: RateLimit): Rule | undefined {
    const cell = this.cells.find(request);
    return cell && this.#rules.find(cell, request, limit);
  }

  rowOf(rule: Rule, subject: string): number {
    if (subject === ANONYMOUS) return rule.anonymous;
    if (subject === OVERFLOW_SUBJECT) return rule.overflow;
    readSubject(subject, this.#subject);
    return this.#table.find(rule.number, this.#subject);
  }

  open(request: Subject, limit: RateLimit): number {
    const [slot, rule] = this.#open(request, limit);
    rule.cell.counters++;
    this.counters++;
    const subject = subjectOf(request, limit);
    if (subject === ANONYMOUS) rule.anonymous = slot;
    else {
      readSubject(subject, this.#subject);
      this.#table.add(slot, rule.number, this.#subject);
    }
    return slot;
  }

  /** A rule has one: to make room for another rule of the same request, a row may have become it meanwhile. */
  openOverflow(request: Subject, limit: RateLimit): number {
    const known = this.#findRule(request, limit)?.overflow ?? NONE;
    if (known !== NONE) return known;
    const [slot, rule] = this.#open(request, limit);
    this.#setOverflow(rule, slot);
    return slot;
  }

  #open(request: Subject, limit: RateLimit): [number, Rule] {
    const cell = this.cells.find(request) ?? this.cells.add(new Cell(this.rows, request));
    const rule = this.#rules.find(cell, request, limit) ?? this.#addRule(cell, request, limit);
    const slot = this.rows.allocate(limit.algorithm === "sliding");
    this.#ledger.take(cell.owner, this.rows.placesOf(slot));
    this.rows.set(slot, RULE, rule.number);
    rule.rows++;
    cell.add(slot);
    return [slot, rule];
  }

  #addRule(cell: Cell, request: Subject, limit: RateLimit): Rule {
    this.#ledger.take(cell.owner, RULE_PLACES);
    return this.#rules.add(cell, request, limit);
  }

  /** Makes a subject's row the overflow row of its rule. */
  becomeOverflow(slot: number): void {
    const rule = this.ruleOf(slot);
    this.#forget(slot, rule);
    this.#setOverflow(rule, slot);
  }

  #setOverflow(rule: Rule, slot: number): void {
    rule.overflow = slot;
    rule.cell.overflow++;
    this.overflow++;
  }

  release(slot: number, now: number): void {
    const rule = this.ruleOf(slot);
    const { cell } = rule;
    if (rule.overflow === slot) {
      rule.overflow = NONE;
      rule.sharedUntil = 0;
      cell.overflow--;
      this.overflow--;
    } else this.#forget(slot, rule);
    cell.remove(slot);
    this.#ledger.release(cell.owner, this.rows.placesOf(slot));
    this.rows.release(slot);
    if (--rule.rows > 0) return;
    this.#rules.delete(rule);
    this.#last.length = 0;
    this.#ledger.release(cell.owner, RULE_PLACES);
    this.dropIfEmpty(cell, now);
  }

  /** A subject's row loses its name. */
  #forget(slot: number, rule: Rule): void {
    if (rule.anonymous === slot) rule.anonymous = NONE;
    else this.#table.delete(slot);
    rule.cell.counters--;
    this.counters--;
  }

  dropIfEmpty(cell: Cell, now: number): void {
    if (cell.size === 0 && cell.refusedUntil <= now) this.cells.delete(cell);
  }
}
