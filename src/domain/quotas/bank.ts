// The units of quotas that this process has taken: fetches blocks before they are used up, gives back what is not used,
// and everything at a clean stop. After a crash what the process held counts as spent.
import { randomUUID } from "node:crypto";
import { FairSet } from "../../fairness/fair-set.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { cellOwner, type Owner } from "../../fairness/owners.ts";
import { forChunks } from "../../kernel/chunks.ts";
import { Failure, type FailureName } from "../../kernel/errors.ts";
import type { Log } from "../../platform/log.ts";
import { atMost } from "../../platform/timing.ts";
import type { SharedLeases } from "../../ratelimit/counter.ts";
import type { Tx } from "../../store/engine/tx.ts";
import { putProcess } from "../../store/queries/quotas.ts";
import type { Store } from "../../store/store.ts";
import type { Clock } from "../core/clock.ts";
import { record } from "../core/record.ts";
import { Definitions, type Metered } from "./definitions.ts";
import { Holding, type AppliedQuota } from "./holding.ts";
import { QuotaLeases } from "./leases.ts";
import {
  balanceKey,
  balanceName,
  publishHolding,
  readBalance,
  returnUnits,
  takeOwed,
  takeUnits,
  type OwedCharge,
  type Return,
  type Stored,
  type TakeRequest,
  type Written,
} from "./takes.ts";

/** A process that has not reported for this long is dead, and its units count as spent. Every sweep reports. */
const ALIVE_MS = 4_500;
const PUBLISH_EVERY_MS = 4_000;
const RETURNED_AT_ONCE = 200; // the database refuses writes of an owner that has too many waiting
const STOP_MS = 3_000;
/** Refusals with which nothing was written. */
const UNWRITTEN: ReadonlySet<FailureName> = new Set<FailureName>(["share_full", "storage_full", "read_only"]);
/** Topics of notifications: a lease that another process returned, balances or grants of which to hold nothing. */
export const RETURNED = "quota_lease";
const RECALLED = "quota_balance";

type BankOptions = Record<"definitions" | "balances" | "leases" | "returns", Ledger> & {
  store: Store;
  clock: Clock;
  log: Log;
  shared?: SharedLeases | null;
};

export class QuotaBank {
  readonly process_id = randomUUID();
  readonly definitions: Definitions;
  readonly leases: QuotaLeases;
  readonly metrics = { denied: 0, taken: 0, empty: 0, returned: 0, failed: 0 };
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #holdings = new Map<string, Holding>();
  readonly #fair: FairSet<Holding>;
  /** Dropped holdings whose units the database had no room to take back. A displaced one's units count as spent. */
  readonly #refused: FairSet<Holding>;
  #publishedAt = 0;

  constructor({ store, clock, log, definitions, balances, leases, returns, shared = null }: BankOptions) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.definitions = new Definitions(definitions, clock);
    this.leases = new QuotaLeases(leases, shared);
    store.onNotice(RETURNED, (lease_id) => this.leases.forget(lease_id));
    store.onNotice(RECALLED, (name) => void this.#giveBackSpending(name));
    this.#fair = new FairSet<Holding>(balances, (holding) => void this.#displace(holding), { replacesOwn: () => true });
    this.#refused = new FairSet<Holding>(returns, () => {});
  }

  get size(): number {
    return this.#holdings.size;
  }

  /** What this process holds of a balance, if anything. */
  find(metered: Metered): Holding | undefined {
    return this.#holdings.get(balanceName(metered));
  }

