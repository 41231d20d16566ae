// Locks what the jobs of a group share with other processes, before the first of them runs and in one order in every
// process: audit heads, then the names that jobs declare. Otherwise two groups that write the same rows in another
// order deadlock, because a group holds its row locks until its commit. If another process, such
// as a paused one, holds the lock of a job for longer than WAIT_MS, the job is left out: it must not delay the others.
import { lockHeads, tryLockHeads, type AuditHeads } from "./audit-ledger.ts";
import type { Driver } from "./driver.ts";
import type { QueuedJob } from "./job.ts";
import type { Tx } from "./tx.ts";

/** Longer than another process's commit takes. */
const WAIT_MS = 200;

/** In the order of the array. Locks of this kind need no row and end with the transaction. */
const LOCK = "select pg_advisory_xact_lock(hashtextextended(name, 0)) from json_array_elements_text($1::json) as name";
const TRY_LOCK = `select name, pg_try_advisory_xact_lock(hashtextextended(name, 0)) as locked
  from json_array_elements_text($1::json) as name`;

type Locks = { chains: string[]; names: string[] };
type TakenLocks = { heads: AuditHeads; missing: string[] };

export class GroupLocks {
  readonly #driver: Driver;
  /** Chains and names that the group before could not lock: they are tried without waiting while other jobs wait. */
  #stuck: ReadonlySet<string> = new Set();

  constructor(driver: Driver) {
    this.#driver = driver;
  }

  /** Call before the transaction writes anything. `blocked`: jobs that cannot run now. */
  async lock(tx: Tx, group: readonly QueuedJob[]): Promise<{ heads: AuditHeads; blocked: QueuedJob[] }> {
    const locks = locksOf(group);
    // An open transaction of SQLite excludes every other writer.
    if (this.#driver.dialect === "sqlite") return { heads: await lockHeads(tx, locks.chains), blocked: [] };
    if (locks.chains.length + locks.names.length === 0) return { heads: new Map(), blocked: [] };
    const { heads, missing } = await this.#take(tx, group, locks);
    this.#stuck = new Set(missing);
    return { heads, blocked: group.filter((pending) => needsAny(pending, this.#stuck)) };
  }

  async #take(tx: Tx, group: readonly QueuedJob[], locks: Locks): Promise<TakenLocks> {
    const waits = group.every((pending) => needsAny(pending, this.#stuck));
    const isFree = (name: string): boolean => waits || !this.#stuck.has(name);
    const { writer } = this.#driver;
    try {
      writer.execNoWait(`set local lock_timeout = ${WAIT_MS}`);
      const locking = lockHeads(tx, locks.chains.filter(isFree));
      const naming = lockNames(tx, locks.names.filter(isFree));
      naming.catch(() => {}); // the heads were sent before it: their error is the reason
      const heads = await locking;
      await naming;
      writer.execNoWait("set local lock_timeout to default");
      if (waits || this.#stuck.size === 0) return { heads, missing: [] };
      const tried = await tryAll(tx, locks, (name) => !isFree(name));
      return { heads: new Map([...heads, ...tried.heads]), missing: tried.missing };
    } catch (error) {
      if ((error as { code?: string }).code !== "55P03") throw error;
      await writer.exec("rollback");
      await this.#driver.begin();
      return tryAll(tx, locks, () => true);
    }
  }
}

function locksOf(group: readonly QueuedJob[]): Locks {
  const sorted = (all: string[]): string[] => [...new Set(all)].toSorted();
  return {
    chains: sorted(group.flatMap(({ job }) => job.chains)),
    names: sorted(group.flatMap(({ job }) => job.locks ?? [])),
  };
}

function needsAny({ job }: QueuedJob, some: ReadonlySet<string>): boolean {
  if (some.size === 0) return false;
  return job.chains.some((id) => some.has(id)) || (job.locks?.some((name) => some.has(name)) ?? false);
}

async function lockNames(tx: Tx, names: readonly string[]): Promise<void> {
  if (names.length > 0) await tx.all({ sql: LOCK, values: [JSON.stringify(names)] });
}

/** Takes the locks that are free, without waiting. */
async function tryAll(tx: Tx, { chains, names }: Locks, isWanted: (name: string) => boolean): Promise<TakenLocks> {
  const [heads, rows] = await Promise.all([
    tryLockHeads(tx, chains.filter(isWanted)),
    tx.all<{ name: string; locked: boolean }>({ sql: TRY_LOCK, values: [JSON.stringify(names.filter(isWanted))] }),
  ]);
  const missing = [
    ...chains.filter((id) => isWanted(id) && !heads.has(id)),
    ...rows.filter(({ locked }) => !locked).map(({ name }) => name),
  ];
  return { heads, missing };
}
