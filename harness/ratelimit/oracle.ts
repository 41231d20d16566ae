// The exact sliding log and the fixed window count: a perfect limiter with unbounded memory. Judges each decision:
// nothing over the limit in any true window, and no denial that the window and a 60th of it do not explain.
import type { CheckRequest, Verdict } from "../../src/ratelimit/counter.ts";
import type { RateLimit } from "../../src/kernel/ratelimit/rule.ts";

/** Units by time, and the sum of those no older than a span. Times never decrease. */
class Log {
  readonly #times: number[] = [];
  readonly #units: number[] = [];
  #from = 0;
  #sum = 0;

  add(t: number, units: number): void {
    this.#times.push(t);
    this.#units.push(units);
    this.#sum += units;
  }

  /** Drops what is older than `oldest` and returns the sum of the others. */
  since(oldest: number): number {
    while (this.#from < this.#times.length && this.#times[this.#from]! < oldest)
      this.#sum -= this.#units[this.#from++]!;
    return this.#sum;
  }
}

export class Oracle {
  readonly #logs = new Map<string, { exact: Log; wide: Log }>();
  /** The first few violations; empty when every decision was right. */
  readonly wrong: string[] = [];
  admitted = 0;
  denied = 0;

  judge(t: number, request: CheckRequest, verdict: Verdict): void {
    const need = Math.max(1, request.cost);
    let explained = false;
    for (const [i, rule] of request.limits.entries()) {
      const { exact, wide } = this.#log(request, rule);
      const [least, most] = used(rule, t, exact, wide);
      const { remaining } = verdict.policies[i]!;
      const charged = verdict.allowed ? request.cost : 0;
      if (verdict.allowed && least + need > rule.limit) this.#report(`over-admission at ${t}`, request, verdict);
      if (remaining > Math.max(0, rule.limit - least - charged))
        this.#report(`remaining too high at ${t}`, request, verdict);
      if (remaining < rule.limit - most - charged) this.#report(`remaining too low at ${t}`, request, verdict);
      if (most + need > rule.limit) explained = true;
      if (charged > 0) {
        exact.add(t, charged);
        wide.add(t, charged);
      }
    }
    if (!verdict.allowed && !explained) this.#report(`unexplained denial at ${t}`, request, verdict);
    if (verdict.allowed) this.admitted++;
    else this.denied++;
  }

  #log(request: CheckRequest, rule: RateLimit): { exact: Log; wide: Log } {
    const subject = rule.scope === "key" ? request.key_id : request.tenant_id;
    const name = `${request.workspace_id} ${rule.id} ${subject}`;
    let log = this.#logs.get(name);
    if (log === undefined) this.#logs.set(name, (log = { exact: new Log(), wide: new Log() }));
    return log;
  }

  #report(what: string, request: CheckRequest, verdict: Verdict): void {
    if (this.wrong.length < 5) this.wrong.push(`${what}: ${JSON.stringify(request)} → ${JSON.stringify(verdict)}`);
  }
}

/**
 * At least and at most how many units count at `t`. Fixed windows are exact. A true window is closed here, both ends
 * counting, which is stricter than any reading of the promise; the wide one is open, as the bound says "under".
 */
function used(rule: RateLimit, t: number, exact: Log, wide: Log): [least: number, most: number] {
  if (rule.algorithm === "fixed") {
    const sum = exact.since(Math.floor(t / rule.window_ms) * rule.window_ms);
    return [sum, sum];
  }
  return [exact.since(t - rule.window_ms), wide.since(t - rule.window_ms - rule.window_ms / 60 + 1e-6)];
}