  /** What this process holds of each balance that spends the grants of this name. */
  *spending(grants: string): Iterable<Holding> {
    for (const [name, holding] of this.#holdings) if (name.startsWith(grants)) yield holding;
  }

  open(owner: Owner, workspace_id: string, metered: Metered): Holding {
    const known = this.find(metered);
    if (known) return known;
    const payer = cellOwner(workspace_id, metered.env, owner.group);
    const holding = new Holding({ metered, workspace_id, owner: payer, now: this.#clock.now() });
    holding.isTransient = !this.#fair.add(owner, holding);
    if (!holding.isTransient) this.#holdings.set(balanceName(metered), holding);
    return holding;
  }

  /** Takes what waiting requests ask for; this one needs `units`. Check `holding.availability` afterwards. */
  fetch(one: AppliedQuota, units: number): Promise<void> {
    one.holding.pending ??= this.#transact(one.holding, () => this.#take(one, units));
    return one.holding.pending;
  }

  /** Fetches the next block while the last quarter is being spent, so that no check waits for it. */
  prefetch(one: AppliedQuota): void {
    const { holding, metered } = one;
    if (holding.pending || holding.isTransient || !holding.isLow(metered.quota)) return;
    this.fetch(one, 0).catch((error) => this.#log.warn("no quota block was fetched", { error: String(error) }));
  }

  /** Charges units that were admitted without asking, even beyond zero: nothing may be held of what they use up. */
  async chargeOwed({ holding, metered }: AppliedQuota, owed: OwedCharge): Promise<void> {
    while (holding.pending) await holding.pending.catch(() => {});
    holding.giveUpAll();
    const returns = holding.takeReturns(this.#clock.now());
    holding.pending = this.#transact(holding, async () => {
      const { stored } = await this.#write(holding, returns, async (tx, request) => {
        return { parts: [], stored: await takeOwed(tx, { ...request, metered }, owed) };
      });
      holding.know(stored, this.#clock.now());
      if (stored.fromAmount > metered.quota.amount) void this.#recallOthers(balanceName(metered));
    });
    await holding.pending;
  }

  /** Units of these grants were added: counts them in the next response. */
  async readGrants(grants: string): Promise<void> {
    for (const holding of this.spending(grants)) {
      await holding.pending?.catch(() => {}); // it may have read the grants before
      holding.forget();
      await this.readBalance(holding).catch(() => {}); // a later request reads it
    }
  }

  /** Reads the balance without taking anything. */
  async readBalance(holding: Holding): Promise<void> {
    const { metered, transactions } = holding;
    const request = { metered, process_id: this.process_id, now: this.#clock.now() };
    const stored = await readBalance(this.#store.read, request);
    if (holding.transactions === transactions && !holding.pending) holding.know(stored, this.#clock.now());
  }

  /** Gives back what is unused for 10 s or has ended, and reports to other processes what this one holds. */
  async sweep(): Promise<void> {
    const now = this.#clock.now();
    this.leases.expire(now);
    const publishes = this.#store.dialect === "postgres" && now - this.#publishedAt >= PUBLISH_EVERY_MS;
    if (publishes) this.#publishedAt = now;
    const alive = { process_id: this.process_id, expires_at: now + ALIVE_MS };
    if (this.#store.dialect === "postgres" && this.#holdings.size > 0)
      await record({ store: this.#store }, (tx) => putProcess.run(tx, alive)).catch(() => {}); // the next sweep tries again
    const due = [...this.#holdings.values()].filter((holding) => !holding.pending && holding.isDue(now, publishes));
    await forChunks(due, RETURNED_AT_ONCE, (holding) => this.#settle(holding, now));
    const refused = [...this.#refused];
    for (const holding of refused) this.#refused.delete(holding);
    await forChunks(refused, RETURNED_AT_ONCE, (holding) => this.giveBack(holding));
  }

  /** At a clean stop nothing is lost. */
  async close(): Promise<void> {
    const all = [...this.#holdings.values(), ...this.#refused];
    this.#holdings.clear();
    const returned = forChunks(all, RETURNED_AT_ONCE, (holding) => this.giveBack(holding));
    await atMost(STOP_MS, returned);
  }

  /** Gives everything back that is not spent, or only what waits to be given back. */
  async giveBack(holding: Holding, all = true): Promise<void> {
    while (holding.pending) await holding.pending.catch(() => {});
    if (all) holding.giveUpAll();
    const returns = holding.takeReturns(this.#clock.now());
    if (returns.length === 0) return;
    holding.pending = this.#transact(holding, () => this.#return(holding, returns));
    await holding.pending.catch(() => {});
  }

  /** Makes every process give back what it holds of balances that spend these grants, and waits for this one. */
  async recall(grants: string): Promise<void> {
    await this.#giveBackSpending(grants);
    await this.#recallOthers(grants);
  }

  async #recallOthers(balances: string): Promise<void> {
    await this.#store.notify(RECALLED, balances).catch(() => {}); // what is unused goes back in 10 s
  }

  async #giveBackSpending(grants: string): Promise<void> {
    for (const holding of this.spending(grants)) await this.giveBack(holding);
  }

  async #settle(holding: Holding, now: number): Promise<void> {
    if (holding.pending) return; // since the sweep began
    const isUnused = holding.isUnused(now);
    if (isUnused) holding.giveUpAll();
    const returns = holding.takeReturns(now);
    if (returns.length > 0 || holding.isUnpublished) {
      holding.pending = this.#transact(holding, () => this.#return(holding, returns));
      return holding.pending.catch(() => {}); // a request may wait for it: the next sweep drops the holding
    }
    const isEmpty = holding.unspent === 0 && holding.held === 0 && !holding.hasReturns;
    if (!isUnused || !isEmpty) return;
    this.#forget(holding);
    this.#fair.delete(holding);
  }

  #displace(holding: Holding): Promise<void> {
    this.#forget(holding);
    return this.giveBack(holding);
  }

  /** A request that still uses it gives back what it takes. */
  #forget(holding: Holding): void {
    if (this.find(holding.metered) === holding) this.#holdings.delete(balanceName(holding.metered));
    holding.isTransient = true;
  }

  /** Runs the one transaction that a holding may have at a time. */
  async #transact(holding: Holding, work: () => Promise<void>): Promise<void> {
    holding.transactions++;
    try {
      await work();
    } catch (error) {
      this.metrics.failed++;
      throw error;
    } finally {
      holding.pending = null;
    }
  }

  async #take({ holding, metered }: AppliedQuota, units: number): Promise<void> {
    // Otherwise it would not help: another key that shares the balance can spend them, and would fetch them again.
    if (holding.remaining(metered.quota, this.#clock.now()) >= units) holding.giveUpBeyond(metered.quota);
    const returns = holding.takeReturns(this.#clock.now());
    const taken = await this.#write(holding, returns, (tx, request) => {
      const [demands, spendable] = [[...holding.demands], holding.spendable(metered.quota)];
      return takeUnits(tx, { ...request, metered, demands, spendable });
    });
    holding.add(taken, this.#clock.now());
    this.metrics[taken.parts.length > 0 ? "taken" : "empty"]++;
  }

  async #return(holding: Holding, returns: readonly Return[]): Promise<void> {
    if (returns.length > 0) this.metrics.returned++;
    const { stored } = await this.#write(holding, returns, async (_tx, _request, stored) => ({ parts: [], stored }));
    if (stored) holding.know(stored, this.#clock.now());
  }

  /** Returns units and does `work` in one transaction. `after`: the balance with the units, null if there were none. */
  async #write<T extends Written>(
    holding: Holding,
    returns: readonly Return[],
    work: (tx: Tx, request: Omit<TakeRequest, "demands" | "spendable">, after: Stored | null) => Promise<T>,
  ): Promise<T> {
    const { metered, workspace_id, owner } = holding;
    const now = this.#clock.now();
    const request = { metered, workspace_id, process_id: this.process_id, now };
    const write = async (tx: Tx): Promise<T> => {
      const after = returns.length > 0 ? await returnUnits(tx, request, returns) : null;
      const done = await work(tx, request, after);
      // A lease that comes back may bring a holding that was dropped: another one holds the balance by now.
      await publishHolding(tx, this.#rowOf(this.find(metered) ?? holding, done, now));
      return done;
    };
    try {
      return await record({ store: this.#store }, write, { owner, locks: [`quota/${balanceName(metered)}`] });
    } catch (error) {
      holding.isUnpublished = true;
      // Any other error leaves open whether it was committed.
      if (error instanceof Failure && UNWRITTEN.has(error.failure)) this.#putBack(holding, returns);
      throw error;
    }
  }

  /** The next sweep tries again. */
  #putBack(holding: Holding, returns: readonly Return[]): void {
    holding.putBack(returns);
    if (returns.length > 0 && holding.isTransient) this.#refused.add(holding.owner, holding);
  }

  #rowOf(holding: Holding, written: Written, now: number) {
    const { process_id } = this;
    return { ...balanceKey(holding.metered), ...holding.publish(written, now), process_id, expires_at: now + ALIVE_MS };
  }
}
