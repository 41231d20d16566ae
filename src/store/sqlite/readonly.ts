// Read-only driver for a SQLite database whose quick check found damage: serves what can still be read. Writes nothing,
// not even a checkpoint.
import { fail } from "../../kernel/errors.ts";
import type { Driver, ErrorClass, Writer } from "../engine/driver.ts";
import type { Reader } from "../engine/tx.ts";
import type { Connection } from "./open.ts";
import { openReader, SqliteReader } from "./reader.ts";

const reject = (): Promise<never> => Promise.reject(fail("read_only"));

export class ReadOnlyDriver implements Driver {
  readonly dialect = "sqlite";
  readonly readOnly = true;
  readonly reader: Reader;
  readonly writer: Writer = {
    all: reject,
    first: reject,
    run: reject,
    insertMany: reject,
    exec: reject,
    execNoWait: () => {},
  };
  readonly #db: Connection;

  constructor(file: string) {
    this.#db = openReader(file);
    this.reader = new SqliteReader(this.#db, () => {}); // unreadable pages are expected here
  }

  begin = reject;
  execScript = reject;
  copyTo = reject;
  reconnect = async (): Promise<void> => {};
  tryBecomeLeader = async (): Promise<boolean> => false;
  async sync(): Promise<void> {}
  async checkpointIfDue(): Promise<void> {}
  async notify(): Promise<void> {}
  onNotice(): void {}

  pendingSync(): undefined {
    return undefined;
  }

  classifyError(): ErrorClass {
    return "other";
  }

  async ping(): Promise<void> {
    this.#db.prepare("select 1").get();
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}
