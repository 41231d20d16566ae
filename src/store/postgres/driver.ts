// PostgreSQL: one pipelined write connection for the group commit, a few for reads, one that listens for notifications.
// Caution: a connection lost during COMMIT leaves the outcome unknown; the group commit looks it up by audit row id.
import type { Client } from "pg";
import type { OnOutage } from "../../fairness/outage-reports.ts";
import { codeOf } from "../../platform/errors.ts";
import { atMost } from "../../platform/timing.ts";
import { isUniqueError, type Driver, type ErrorClass } from "../engine/driver.ts";
import { LEADER_LOCK } from "./advisory-locks.ts";
import { connectPostgres, dropConnection, type ConnectOptions } from "./client.ts";
import { APPLICATION_NAME } from "./connected-versions.ts";
import { isConnectionLost, READ_ONLY } from "./connection-lost.ts";
import { ConnectionOutages } from "./connection-outages.ts";
import { UNFINISHED_COPY } from "./copy-target.ts";
import { assertUsable } from "./maintenance.ts";
import { isDeadlock, isOverloaded, isStalePlan, PING, QUERY_MAX_MS, type TimedQuery } from "./query.ts";
import { PostgresReader } from "./reader.ts";
import { checkServerSettings, SELECT_SERVER_SETTINGS, type ServerSetting } from "./server-settings.ts";
import { PostgresWriter } from "./writer.ts";

const CHANNEL = "keyrack";
const TRY_LEADER_LOCK = `select pg_try_advisory_lock(${LEADER_LOCK.join(", ")}) as leads`;
const NOTIFY = "select pg_notify($1, payload) from unnest($2::text[]) as payload";
/** How often the listening connection is checked, and how long it may take to respond. */
const CHECK_MS = 1_000;
/**
 * The server ends a listening session that is silent for this long: its process is paused or out of reach, and the
 * leader's lock must not wait for the network to notice, which may take hours.
 */
const SILENT_MAX_MS = 15_000;
const SESSION = "-c statement_timeout=5s -c lock_timeout=2s -c idle_in_transaction_session_timeout=10s";

const noReport: OnOutage<unknown> = () => {};

export class PostgresDriver implements Driver {
  readonly dialect = "postgres";
  readonly readOnly = false;
  readonly reader: PostgresReader;
  readonly slowReader: PostgresReader;
  readonly writer: PostgresWriter;
  readonly #url: string;
  readonly #options: ConnectOptions;
  /** Options of the listening session. */
  readonly #listening: string;
  readonly #unfinishedCopy: boolean;
  readonly #onOutage: OnOutage<unknown>;
  readonly #outages = new ConnectionOutages();
  #listener: Client | undefined;
  #leader: Client | undefined;
  #notice: (payload: string) => void = () => {};
  /** The listening connection while a check has no response. */
  #unanswered: Client | undefined;
  #checking: NodeJS.Timeout | undefined;
  #closing = false;
  #ping: Promise<unknown> | undefined;

