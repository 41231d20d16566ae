// Opens a database, migrates its schema and provides the Store: reads on a reader, writes through the group commit.
import { statSync } from "node:fs";
import type { Ledger } from "../fairness/ledger.ts";
import { fail } from "../kernel/errors.ts";
import { Histogram } from "../kernel/exposition.ts";
import { VERSION } from "../platform/version.ts";
import type { Driver } from "./engine/driver.ts";
import { GroupCommit } from "./engine/group-commit.ts";
import type { Job, QueuedJob } from "./engine/job.ts";
import type { VersionChange } from "./engine/policy-versions.ts";
import type { Dialect, Query, Reader } from "./engine/tx.ts";
import { ChainVerifications, type VerifyOptions } from "./audit/chain-verifications.ts";
import { vacuumInto } from "./offline/thread-tasks.ts";
import type { SeriesQuery } from "./usage/series.ts";
import type { Task } from "./threads/tasks.ts";
import { backgroundThreads } from "./threads/pool.ts";
import type { ExportPart, ExportQuery } from "./usage/export.ts";
import type { ChainCheck, ExpectedCheckpoint } from "./audit/verify.ts";
import { READ_CONNECTED, toVersions } from "./postgres/connected-versions.ts";
import type { PostgresDriver } from "./postgres/driver.ts";
import type { OnProgress } from "./progress.ts";
import { assertMigrated, loadMigrations, migrate, planMigrations, warnOfMissingIndexes } from "./schema/migrate.ts";
import { SqliteDriver } from "./sqlite/driver.ts";
import { ReadOnlyDriver } from "./sqlite/readonly.ts";
import type { NoticeTopic, OnWritten, Store, StoreOptions } from "./store.ts";
import type { DatabaseTarget } from "./target.ts";

