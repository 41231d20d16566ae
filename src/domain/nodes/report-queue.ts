// Reports of nodes that wait to be written, the newest of each node. At the bound the largest owner's oldest is
// dropped. Owners take turns: however many reports of one wait, another's are in the next batch.
import { FairQueue } from "../../fairness/fair-queue.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import type { Env } from "../../kernel/credentials.ts";
import type { NodeReport } from "./reports.ts";
import { envOf, envsOfHolders } from "./traits.ts";

/** `number`: position in the order of arrival. */
export type PendingReport = { readonly key: string; readonly number: number; readonly report: NodeReport };

export class ReportQueue {
  readonly #pending = new Map<string, PendingReport>();
  readonly #order: FairQueue<string>;
  /** By project and environment: the numbers of reports that wait or are being written, oldest first. */
  readonly #unsettled = new Map<string, Set<number>>();
  /** The number of the newest report. */
  newest = 0;

  /** `ledger` bounds the reports that wait. */
  constructor(ledger: Ledger, onDropped: (key: string, report: NodeReport) => void) {
    const evicted = (key: string): void => {
      const dropped = this.#pending.get(key) as PendingReport;
      this.#pending.delete(key);
      this.settle([dropped]);
      onDropped(key, dropped.report);
    };
    this.#order = new FairQueue({ ledger, evicted });
  }

  get size(): number {
    return this.#pending.size;
  }

  has(key: string): boolean {
    return this.#pending.has(key);
  }

  /** False if the owner is at its bound. A node's report replaces its earlier one. */
  add(key: string, report: NodeReport): boolean {
    const before = this.#pending.get(key);
    if (!before && !this.#order.push(report.owner, key)) return false;
    const version = report.version ?? (report.leaving ? null : (before?.report.version ?? null));
    const number = before?.number ?? this.#nextNumber(report);
    this.#pending.set(key, { key, number, report: { ...report, version } });
    return true;
  }

  #nextNumber(report: NodeReport): number {
    const number = ++this.newest;
    const unsettled = this.#unsettled.get(scopeKey(report)) ?? new Set();
    this.#unsettled.set(scopeKey(report), unsettled.add(number));
    return number;
  }

  /** Takes the next reports. The caller passes them to `settle` once they are written or lost. */
  take(max: number): PendingReport[] {
    const batch = this.#order.take(max).map((key) => this.#pending.get(key) as PendingReport);
    for (const { key } of batch) this.#pending.delete(key);
    return batch;
  }

  /** Marks reports as written or lost. */
  settle(batch: readonly PendingReport[]): void {
    for (const { number, report } of batch) {
      const unsettled = this.#unsettled.get(scopeKey(report));
      if (unsettled?.delete(number) && unsettled.size === 0) this.#unsettled.delete(scopeKey(report));
    }
  }

  /** Whether reports up to a number are settled, of a project's nodes with keys of this environment, or of either. */
  isSettled(project_id: string, env: Env | null, upTo: number): boolean {
    return scopeKeys(project_id, env).every((key) => {
      const [oldest] = this.#unsettled.get(key) ?? [];
      return oldest === undefined || oldest > upTo;
    });
  }
}

/** A project and an environment. */
export const scopeKey = ({ project_id, env_scope }: Pick<NodeReport, "project_id" | "env_scope">): string =>
  `${project_id} ${envOf(env_scope)}`;

/** The scope keys of all nodes that may hold keys of this environment, or of either if it is null. */
export function scopeKeys(project_id: string, env: Env | null): string[] {
  return envsOfHolders(env).map((counted) => `${project_id} ${counted}`);
}