  constructor(
    url: string,
    poolSize: number,
    { unfinishedCopy = false, yieldsToCommands = false, silentMaxMs = SILENT_MAX_MS, onOutage = noReport } = {},
  ) {
    this.#onOutage = onOutage;
    this.#url = url;
    this.#listening = `${SESSION} -c synchronous_commit=off -c idle_session_timeout=${silentMaxMs}`;
    this.#unfinishedCopy = unfinishedCopy;
    const check = yieldsToCommands ? assertUsable : undefined;
    this.#options = { application_name: APPLICATION_NAME, keepAlive: true, options: SESSION, check };
    this.writer = new PostgresWriter(url, {
      ...this.#options,
      pipeline: true,
      onAttempt: this.#outages.attempts("writes"),
    });
    const options = `${SESSION} -c default_transaction_read_only=on`;
    const connect = { ...this.#options, options, pipeline: true, onAttempt: this.#outages.attempts("reads") };
    const slow = Math.floor(poolSize / 2);
    this.reader = new PostgresReader(url, connect, poolSize - slow);
    this.slowReader = slow === 0 ? this.reader : new PostgresReader(url, connect, slow, 1);
  }

  /** Connects and asserts the server settings that durability depends on. Returns warnings. */
  async open(): Promise<string[]> {
    await this.reconnect();
    const warnings = await this.#assertServer();
    await this.#listen();
    this.#outages.begin(this.#onOutage);
    this.#checking = setInterval(() => void this.#checkListener(), CHECK_MS).unref();
    return warnings;
  }

  async #assertServer(): Promise<string[]> {
    const warnings = checkServerSettings(await this.reader.query<ServerSetting>(SELECT_SERVER_SETTINGS));
    const [marked] = await this.reader.query<{ mark: string | null }>(
      "select obj_description(current_schema()::regnamespace, 'pg_namespace') as mark",
    );
    if (marked?.mark === UNFINISHED_COPY && !this.#unfinishedCopy)
      throw new Error("PostgreSQL holds an unfinished copy. Run keyrack db copy again.");
    return warnings;
  }

  reconnect(): Promise<void> {
    return this.writer.reconnect();
  }

  /**
   * Notices are sent on this connection too, after the commit: PostgreSQL serializes all commits that carry a NOTIFY
   * through their sync, so inside the writing transaction it would make every writer of the cluster wait.
   */
  async #listen(): Promise<void> {
    const onLost = (client: Client): void => this.#relisten(client);
    const onAttempt = this.#outages.attempts("notices");
    const connect = { ...this.#options, options: this.#listening, pipeline: true, onLost, onAttempt };
    const client = await connectPostgres(this.#url, connect);
    client.on("notification", ({ payload }) => payload && this.#notice(payload));
    const query: TimedQuery = { text: `listen ${CHANNEL}`, query_timeout: QUERY_MAX_MS };
    try {
      await client.query(query);
      if (this.#closing) throw new Error("closed while connecting");
    } catch (error) {
      client.end().catch(() => {});
      throw error;
    }
    this.#listener = client;
  }

  /** Connections may be dead without an error: a proxy that dropped them, a failover. Readers are replaced with it. */
  async #checkListener(): Promise<void> {
    const client = this.#listener;
    if (!client || this.#unanswered === client) return;
    this.#unanswered = client;
    try {
      await client.query(PING);
      this.#unanswered = undefined;
    } catch {
      this.#relisten(client);
      dropConnection(client);
      for (const reader of [this.reader, this.slowReader]) reader.replaceAll();
    }
  }

  #relisten(lost: Client): void {
    if (this.#closing || this.#listener !== lost) return;
    this.#listener = undefined;
    // Notices sent in between are lost: "resync" makes the subscribers reload everything.
    const again = (): void => {
      if (this.#closing) return;
      this.#listen().then(
        () => this.#notice("resync"),
        () => setTimeout(again, 500).unref(),
      );
    };
    setTimeout(again, 100).unref();
  }

  /** Reconnects if the connection broke while idle: no transaction was open, so no outcome is in doubt. */
  async begin(): Promise<void> {
    if (this.writer.stale) await this.reconnect();
    try {
      await this.writer.exec("begin");
    } catch (error) {
      if (!isConnectionLost(error)) throw error;
      await this.reconnect();
      await this.writer.exec("begin");
    }
  }

  /** Runs several statements at once: migrations only. */
  execScript(sql: string): Promise<void> {
    return this.writer.execScript(sql);
  }

  async sync(): Promise<void> {} // a commit is durable when COMMIT returns: synchronous_commit is asserted in open()

  pendingSync(): undefined {
    return undefined;
  }

  async checkpointIfDue(): Promise<void> {}

  /** Holds an advisory lock of the listening session: it is released with the session, however that ends. */
  async tryBecomeLeader(): Promise<boolean> {
    const client = this.#listener;
    if (!client) throw new Error("not connected");
    const text = this.#leader === client ? "select true as leads" : TRY_LEADER_LOCK;
    const query: TimedQuery = { text, query_timeout: QUERY_MAX_MS };
    const { rows } = await client.query<{ leads: boolean }>(query);
    const leads = rows[0]?.leads === true && this.#listener === client;
    this.#leader = leads ? client : undefined;
    return leads;
  }

  classifyError(error: unknown): ErrorClass {
    const code = codeOf(error);
    if (isUniqueError(error)) return "unique";
    if (code === "40001" || code === "55P03" || isDeadlock(error) || isStalePlan(error)) return "busy";
    if (code === "53100") return "full";
    if (code === READ_ONLY) return "readonly";
    if (isConnectionLost(error)) return "lost";
    return isOverloaded(error) ? "slow" : "other";
  }

  async notify(payloads: readonly string[]): Promise<void> {
    if (!this.#listener) throw new Error("not connected");
    const query: TimedQuery = { text: NOTIFY, values: [CHANNEL, payloads], query_timeout: QUERY_MAX_MS };
    await this.#listener.query(query);
  }

  onNotice(listener: (payload: string) => void): void {
    this.#notice = listener;
  }

  copyTo(): Promise<void> {
    return Promise.reject(new Error("PostgreSQL is copied with pg_dump"));
  }

  /**
   * Probes that ask at the same time share one query: anyone may send them, in any number. Those that ask after one of
   * them has waited in vain do not: its connection may hang while others work.
   */
  async ping(timeoutMs: number): Promise<void> {
    const ping = (this.#ping ??= Promise.all([this.reader.query("select 1"), this.writer.check()]));
    try {
      if (!(await atMost(timeoutMs, ping))) throw new Error("timeout");
    } finally {
      if (this.#ping === ping) this.#ping = undefined;
    }
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearInterval(this.#checking);
    await Promise.allSettled([this.reader.end(), this.slowReader.end(), this.writer.end(), this.#listener?.end()]);
  }
}