/** Larger files are copied page by page: VACUUM would hold a read transaction too long, and the -wal would grow. */
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
  readonly #verifier: ChainVerifications;
  readonly #options: StoreOptions;
  #closed: Promise<void> | undefined;
  /** Ends what runs in threads. */
  readonly #closing = new AbortController();
  readonly #writtenListeners: OnWritten[] = [];
  readonly #policyListeners: ((changes: VersionChange[]) => void)[] = [];
  readonly #noticeListeners = new Map<string, ((payload: string) => void)[]>();

  constructor(target: DatabaseTarget, driver: Driver, options: StoreOptions) {
    this.#verifier = new ChainVerifications(target, this.#closing.signal);
    this.#driver = driver;
    this.#options = options;
    this.target = target;
    this.readOnly = driver.readOnly;
    this.dialect = driver.dialect;
    this.read = driver.reader;
    const committed = (changes: VersionChange[], group: readonly QueuedJob[]): void => this.#committed(changes, group);
    this.#group = new GroupCommit(driver, { ...options, committed });
    driver.onNotice((text) => this.#receiveNotice(text));
  }

  write<T>(job: Job<T>): Promise<T> {
    if (this.readOnly) return Promise.reject(fail("read_only"));
    return this.#group.submit(job);
  }

  durable(): Promise<void> | undefined {
    return this.#driver.pendingSync();
  }

  onPolicyChange(listener: (changes: VersionChange[]) => void): void {
    this.#policyListeners.push(listener);
  }

  onWritten(listener: OnWritten): void {
    this.#writtenListeners.push(listener);
  }

  async notify(topic: NoticeTopic, ...payloads: string[]): Promise<void> {
    for (const payload of payloads) this.#deliverNotice(topic, payload);
    await this.#driver.notify(payloads.map((payload) => `${topic} ${payload}`));
  }

  onNotice(topic: NoticeTopic, listener: (payload: string) => void): void {
    this.#noticeListeners.set(topic, [...(this.#noticeListeners.get(topic) ?? []), listener]);
  }

  verify(workspace_id: string, expected: ExpectedCheckpoint[], options?: VerifyOptions): Promise<ChainCheck> {
    return this.#verifier.check(workspace_id, expected, options);
  }

  verifyProgress(workspace_id: string): number | null {
    return this.#verifier.progressOf(workspace_id);
  }

  readSeries(query: SeriesQuery): Promise<string | null> {
    return this.#runInBackground({ op: "series", target: this.target, query });
  }

  exportUsage(query: ExportQuery): Promise<ExportPart> {
    return this.#runInBackground({ op: "export", target: this.target, query });
  }

  readOnThread<R>(query: Query): Promise<R[]> {
    const { slowReader } = this.#driver;
    if (slowReader) return slowReader.all<R>(query);
    return this.#runInBackground({ op: "read", target: this.target, query });
  }

  /** Without waiting for verifications; requests go first. The caller bounds how many run at once. */
  #runInBackground<T>(task: Task): Promise<T> {
    return backgroundThreads.runFor(this.#closing.signal, task);
  }

  async copyTo(file: string, onProgress: OnProgress, { largeBytes = LARGE_BYTES } = {}): Promise<void> {
    const { target } = this;
    if (target.kind !== "sqlite") throw new Error("only a SQLite database can be copied as a file");
    if (statSync(target.file).size > largeBytes) await this.#driver.copyTo(file, onProgress);
    else await vacuumInto(target.file, file, onProgress);
  }

  get backlog(): number {
    return this.#group.queue.length;
  }

  get waitingWrites(): Ledger {
    return this.#group.queue.ledger;
  }

  tryBecomeLeader(): Promise<boolean> {
    return this.#driver.tryBecomeLeader();
  }

  checkpointIfIdle(): Promise<void> {
    return this.#group.checkpointIfIdle();
  }

  async buildIndexes(signal: AbortSignal): Promise<string[]> {
    if (this.target.kind === "sqlite") return [];
    const { buildMissingIndexes } = await import("./postgres/missing-indexes.ts");
    return buildMissingIndexes(this.target.url, signal);
  }

  /** One process owns a SQLite database. */
  async connectedVersions(): Promise<string[]> {
    if (this.dialect === "sqlite") return [VERSION];
    return toVersions(await this.read.all<{ name: string }>({ sql: READ_CONNECTED, values: [] }));
  }

  ping(timeoutMs: number): Promise<void> {
    return this.#driver.ping(timeoutMs);
  }

  get created(): boolean {
    return this.applied.length > 0 && this.applied.length === loadMigrations(this.dialect).length;
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await this.#group.close();
    this.#closing.abort(fail("stopping"));
    await this.#verifier.settled();
    await this.#driver.close();
  }

  #committed(changes: VersionChange[], group: readonly QueuedJob[]): void {
    const jobs = group.length;
    for (const { job, outcome, bytes } of group)
      if (job.owner && bytes && outcome && !outcome.unchanged) this.#call(this.#writtenListeners, job.owner, bytes);
    this.stats.commits++;
    this.stats.jobs += jobs;
    this.stats.largest = Math.max(this.stats.largest, jobs);
    this.stats.sizes.observe(jobs);
    if (changes.length === 0) return;
    this.#call(this.#policyListeners, changes);
    // A notification that is not sent delays the polls that wait in other processes by a second at most.
    this.#driver.notify(changes.map(({ project_id, version }) => `policy ${project_id} ${version}`)).catch(() => {});
  }

  /** A listener that throws must not fail the write, which is committed. */
  #call<A extends unknown[]>(listeners: readonly ((...args: A) => void)[], ...args: A): void {
    for (const listener of listeners) {
      try {
        listener(...args);
      } catch (error) {
        this.#options.listenerFailed?.(error);
      }
    }
  }

  /** Notices of other processes, and the harmless echo of our own. */
  #receiveNotice(text: string): void {
    const [topic = "", ...parts] = text.split(" ");
    if (topic === "policy") {
      const [project_id = "", version] = parts;
      this.#call(this.#policyListeners, [{ project_id, version: Number(version) }]);
    } else this.#deliverNotice(topic, parts.join(" "));
  }

  #deliverNotice(topic: string, payload: string): void {
    this.#call(this.#noticeListeners.get(topic) ?? [], payload);
  }
}

/** Opens a SQLite database of the current schema without ever writing to it: for reading a damaged one. */
export async function openReadOnly(target: DatabaseTarget & { kind: "sqlite" }, options: StoreOptions): Promise<Store> {
  const driver = new ReadOnlyDriver(target.file);
  try {
    const store = new OpenStore(target, driver, options);
    await assertMigrated(driver);
    return store;
  } catch (error) {
    await driver.close();
    throw error;
  }
}

/** Loads pg only when it is needed. */
async function driverFor(
  target: DatabaseTarget,
  { fatal, unfinishedCopy, yieldsToCommands, onOutage }: StoreOptions,
): Promise<SqliteDriver | PostgresDriver> {
  if (target.kind === "sqlite") return new SqliteDriver(target.file, fatal);
  const { PostgresDriver } = await import("./postgres/driver.ts");
  return new PostgresDriver(target.url, target.pool, { unfinishedCopy, yieldsToCommands, onOutage });
}

export async function openStore(target: DatabaseTarget, options: StoreOptions): Promise<Store> {
  const driver = await driverFor(target, options);
  try {
    const warnings = await driver.open();
    const store = new OpenStore(target, driver, options);
    store.warnings = warnings;
    if (options.beforeMigrate) {
      const plan = await planMigrations(driver);
      if (plan.pending.length > 0) await options.beforeMigrate(plan);
    }
    store.applied = await migrate(driver, { now: options.now(), leaveIndexes: options.leaveIndexes });
    if (options.leaveIndexes) store.warnings.push(...(await warnOfMissingIndexes(driver)));
    await driver.sync();
    return store;
  } catch (error) {
    await driver.close();
    throw error;
  }
}
