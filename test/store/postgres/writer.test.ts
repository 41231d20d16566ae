// A PostgreSQL that takes no writes, no further connections or no logins for a while: changes are 503, the process is
// not ready and says why, and it works again by itself.
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { backends, freshDatabase, postgresUrl } from "../../../harness/databases/backends.ts";
import { rawSql } from "../../../harness/databases/raw-sql.ts";
import { startLocalInstance } from "../../../harness/instances/local-instance.ts";
import { makeWorld } from "../../../harness/instances/world.ts";
import { until } from "../../../harness/waiting.ts";

const AGAIN = ["the database can be used again", undefined];

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

/** An instance whose database belongs to a user of its own, who is no superuser. */
async function ownUser() {
  const { target, dispose } = await freshDatabase("postgres");
  if (target.kind !== "postgres" || postgresUrl === null) throw new Error("not PostgreSQL");
  const server = { kind: "postgres", url: postgresUrl, pool: 1 } as const;
  const url = new URL(target.url);
  const database = url.pathname.slice(1);
  const user = `${database}_user`;
  const sql = (text: string) => rawSql(server, text);
  stack.defer(async () => void (await sql(`drop role ${user}`)));
  stack.defer(dispose);
  await sql(`create role ${user} login`);
  await sql(`alter database ${database} owner to ${user}`);
  url.username = user;
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
  stack.defer(() => rmSync(dir, { recursive: true, force: true }));
  const ca = join(dir, "ca.pem");
  writeFileSync(ca, "read, but not used without TLS");
  url.search = `?sslmode=disable&sslrootcert=${ca}`;
  const { app, call, logs } = await startLocalInstance({ target: { kind: "postgres", url: url.href, pool: 4 }, dir });
  stack.defer(() => app.stop());
  const { key } = await makeWorld(call, app.bootstrap.token ?? "", "acme");
  let made = 0;
  return {
    database,
    user,
    /** A file that the URL names. */
    ca,
    /** What was logged about the database, as event and SQLSTATE. */
    logged: () =>
      logs
        .map((line) => JSON.parse(line) as { event: string; code?: string })
        .filter(({ event }) => /^(the database|PostgreSQL) /.test(event))
        .map(({ event, code }) => [event, code]),
    sql,
    cut: () => sql(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = '${user}'`),
    write: async () => (await call(key, "POST /v1/tenants", { external_id: `t${++made}` })).status,
    read: async () => (await call(key, "GET /v1/tenants")).status,
    ready: async () => (await call(null, "GET /readyz")).status,
  };
}

describe.runIf(backends.includes("postgres"))("a PostgreSQL", () => {
  it("that is read-only for a while gets writes again without a restart", async () => {
    const { database, sql, cut, write, read, ready, logged } = await ownUser();
    await sql(`alter database ${database} set default_transaction_read_only = on`);
    await cut();
    expect([await write(), await read(), await ready()]).toEqual([503, 200, 503]);
    await sql(`alter database ${database} reset default_transaction_read_only`);
    await until(async () => (await ready()) === 200);
    expect(await write()).toBe(201);
    await until(() => logged().length === 2);
    expect(logged()).toEqual([["the database accepts no changes", "25006"], AGAIN]);
  });

  it("that leaves no connection for writes makes the process not ready, until there is one again", async () => {
    const { user, sql, cut, write, ready } = await ownUser();
    await sql(`alter role ${user} connection limit 0`);
    await cut();
    await sql(`alter role ${user} connection limit 2`);
    const connections = () => sql(`select pid from pg_stat_activity where usename = '${user}'`);
    // One for reads and the listening one, without which this process leads no jobs that write.
    await until(async () => (await ready()) === 200 && (await connections()).length === 2);
    await until(async () => (await write()) === 503 && (await ready()) === 503);
    await sql(`alter role ${user} connection limit -1`);
    await until(async () => (await ready()) === 200);
    expect(await write()).toBe(201);
  });

  it("that leaves no further connection for reads is used again as soon as a read succeeds", async () => {
    const { user, sql, write, read, ready, logged } = await ownUser();
    expect([await write(), await read(), await ready()]).toEqual([201, 200, 200]);
    const open = await sql(`select pid from pg_stat_activity where usename = '${user}'`);
    await sql(`alter role ${user} connection limit ${open.length}`);
    await until(async () => {
      await Promise.all(Array.from({ length: 40 }, read));
      return logged().length > 0;
    });
    expect(await read()).toBe(200);
    expect(logged()).toEqual([["PostgreSQL refuses further connections", "53300"], AGAIN]);
  });

  it("whose URL names a file that is gone makes requests 503, until it is back", async () => {
    const { ca, cut, write, read, ready, logged } = await ownUser();
    renameSync(ca, `${ca}.old`);
    await cut();
    expect([await write(), await read(), await ready()]).toEqual([503, 503, 503]);
    renameSync(`${ca}.old`, ca);
    await until(async () => (await ready()) === 200);
    expect([await write(), await read()]).toEqual([201, 200]);
    await until(() => logged().length === 2);
    expect(logged()).toEqual([["the database cannot be reached", "ENOENT"], AGAIN]);
  });

  for (const [what, code, refuse, accept] of [
    ["database", "55000", "alter database % allow_connections false", "alter database % allow_connections true"],
    ["user", "28000", "alter role %_user nologin", "alter role %_user login"],
    ["privilege", "42501", "revoke connect on database % from public, %_user", "grant connect on database % to %_user"],
  ] as const) {
    it(`that refuses logins for its ${what} makes requests 503 and is logged once, with the reason`, async () => {
      const { database, sql, cut, write, read, ready, logged } = await ownUser();
      await sql(refuse.replaceAll("%", database));
      await cut();
      expect([await write(), await read(), await ready()]).toEqual([503, 503, 503]);
      await sql(accept.replaceAll("%", database));
      await until(async () => (await ready()) === 200);
      expect([await write(), await read()]).toEqual([201, 200]);
      await until(() => logged().length === 2);
      expect(logged()).toEqual([["the database cannot be reached", code], AGAIN]);
    });
  }
});
