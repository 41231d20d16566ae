// Approximately how much each environment of a workspace, and each person outside of one, writes in a UTC day: when it
// has used up its share its writes are refused, and when the disk is almost full those that wrote much are refused
// before all others, then everyone, so that there is room for what ends a credential, which is never refused here. The
// sums of environments are in the database; between two flushes a process knows only its own part of them.
import { statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { Settings } from "../../config/settings.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { cellOwner, TEST_PART, type CellOwner, type Owner } from "../../fairness/owners.ts";
import { DAY_MS, utcDay } from "../../kernel/durations.ts";
import { fail, Failure } from "../../kernel/errors.ts";
import { MIB } from "../../kernel/sizes.ts";
import { addWrittenBytes, reapWrittenBytes, writtenSince } from "../../store/queries/written-bytes.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { Store } from "../../store/store.ts";
import { limitRefusal } from "./throttles.ts";
import type { Clock } from "../core/clock.ts";
import { reap, record } from "../core/record.ts";

/** What a person may write in a day without an active workspace. Only counted in the process. */
const PERSON_MIB = 64;
/** Bytes written in the last 24 hours, up to which an owner is not refused while others are. */
const MUCH_BYTES = 64 * MIB;
/** With less than this on the disk, nothing more is stored. */
export const LAST_BYTES = 200 * MIB;
/** With less than this part of the disk free, the server reports itself as degraded. */
const LOW_PART = 0.05;

/** In bytes. */
type DiskSpace = { free: number; total: number };

type Options = {
  store: Store;
  clock: Clock;
  settings: Pick<Settings, "throttle" | "writes_mb_per_day" | "disk_reserve_mb">;
  ledger: Ledger;
  /** For tests. */
  diskSpace?: () => Promise<DiskSpace>;
};

const NOT_WATCHED: DiskSpace = { free: Number.POSITIVE_INFINITY, total: 0 };

type UnsavedBytes = { readonly owner: CellOwner; readonly day: number; bytes: number };

export class WrittenBytes {
  readonly #options: Options;
  readonly #diskSpace: () => Promise<DiskSpace>;
  /** Bytes not yet in the database, by owner and day. */
  #pending = new Map<string, UnsavedBytes>();
  /** The sums of the day before. */
  #yesterday = new Map<string, number>();
  #day: number;
  #disk: DiskSpace = NOT_WATCHED;

  constructor(options: Options) {
    this.#options = options;
    this.#diskSpace = options.diskSpace ?? (() => diskSpaceOf(options.store));
    this.#day = utcDay(options.clock.now());
    options.store.onWritten((owner, bytes) => this.add(owner, bytes));
  }

  /** Reads the sums of today and yesterday. */
  async load(): Promise<void> {
    const { store, ledger } = this.#options;
    for (const { workspace_id, env, day, bytes } of await writtenSince.all(store.read, { day: this.#day - 1 })) {
      const owner = cellOwner(workspace_id, env);
      if (day === this.#day) ledger.take(owner, bytes);
      else this.#yesterday.set(owner.id, bytes);
    }
  }

  /** Measured by the last flush. Also when refusals are turned off. */
  get isDiskLow(): boolean {
    const { free, total } = this.#disk;
    return free < LAST_BYTES || free < total * LOW_PART;
  }

  /** Throws unless the owner may write. */
  requireRoom(owner: Owner): void {
    const refusal = this.#refusal(owner);
    if (!refusal) return;
    if (isCounted(owner)) this.#options.ledger.countRefusal(owner);
    throw refusal;
  }

  /** For what is stored only if the owner may write, and done in any case. */
  hasRoom(owner: Owner): boolean {
    return this.#refusal(owner) === null;
  }

  #refusal(owner: Owner): Failure | null {
    const { ledger, settings, clock } = this.#options;
    const { free } = this.#disk;
    if (free < LAST_BYTES && settings.disk_reserve_mb > 0) return fail("storage_full");
    if (!isCounted(owner)) return null;
    this.#rollOver();
    const used = ledger.usedBy(owner);
    const limit = shareOf(owner, settings.writes_mb_per_day);
    if (settings.throttle && limit > 0 && used >= limit * MIB) {
      const resetMs = DAY_MS - (clock.now() % DAY_MS);
      const name = owner.kind === "cell" ? "share_spent" : "rate_limited";
      return limitRefusal(name, { id: "writes", limit, windowMs: DAY_MS, remaining: 0, resetMs });
    }
    const leftOfDay = 1 - (clock.now() % DAY_MS) / DAY_MS; // as if yesterday's bytes had been written evenly
    const wroteMuch = used + (this.#yesterday.get(owner.id) ?? 0) * leftOfDay > MUCH_BYTES;
    return free < settings.disk_reserve_mb * MIB && wroteMuch ? fail("storage_full") : null;
  }

  /**
   * Adds what this process has written and reads what all processes have. What could not be added is retried next time.
   */
  async flush(): Promise<void> {
    this.#disk = await this.#diskSpace();
    const flushed = [...this.#pending.values()];
    this.#pending = new Map();
    if (flushed.length === 0) return;
    const add = async (tx: Tx): Promise<number[]> => {
      const rows: number[] = [];
      for (const { owner, day, bytes } of flushed) {
        const { workspace_id, env } = owner;
        rows.push((await addWrittenBytes.first(tx, { workspace_id, env, day, bytes }))?.bytes ?? 0);
      }
      return rows;
    };
    const sums = await record(this.#options, add, { locks: ["written_bytes"] }).catch((error: unknown) => {
      // On PostgreSQL the outcome may be unknown: what is added twice is refused to its owner.
      const isAbsent = this.#options.store.dialect !== "postgres" || isRefused(error);
      if (isAbsent) for (const { owner, day, bytes } of flushed) this.#pendingOf(owner, day).bytes += bytes;
      throw error;
    });
    const { ledger } = this.#options;
    for (const [i, { owner, day }] of flushed.entries()) {
      if (day !== this.#day) continue;
      const others = (sums[i] ?? 0) + (this.#pending.get(pendingKey(owner, day))?.bytes ?? 0) - ledger.usedBy(owner);
      if (others > 0) ledger.take(owner, others);
    }
  }

  /** Deletes sums that are of no use any more. */
  reap(): Promise<number> {
    return this.#deleteBefore(utcDay(this.#options.clock.now()) - 2);
  }

  /** Resets every owner: the sums of a restored database are from another time. */
  async reset(): Promise<void> {
    await this.#deleteBefore(Number.MAX_SAFE_INTEGER);
    this.#pending.clear();
    this.#yesterday.clear();
    this.#releaseAll();
  }

  #deleteBefore(before: number): Promise<number> {
    return reap(this.#options, reapWrittenBytes, { before });
  }

  /** Counts what was written; the store calls it for every change that has an owner. */
  add(owner: Owner, bytes: number): void {
    if (!isCounted(owner)) return;
    this.#rollOver();
    this.#options.ledger.take(owner, bytes);
    if (owner.kind === "cell") this.#pendingOf(owner, this.#day).bytes += bytes;
  }

  #pendingOf(owner: CellOwner, day: number): UnsavedBytes {
    const key = pendingKey(owner, day);
    const pending = this.#pending.get(key) ?? { owner, day, bytes: 0 };
    this.#pending.set(key, pending);
    return pending;
  }

  /** Resets every owner at midnight UTC. */
  #rollOver(): void {
    const day = utcDay(this.#options.clock.now());
    if (day === this.#day) return;
    const isNext = day === this.#day + 1;
    this.#day = day;
    this.#yesterday = new Map();
    for (const { owner, used } of this.#options.ledger.owners()) {
      if (isNext && used > 0) this.#yesterday.set(owner.id, used);
    }
    this.#releaseAll();
  }

  #releaseAll(): void {
    const { ledger } = this.#options;
    for (const { owner, used } of ledger.owners()) ledger.release(owner, used);
  }
}

const isCounted = ({ kind }: Owner): boolean => kind === "cell" || kind === "person";

/** In MiB; 0: unlimited. */
function shareOf(owner: Owner, ofCell: number): number {
  if (owner.kind !== "cell") return Math.min(ofCell, PERSON_MIB);
  return owner.env === "test" ? ofCell * TEST_PART : ofCell;
}

const pendingKey = ({ id }: Owner, day: number): string => `${id} ${day}`;

/** PostgreSQL watches its own disk. */
async function diskSpaceOf({ target }: Store): Promise<DiskSpace> {
  if (target.kind !== "sqlite") return NOT_WATCHED;
  const { bavail, blocks, bsize } = await statfs(dirname(target.file));
  return { free: bavail * bsize, total: blocks * bsize };
}

/** Whether the write was refused before it began. */
function isRefused(error: unknown): boolean {
  return error instanceof Failure && (error.failure === "share_full" || error.failure === "stopping");
}
