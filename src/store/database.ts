// Opens a database, brings its schema up to date and hands out its two doors: reads, and the group commit.
import { statSync } from "node:fs";
import { fail } from "../kernel/errors.ts";
import { Histogram } from "../kernel/exposition.ts";
import type { Driver } from "./engine/driver.ts";
import { copySqlite } from "./offline/inspect.ts";
import type { OnProgress } from "./progress.ts";
import { GroupCommit } from "./engine/group-commit.ts";
import type { Job } from "./engine/job.ts";
import { assertMigrated, migrate } from "./schema/migrate.ts";
import type { PostgresDriver } from "./postgres/driver.ts";
import { SqliteDriver } from "./sqlite/driver.ts";
import { ReadOnlyDriver } from "./sqlite/readonly.ts";
import type { Dialect, Reader } from "./engine/statement.ts";
import { Verifier, type ChainCheck, type Expected } from "./offline/verify-pool.ts";
import type { Bumped } from "./engine/policy-versions.ts";
import type { Store, StoreEvents } from "./store.ts";
import type { DatabaseTarget } from "./target.ts";

/** Above this VACUUM would hold its read transaction, and the -wal with it, for too long: pages are copied instead. */
const LARGE_BYTES = 5 * 1024 ** 3;

class OpenStore implements Store {
  readonly dialect: Dialect;
  readonly target: DatabaseTarget;
  readonly read: Reader;
  readonly stats = { commits: 0, jobs: 0, largest: 0, sizes: new Histogram([1, 2, 5, 10, 20, 50, 100, 200]) };
  readonly readOnly: boolean;
  applied: string[] = [];
  warnings: string[] = [];
  readonly #driver: Driver;
  readonly #group: GroupCommit;
  readonly #verifier: Verifier;
  readonly #events: StoreEvents;
  #closing: Promise<void> | undefined;
  readonly #bumpListeners: ((bumped: Bumped[]) => void)[] = [];
  readonly #noticeListeners = new Map<string, ((payload: string) => void)[]>();

  constructor(target: DatabaseTarget, driver: Driver, events: StoreEvents) {
    this.#verifier = new Verifier(target);
    this.#driver = driver;
    this.#events = events;
    this.target = target;
    this.readOnly = driver instanceof ReadOnlyDriver;
    this.dialect = driver.dialect;
    this.read = driver.reader;
    this.#group = new GroupCommit(driver, {
      now: events.now,
      fatal: events.fatal,
      committed: (bumped, size) => this.#committed(bumped, size),
    });
    driver.onNotice((text) => this.#heard(text));
  }

  write<T>(job: Job<T>): Promise<T> {
    if (this.readOnly) return Promise.reject(fail("read_only"));
    return this.#group.submit(job);
  }

  durable(): Promise<void> | undefined {
    return this.#driver.unsynced();
  }

  onBump(listener: (bumped: Bumped[]) => void): void {
    this.#bumpListeners.push(listener);
  }

  async notify(topic: string, payload: string): Promise<void> {
    this.#tell(topic, payload);
    if (this.dialect === "postgres") {
      await this.#group.submit({
        chains: [],
        work: async () => {
          await this.#driver.notify(`${topic} ${payload}`);
          return { value: undefined, entries: [] };
        },
      });
    }
  }

  onNotice(topic: string, listener: (payload: string) => void): void {
    this.#noticeListeners.set(topic, [...(this.#noticeListeners.get(topic) ?? []), listener]);
  }

  verify(workspace_id: string, expected: Expected[]): Promise<ChainCheck> {
    return this.#verifier.check(workspace_id, expected);
  }

  async copyTo(file: string, tell: OnProgress, { largeBytes = LARGE_BYTES } = {}): Promise<void> {
    const { target } = this;
    if (target.kind !== "sqlite") throw new Error("only SQLite is copied as a file");
    if (statSync(target.file).size > largeBytes) await this.#driver.copyTo(file, tell);
    else await copySqlite(target.file, file, tell);
  }

  get backlog(): number {
    return this.#group.backlog;
  }

  tryBecomeLeader(): Promise<boolean> {
    return this.#driver.tryBecomeLeader();
  }

  checkpointIfIdle(): Promise<void> {
    return this.#group.checkpointIfIdle();
  }

  ping(timeoutMs: number): Promise<void> {
    return this.#driver.ping(timeoutMs);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#group.close();
    await this.#verifier.close();
    await this.#driver.close();
  }

  #committed(bumped: Bumped[], size: number): void {
    this.stats.commits++;
    this.stats.jobs += size;
    this.stats.largest = Math.max(this.stats.largest, size);
    this.stats.sizes.observe(size);
    if (bumped.length > 0) this.#call(this.#bumpListeners, bumped);
  }

  #call<T>(listeners: readonly ((word: T) => void)[], word: T): void {
    for (const listener of listeners) {
      try {
        listener(word);
      } catch (error) {
        this.#events.listenerFailed?.(error);
      }
    }
  }

  /** Words from other processes (and the echo of our own, which does no harm). */
  #heard(text: string): void {
    const [topic = "", ...rest] = text.split(" ");
    if (topic === "policy") {
      const [project_id = "", version] = rest;
      this.#call(this.#bumpListeners, [{ project_id, version: Number(version) }]);
    } else this.#tell(topic, rest.join(" "));
  }

  #tell(topic: string, payload: string): void {
    this.#call(this.#noticeListeners.get(topic) ?? [], payload);
  }
}

/** A store that writes nothing, on a SQLite database of this very schema: for looking at one that is damaged. */
export async function openReadOnly(target: DatabaseTarget & { kind: "sqlite" }, events: StoreEvents): Promise<Store> {
  const driver = new ReadOnlyDriver(target.file);
  try {
    const store = new OpenStore(target, driver, events);
    await assertMigrated(driver);
    return store;
  } catch (error) {
    await driver.close();
    throw error;
  }
}

/** Most instances never load pg. */
async function driverFor(target: DatabaseTarget, { fatal }: StoreEvents): Promise<SqliteDriver | PostgresDriver> {
  if (target.kind === "sqlite") return new SqliteDriver(target.file, fatal);
  const { PostgresDriver } = await import("./postgres/driver.ts");
  return new PostgresDriver(target.url, target.pool);
}

export async function openStore(target: DatabaseTarget, events: StoreEvents): Promise<Store> {
  const driver = await driverFor(target, events);
  try {
    const warnings = await driver.open();
    const store = new OpenStore(target, driver, events);
    store.warnings = warnings;
    store.applied = await migrate(driver, (sql) => driver.script(sql), events.now());
    await driver.sync();
    return store;
  } catch (error) {
    await driver.close();
    throw error;
  }
}
