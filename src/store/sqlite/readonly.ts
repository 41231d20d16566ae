// A SQLite database that is only looked at: nothing is written, not even a checkpoint. For one whose quick check found
// damage, so that what can still be read is read.
import { openReader, SqliteReader } from "./reader.ts";
import { fail } from "../../kernel/errors.ts";
import type { Connection } from "./open.ts";
import type { Driver, ErrorClass, Writer } from "../engine/driver.ts";
import type { Reader } from "../engine/statement.ts";

const refuse = (): Promise<never> => Promise.reject(fail("read_only"));

export class ReadOnlyDriver implements Driver {
  readonly dialect = "sqlite";
  readonly sideBySide = false;
  readonly exclusive = true;
  readonly reader: Reader;
  readonly writer: Writer = {
    all: refuse,
    first: refuse,
    run: refuse,
    insertMany: refuse,
    exec: refuse,
    post: () => {},
  };
  readonly #db: Connection;

  constructor(file: string) {
    this.#db = openReader(file);
    this.reader = new SqliteReader(this.#db, () => {}); // a page that cannot be read is what we came for
  }

  async open(): Promise<string[]> {
    return [];
  }

  begin = refuse;
  script = refuse;
  copyTo = refuse;
  reconnect = async (): Promise<void> => {};
  tryBecomeLeader = async (): Promise<boolean> => false;
  async sync(): Promise<void> {}
  async checkpointIfDue(): Promise<void> {}
  async notify(): Promise<void> {}
  onNotice(): void {}

  unsynced(): undefined {
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
