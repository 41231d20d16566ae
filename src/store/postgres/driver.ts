// PostgreSQL: one pipelined write connection for the group commit, a few for reads, one connection that listens.
// The trap: a connection lost during COMMIT leaves the outcome unknown; the group commit looks it up by audit id.
import { Client, TypeOverrides, type ClientConfig } from "pg";
import { isUniqueError, type Driver, type ErrorClass, type Writer } from "../engine/driver.ts";
import { isLost } from "./connection-lost.ts";
import { UNFINISHED } from "./copy-target.ts";
import { ANSWER_MAX_MS, isOverloaded, toConfig, type TimedQuery } from "./query.ts";
import { PgReader } from "./reader.ts";
import { pieces } from "../engine/bulk-insert.ts";
import { widen } from "./multi-row.ts";
import type { Query, Row } from "../engine/statement.ts";

const INT8 = 20;
const VERSION_MIN = 150_000;
const CHANNEL = "keyrack";
/** The two halves of the advisory lock that the leader holds. */
export const LEADER_LOCK = [1_263_682_379, 1] as const;
const TAKE_LEAD = `select pg_try_advisory_lock(${LEADER_LOCK.join(", ")}) as leads`;
const SESSION = "-c statement_timeout=5s -c lock_timeout=2s -c idle_in_transaction_session_timeout=10s";

// Our integers stay far below 2^53, so int8 may be a number.
const types = new TypeOverrides();
types.setTypeParser(INT8, (text) => Number(text));

class PgWriter implements Writer {
  client: Client | undefined;

