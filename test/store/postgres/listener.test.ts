// The connection that listens for notifications: one that cannot listen, or is no longer needed, is ended.
import { Client } from "pg";
import { afterEach, describe, expect, it, vi } from "vitest";
import { backends, readyDatabase } from "../../../harness/databases/backends.ts";
import { rawSql } from "../../../harness/databases/raw-sql.ts";
import { openStore } from "../../../src/store/database.ts";
import { IS_KEYRACK } from "../../../src/store/postgres/connected-versions.ts";
import type { DatabaseTarget } from "../../../src/store/target.ts";

const EVENTS = { now: () => 1, fatal: () => {} };
/** The leader's lock is held by the connection that listens. */
const END_LEADER = `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'
  and database = (select oid from pg_database where datname = current_database())`;
const PIDS = `select pid from pg_stat_activity where ${IS_KEYRACK}`;

/** Calls `before` when a connection begins to listen, which waits for it. */
function beforeListening(before: () => Promise<void>): void {
  const query = Reflect.get(Client.prototype, "query") as (...sent: unknown[]) => unknown;
  vi.spyOn(Client.prototype, "query").mockImplementation(async function (this: Client, ...sent: unknown[]) {
    const [first] = sent as [string | { text: string }];
    if ((typeof first === "string" ? first : first.text).startsWith("listen ")) await before();
    return Reflect.apply(query, this, sent);
  });
}

const connections = async (target: DatabaseTarget): Promise<number> => (await rawSql(target, PIDS)).length;

describe.runIf(backends.includes("postgres"))("a connection that begins to listen for notices", () => {
  afterEach(() => void vi.restoreAllMocks());

  it("is ended where that fails", async () => {
    const { target, dispose } = await readyDatabase("postgres");
    beforeListening(() => Promise.reject(new Error("refused")));
    await expect(openStore(target, EVENTS)).rejects.toThrow("refused");
    await expect.poll(() => connections(target)).toBe(0);
    await dispose();
  });

  it("is ended where the store is closed meanwhile", async () => {
    const { target, dispose } = await readyDatabase("postgres");
    const store = await openStore(target, EVENTS);
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    beforeListening(() => (begin(), gate));
    expect(await store.tryBecomeLeader()).toBe(true);
    await rawSql(target, END_LEADER);
    await begun;
    await store.close();
    open();
    await expect.poll(() => connections(target)).toBe(0);
    await dispose();
  });
});
