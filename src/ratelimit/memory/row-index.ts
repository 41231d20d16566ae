// Maps counter names to row slots and bounds their number. At a bound, new subjects of a rule share its overflow row,
// so that forged ids can neither exhaust memory nor evict another counter. Caution: a name without a row is not free of
// charge. `findSlot` returns what it would get, and includes the rows that earlier rules of the same request will open,
// so that the last free row is never promised twice.
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { type Subject, subjectOf } from "../counter.ts";
import {
  addRule,
  dropRule,
  findRule,
  isRule,
  newSweep,
  newWorkspace,
  type Rule,
  type Sweep,
  type Workspace,
} from "./rule-index.ts";
import { CounterRows } from "./rows.ts";

export type Bounds = {
  perWorkspace: number;
  inAll: number;
  /** Overflow rows are extra, one per rule, and bounded too: rule ids can be forged as well as key ids. */
  overflowPerWorkspace: number;
  overflowInAll: number;
};

export const BOUNDS: Bounds = {
  perWorkspace: 100_000,
  inAll: 1_000_000,
  overflowPerWorkspace: 1_000,
  overflowInAll: 50_000,
};

/** Results of `findSlot` that are no slot: may open its own row, the rule's overflow row, or none (refuse the call). */
export const OWN_ROW = -1;
export const OVERFLOW_ROW = -2;
export const NO_ROW = -3;

/** The subject under which a rule's overflow counter is saved. No id can be this: ids are UUIDs or "-". */
export const OVERFLOW_SUBJECT = "*";

// A sweep reads two numbers per row, some milliseconds at a million rows, so its rate is limited; and it stops after
// freeing this many rows, because one request pays for it.
const SWEEP_EVERY_MS = 100;
const SWEEP_MAX = 5_000;