  get #live(): Client {
    if (!this.client) throw Object.assign(new Error("not connected"), { code: "08003" });
    return this.client;
  }

  async all<R>(query: Query): Promise<R[]> {
    return (await this.#live.query(toConfig(query))).rows as R[];
  }

  async first<R>(query: Query): Promise<R | undefined> {
    return (await this.all<R>(query))[0];
  }

  async run(query: Query): Promise<number> {
    return (await this.#live.query(toConfig(query))).rowCount ?? 0;
  }

  /** Each statement costs the server more than the row it inserts. */
  async insertMany(sql: string, rows: readonly Row[]): Promise<void> {
    const sent = pieces(rows.length).map(({ from, to }) =>
      this.run({ sql: widen(sql, to - from), values: rows.slice(from, to).flat() }),
    );
    await Promise.all(sent);
  }

  async exec(sql: string): Promise<void> {
    const word: TimedQuery = { text: sql, query_timeout: ANSWER_MAX_MS };
    const { command } = await this.#live.query(word);
    // A COMMIT of a transaction in which a statement failed is answered ROLLBACK, and not as an error.
    if (sql === "commit" && command !== "COMMIT") throw new Error("PostgreSQL rolled the transaction back at COMMIT");
  }

  /** Several statements, however long they take. */
  async script(sql: string): Promise<void> {
    await this.#live.query(sql);
  }

  post(sql: string): void {
    this.#live.query(sql).catch(() => {});
  }
}

export class PostgresDriver implements Driver {
  readonly dialect = "postgres";
  readonly sideBySide = true;
  readonly exclusive = false;
  readonly reader: PgReader;
  readonly writer: PgWriter = new PgWriter();
  readonly #config: ClientConfig;
  #listener: Client | undefined;
  #leader: Client | undefined;
  #notice: (payload: string) => void = () => {};
  #closing = false;

  constructor(url: string, poolSize: number) {
    this.#config = {
      connectionString: url,
      types,
      application_name: "keyrack",
      connectionTimeoutMillis: 3_000,
      keepAlive: true,
      options: SESSION,
    };
    const options = `${SESSION} -c default_transaction_read_only=on`;
    this.reader = new PgReader({ ...this.#config, options, pipeline: true }, poolSize);
  }

  /** Connects and asserts what durability rests on; the caller turns a refusal into exit 3 or 2. */
  async open(): Promise<string[]> {
    await this.reconnect();
    const warnings = await this.#assertServer();
    await this.#listen();
    return warnings;
  }

  async #assertServer(): Promise<string[]> {
    const rows = await this.reader.ask<{ name: string; setting: string }>(
      "select name, setting from pg_settings where name in ('server_version_num','fsync','full_page_writes','synchronous_commit','data_checksums')",
    );
    const settings = Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
    if (Number(settings.server_version_num) < VERSION_MIN) throw new Error("PostgreSQL 15 or newer is needed");
    for (const name of ["fsync", "full_page_writes"]) {
      if (settings[name] !== "on") throw new Error(`PostgreSQL runs with ${name}=${settings[name]}: it must be on`);
    }
    if (settings.synchronous_commit === "off")
      throw new Error("PostgreSQL runs with synchronous_commit=off: it must be on");
    const [marked] = await this.reader.ask<{ mark: string | null }>(
      "select obj_description(current_schema()::regnamespace, 'pg_namespace') as mark",
    );
    if (marked?.mark === UNFINISHED)
      throw new Error("PostgreSQL holds a copy that was not finished. Run keyrack db copy again.");
    return settings.data_checksums === "off" ? ["PostgreSQL runs without data checksums"] : [];
  }

  async reconnect(): Promise<void> {
    const old = this.writer.client;
    this.writer.client = undefined;
    old?.end().catch(() => {});
    const client = new Client({ ...this.#config, pipeline: true });
    client.on("error", () => {
      if (this.writer.client === client) this.writer.client = undefined;
    });
    await client.connect();
    this.writer.client = client;
  }

  async #listen(): Promise<void> {
    const client = new Client(this.#config);
    client.on("error", () => this.#relisten(client));
    client.on("end", () => this.#relisten(client));
    client.on("notification", ({ payload }) => payload && this.#notice(payload));
    await client.connect();
    await client.query(`listen ${CHANNEL}`);
    this.#listener = client;
  }

  #relisten(broken: Client): void {
    if (this.#closing || this.#listener !== broken) return;
    this.#listener = undefined;
    // What was said while nobody listened is unknown: tell the listener to look at everything again.
    const again = (): void => {
      if (this.#closing) return;
      this.#listen().then(
        () => this.#notice("resync"),
        () => setTimeout(again, 500).unref(),
      );
    };
    setTimeout(again, 100).unref();
  }

  /** A connection that died while it was idle is replaced at once: nothing was under way, so nothing is in doubt. */
  async begin(): Promise<void> {
    try {
      await this.writer.exec("begin");
    } catch (error) {
      if (!isLost(error)) throw error;
      await this.reconnect();
      await this.writer.exec("begin");
    }
  }

  /** Several statements at once: migrations only. */
  script(sql: string): Promise<void> {
    return this.writer.script(sql);
  }

  async sync(): Promise<void> {} // COMMIT answered means flushed: synchronous_commit is asserted at start

  unsynced(): undefined {
    return undefined;
  }

  async checkpointIfDue(): Promise<void> {}

  /** A lock of the session that listens: it ends with the session, however that ends, and another takes it up. */
  async tryBecomeLeader(): Promise<boolean> {
    const client = this.#listener;
    if (!client) return false;
    const text = this.#leader === client ? "select true as leads" : TAKE_LEAD;
    const question: TimedQuery = { text, query_timeout: ANSWER_MAX_MS };
    const { rows } = await client.query<{ leads: boolean }>(question);
    const leads = rows[0]?.leads === true && this.#listener === client;
    this.#leader = leads ? client : undefined;
    return leads;
  }

  classifyError(error: unknown): ErrorClass {
    const code = (error as { code?: string }).code ?? "";
    if (isUniqueError(error)) return "unique";
    if (code === "40001" || code === "40P01" || code === "55P03") return "busy";
    if (code === "53100") return "full";
    if (isLost(error)) return "lost";
    return isOverloaded(error) ? "slow" : "other";
  }

  async notify(payload: string): Promise<void> {
    await this.writer.all({ sql: "select pg_notify($1, $2)", values: [CHANNEL, payload] });
  }

  onNotice(listener: (payload: string) => void): void {
    this.#notice = listener;
  }

  copyTo(): Promise<void> {
    return Promise.reject(new Error("PostgreSQL is copied by pg_dump"));
  }

  async ping(timeoutMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error("timeout")), timeoutMs);
    });
    const query = this.reader.ask("select 1");
    query.catch(() => {});
    await Promise.race([query, late]).finally(() => clearTimeout(timer));
  }

  async close(): Promise<void> {
    this.#closing = true;
    await Promise.allSettled([this.reader.end(), this.writer.client?.end(), this.#listener?.end()]);
  }
}