export class RowIndex {
  readonly rows = new CounterRows();
  readonly #workspaces = new Map<string, Workspace>();
  readonly #rules: (Rule | undefined)[] = [];
  readonly #subjects: string[] = [];
  #owners = new Int32Array(1024);
  readonly #sweep: Sweep = newSweep();
  #last: Rule | undefined;
  #numbered = 0;
  readonly #bounds: Bounds;
  counters = 0;
  overflow = 0;
  overflowed = 0;
  refused = 0;
  lapsed = 0;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
  }

  get workspaces(): number {
    return this.#workspaces.size;
  }

  ruleOf(slot: number): Rule | undefined {
    return this.#rules[slot];
  }

  subjectOf(slot: number): string {
    return this.#subjects[slot]!;
  }

  /** The row of this name, overflow rows included, if it is open. */
  slotOf(request: Subject, limit: RateLimit): number | undefined {
    const rule = this.#rule(request, limit);
    const subject = subjectOf(request, limit);
    if (subject !== OVERFLOW_SUBJECT) return rule?.subjects.get(subject);
    return rule !== undefined && rule.overflow >= 0 ? rule.overflow : undefined;
  }

  /**
   * The slot that counts this rule for this request, or OWN_ROW, OVERFLOW_ROW, NO_ROW. Opens nothing: a peek uses it
   * too. A subject that shared an overflow row gets an empty row once there is room: carrying the shared count over
   * would let forged ids use up the quota of every later subject.
   */
  findSlot(request: Subject, limit: RateLimit, planned: number, now: number): number {
    const rule = this.#rule(request, limit);
    const own = rule?.subjects.get(subjectOf(request, limit));
    if (own !== undefined) return own;
    const workspace = rule?.workspace ?? this.#workspaces.get(request.workspace_id);
    if (this.#hasRoom(workspace, planned, now)) return OWN_ROW;
    this.overflowed++;
    if (rule !== undefined && rule.overflow >= 0) return rule.overflow;
    const { overflowPerWorkspace, overflowInAll } = this.#bounds;
    if ((workspace?.overflow ?? 0) < overflowPerWorkspace && this.overflow < overflowInAll) return OVERFLOW_ROW;
    this.refused++;
    return NO_ROW;
  }

  /** Fast path: most calls use the rule of the call before. bench: limiter/check */
  #rule(request: Subject, limit: RateLimit): Rule | undefined {
    if (this.#last !== undefined && isRule(this.#last, request, limit)) return this.#last;
    const workspace = this.#workspaces.get(request.workspace_id);
    return workspace && (this.#last = findRule(workspace, request, limit));
  }

  /** Opens the row that `findSlot` promised. Its first units expire at `until`. */
  open(
    kind: typeof OWN_ROW | typeof OVERFLOW_ROW,
    request: Subject,
    limit: RateLimit,
    now: number,
    until: number,
  ): number {
    if (this.rows.full) this.#reap(this.#sweep, null, now);
    const workspace = this.#workspace(request.workspace_id);
    const rule = findRule(workspace, request, limit) ?? addRule(workspace, request, limit);
    const slot = this.rows.allocate();
    this.rows.until[slot] = until;
    this.#rules[slot] = rule;
    if (slot >= this.#owners.length) this.#owners = widened(this.#owners);
    this.#owners[slot] = workspace.number;
    if (kind === OWN_ROW) {
      const subject = subjectOf(request, limit);
      rule.subjects.set(subject, slot);
      this.#subjects[slot] = subject;
      workspace.counters++;
      this.counters++;
    } else {
      rule.overflow = slot;
      this.#subjects[slot] = OVERFLOW_SUBJECT;
      workspace.overflow++;
      this.overflow++;
    }
    workspace.sweep.due = Math.min(workspace.sweep.due, until);
    this.#sweep.due = Math.min(this.#sweep.due, until);
    return slot;
  }

  #workspace(id: string): Workspace {
    let workspace = this.#workspaces.get(id);
    if (workspace === undefined) {
      this.#workspaces.set(id, (workspace = newWorkspace(id, ++this.#numbered)));
    }
    return workspace;
  }

  #hasRoom(workspace: Workspace | undefined, planned: number, now: number): boolean {
    const { perWorkspace, inAll } = this.#bounds;
    if (workspace !== undefined && workspace.counters + planned >= perWorkspace) {
      this.#reap(workspace.sweep, workspace, now);
      if (workspace.counters + planned >= perWorkspace) return false;
    }
    if (this.counters + planned >= inAll) this.#reap(this.#sweep, null, now);
    return this.counters + planned < inAll;
  }

  /** Frees expired rows of one workspace or of all, up to SWEEP_MAX. */
  #reap(sweep: Sweep, mine: Workspace | null, now: number): void {
    if (now < sweep.due || now < sweep.ranAt + SWEEP_EVERY_MS) return;
    const { until, high } = this.rows;
    let due = Infinity;
    let budget = SWEEP_MAX;
    for (let slot = 0; slot < high; slot++) {
      if (mine !== null && this.#owners[slot] !== mine.number) continue;
      if (until[slot]! > now) {
        due = Math.min(due, until[slot]!);
        continue;
      }
      if (budget-- === 0) {
        sweep.due = now;
        sweep.ranAt = -Infinity;
        return;
      }
      this.#release(slot);
    }
    sweep.due = due;
    sweep.ranAt = now;
  }

  #release(slot: number): void {
    const rule = this.#rules[slot]!;
    const { workspace } = rule;
    if (rule.overflow === slot) {
      rule.overflow = -1;
      workspace.overflow--;
      this.overflow--;
    } else {
      rule.subjects.delete(this.#subjects[slot]!);
      workspace.counters--;
      this.counters--;
    }
    this.#rules[slot] = undefined;
    this.#subjects[slot] = "";
    this.rows.release(slot);
    this.lapsed++;
    if (rule.subjects.size > 0 || rule.overflow >= 0) return;
    dropRule(workspace, rule);
    this.#last = undefined;
    if (workspace.projects.size === 0) this.#workspaces.delete(workspace.id);
  }
}

function widened(column: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const wider = new Int32Array(column.length * 2);
  wider.set(column);
  return wider;
}
