// Copying a deployment between databases: every value arrives, audit chains verify, and no partial copy can be used.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { copyOffline } from "../../src/server/offline.ts";
import { createClient } from "../../harness/api-client.ts";
import { copyOrder, checksumDifferences, checksumRows } from "../../src/store/offline/copy.ts";
import { openCopySource } from "../../src/store/offline/copy-source.ts";
import { openStore } from "../../src/store/database.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { MIGRATION_LOCK } from "../../src/store/postgres/advisory-locks.ts";
import { UNFINISHED_COPY } from "../../src/store/postgres/copy-target.ts";
import { withPostgres } from "../../src/store/postgres/client.ts";
import { backends, freshDatabase } from "../../harness/databases/backends.ts";
import { deployment, setUpWorkspace, type Deployment } from "../../harness/instances/deployment.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { keyrack } from "../../harness/processes/cli.ts";
import { until } from "../../harness/waiting.ts";

const quiet = (): void => {};

async function sums(target: DatabaseTarget) {
  const source = await openCopySource(target);
  try {
    return await checksumRows(source, quiet);
  } finally {
    await source.close();
  }
}

/** Fills a deployment with some of everything and stops it. Returns a secret key. */
async function fill(d: Deployment): Promise<string> {
  const app = await d.start();
  const shop = await setUpWorkspace(app, "moving");
  const minted = await shop.mint();
  await shop.client.call("POST /v1/keys/{id}/revoke", {
    params: { id: minted.id },
    body: { reason: "'; drop – ü\\\n" },
  });
  await shop.client.call("PATCH /v1/tenants/{id}", {
    params: { id: shop.tenant_id },
    body: { meta: { deep: [1, null, "Ω", { x: 0.1 }] } },
  });
  await fetch(`${app.url}/v1/auth/users`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email: "ada@example.com", password: "a long enough pass phrase 17" }),
  });
  await app.idle();
  await app.stop();
  return shop.secretKey;
}

async function emptyPostgres() {
  const { target, dispose } = await freshDatabase("postgres");
  if (target.kind !== "postgres") throw new Error("no PostgreSQL");
  return { target, dispose };
}

const TABLES = "select tablename as name from pg_tables where schemaname = 'public'";
/** Sessions that wait for the lock under which tables are created. */
const WAITING = `select 1 from pg_locks l join pg_database d on d.oid = l.database and d.datname = current_database()
  where l.locktype = 'advisory' and l.objid = ${MIGRATION_LOCK} and not l.granted`;

const refusal = (error: unknown) => error as { message: string; exitCode: number };

describe.each(backends.filter((back) => back === "postgres"))("db copy with %s", () => {
  it("copies every value from SQLite to PostgreSQL and back, and the deployment works on each", async () => {
    await using d = await deployment("sqlite");
    const secretKey = await fill(d);
    await rawSql(d.target, "insert into written_bytes select id, 'live', 1, 1 from workspaces");
    await rawSql(d.target, "insert into mail_counts (id, kind, address_key, counted_at) values ('m', 'k', 'a', 1)");
    for (const name of ["last_backup", "backup_failure", "last_restore_test", "restore_test_failure"])
      await rawSql(d.target, `insert into deployment (name, value) values ('${name}', '{}')`);
    const there = await emptyPostgres();
    const copied = await copyOffline({ settings: d.settings(), to: there.target, dryRun: false, onProgress: quiet });
    expect(copied).toMatchObject({ chains: 2, dry_run: false });
    expect(copied.tables.find(({ name }) => name === "users")).toEqual({ name: "users", rows: 1 });
    expect(checksumDifferences(await sums(d.target), await sums(there.target))).toEqual([]);
    expect(await rawSql(there.target, "select * from written_bytes")).toEqual([]); // of another disk
    expect(await rawSql(there.target, "select * from mail_counts")).toEqual([]); // a new day for everyone
    const facts = (await rawSql(there.target, "select name from deployment")).map(({ name }) => String(name));
    expect(facts.filter((name) => /backup|restore/.test(name))).toEqual([]); // of another database
    expect(copied.tables.find(({ name }) => name === "deployment")?.rows).toBe(facts.length);
    expect(copied.tables.filter(({ name }) => ["written_bytes", "setup_tokens"].includes(name))).toEqual([]);
    const url = there.target.url;
    const app = await d.start({ database_url: url });
    const client = createClient({ url: app.url, bearer: secretKey });
    expect(await client.call("GET /v1/audit_logs/chain", {})).toMatchObject({ verified: true });
    expect((await client.call("GET /v1/keys", { query: { include_revoked: "true" } })).data).toHaveLength(1);
    await client.call("POST /v1/tenants", { body: { external_id: "made on PostgreSQL" } });
    await app.stop();
    const back = join(d.dir, "back.db");
    const nowhere = { kind: "sqlite", file: join(d.dir, "nowhere", "keyrack.db") } as const;
    const toNowhere = copyOffline({
      settings: d.settings({ database_url: url }),
      to: nowhere,
      dryRun: true,
      onProgress: quiet,
    });
    await expect(toNowhere).rejects.toMatchObject({
      exitCode: 2,
      message: `There is no folder ${join(d.dir, "nowhere")}. Create it first.`,
    });
    await copyOffline({
      settings: d.settings({ database_url: url }),
      to: { kind: "sqlite", file: back },
      dryRun: false,
      onProgress: quiet,
    });
    expect(checksumDifferences(await sums(there.target), await sums({ kind: "sqlite", file: back }))).toEqual([]);
    expect(existsSync(`${back}.copying`)).toBe(false);
    const again = await d.start({ database_url: `sqlite:${back}` });
    const here = createClient({ url: again.url, bearer: secretKey });
    expect(await here.call("GET /v1/audit_logs/chain", {})).toMatchObject({ verified: true });
    await again.stop();
    await there.dispose();
  });

  it("reports with --dry-run what it would copy, and writes nothing", async () => {
    await using d = await deployment("sqlite");
    await fill(d);
    const there = await emptyPostgres();
    const before = await sums(d.target);
    const planned = await copyOffline({ settings: d.settings(), to: there.target, dryRun: true, onProgress: quiet });
    expect(planned).toMatchObject({ dry_run: true, chains: 2 });
    expect(planned.rows).toBeGreaterThan(10);
    expect(planned.rows).toBe(Object.values(before).reduce((sum, { rows }) => sum + rows, 0));
    expect(await rawSql(there.target, "select count(*) as n from pg_tables where schemaname = 'public'")).toEqual([
      { n: 0 },
    ]);
    expect(await sums(d.target)).toEqual(before);
    await there.dispose();
  });

  it("refuses a database with data, one in use, a broken audit chain, and two of the same kind", async () => {
    await using d = await deployment("sqlite");
    const app = await d.start();
    await setUpWorkspace(app, "refused");
    const there = await emptyPostgres();
    const to = there.target;
    const go = () => copyOffline({ settings: d.settings(), to, dryRun: false, onProgress: quiet }).catch(refusal);
    expect(await go()).toMatchObject({ exitCode: 1, message: expect.stringContaining("using the data dir") as string });
    await app.stop();
    await rawSql(to, "create table theirs (id text)");
    expect(await go()).toMatchObject({ exitCode: 1, message: expect.stringContaining("not empty") as string });
    await rawSql(to, "drop table theirs");
    const same = { kind: "sqlite", file: join(d.dir, "x.db") } as const;
    expect(
      await copyOffline({ settings: d.settings(), to: same, dryRun: false, onProgress: quiet }).catch(refusal),
    ).toMatchObject({ exitCode: 2 });
    await rawSql(d.target, "drop trigger audit_log_no_update");
    await rawSql(d.target, "update audit_log set action = 'tenant.updated' where seq = 2");
    expect(await go()).toMatchObject({ exitCode: 4, message: expect.stringContaining("hash_mismatch") as string });
    expect(await rawSql(to, "select count(*) as n from pg_tables where schemaname = 'public'")).toEqual([{ n: 0 }]);
    await there.dispose();
  });

  it("replaces an unfinished copy, on which no server starts", async () => {
    await using d = await deployment("sqlite");
    await fill(d);
    const there = await emptyPostgres();
    const events = { now: Date.now, fatal: quiet };
    await (await openStore(there.target, events)).close();
    await rawSql(there.target, "insert into deployment (name, value) values ('half', 'a copy')");
    await rawSql(there.target, `comment on schema public is '${UNFINISHED_COPY}'`);
    await expect(openStore(there.target, events)).rejects.toThrow("unfinished copy");
    await copyOffline({ settings: d.settings(), to: there.target, dryRun: false, onProgress: quiet });
    expect(checksumDifferences(await sums(d.target), await sums(there.target))).toEqual([]);
    await (await openStore(there.target, events)).close();
    await there.dispose();
  });

  it("marks the database before it creates a table, so that no server starts on a copy that was killed", async () => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    const there = await emptyPostgres();
    const to = there.target;
    await rawSql(to, `select pg_advisory_lock(${MIGRATION_LOCK})`);
    const copying = copyOffline({ settings: d.settings(), to, dryRun: false, onProgress: quiet });
    await until(async () => (await rawSql(to, WAITING)).length === 1); // about to mark it
    await withPostgres(to.url, async (client) => {
      const locked = client.query(`select pg_advisory_lock(${MIGRATION_LOCK})`);
      await until(async () => (await rawSql(to, WAITING)).length === 2);
      await rawSql(to, `select pg_advisory_unlock(${MIGRATION_LOCK})`);
      await locked; // behind the mark, before the tables
      const [mark] = await rawSql(to, "select obj_description('public'::regnamespace, 'pg_namespace') as mark");
      expect(mark).toEqual({ mark: UNFINISHED_COPY });
      expect(await rawSql(to, TABLES)).toEqual([]);
    });
    await copying;
    await (await openStore(to, { now: Date.now, fatal: quiet })).close();
    await there.dispose();
  });

  it("refuses a database that was filled while the source was inspected, and leaves it as it is", async () => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    const there = await emptyPostgres();
    const to = there.target;
    await rawSql(to, `select pg_advisory_lock(${MIGRATION_LOCK})`);
    const copying = copyOffline({ settings: d.settings(), to, dryRun: false, onProgress: quiet }).catch(refusal);
    await until(async () => (await rawSql(to, WAITING)).length === 1);
    await rawSql(to, "create table theirs (id text)");
    await rawSql(to, `select pg_advisory_unlock(${MIGRATION_LOCK})`);
    expect(await copying).toMatchObject({ exitCode: 1, message: expect.stringContaining("not empty") as string });
    expect(await rawSql(to, TABLES)).toEqual([{ name: "theirs" }]);
    await there.dispose();
  });

  it("refuses an empty database of PostgreSQL as its source", async () => {
    await using d = await deployment("sqlite");
    const empty = await emptyPostgres();
    const settings = d.settings({ database_url: empty.target.url });
    const to = { kind: "sqlite", file: join(d.dir, "new.db") } as const;
    const refused = await copyOffline({ settings, to, dryRun: true, onProgress: quiet }).catch(refusal);
    expect(refused).toMatchObject({ exitCode: 2, message: expect.stringMatching(/^There is no Keyrack database at /) });
    for (const words of [
      ["db", "check"],
      ["audit", "verify", "--offline"],
      ["audit", "list", "--offline"],
    ])
      expect(await keyrack([...words, "--data-dir", d.dir, "--database-url", empty.target.url])).toEqual({
        code: 2,
        stdout: "",
        stderr: expect.stringMatching(/^keyrack: There is no Keyrack database at .*\.\n$/),
      });
    await empty.dispose();
  });

  it("refuses a schema other than public, a role that does not own it and lost commits, also with --dry-run", async () => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    const there = await emptyPostgres();
    const { target } = there;
    const go = async (url: string, dryRun: boolean) => {
      const to = { kind: "postgres", url } as const;
      return copyOffline({ settings: d.settings(), to, dryRun, onProgress: quiet }).catch(refusal);
    };
    await rawSql(target, "grant all on schema public to pg_monitor");
    const notOwner = new URL(target.url);
    notOwner.searchParams.set("options", "-c role=pg_monitor");
    await rawSql(target, "create schema other");
    const elsewhere = new URL(target.url);
    elsewhere.searchParams.set("options", "-c search_path=other,public");
    for (const dryRun of [true, false]) {
      expect(await go(notOwner.href, dryRun)).toMatchObject({
        exitCode: 1,
        message: expect.stringContaining("alter schema public owner to pg_monitor") as string,
      });
      expect(await go(elsewhere.href, dryRun)).toMatchObject({
        exitCode: 1,
        message: expect.stringContaining("set search_path to public") as string,
      });
    }
    await rawSql(target, `alter database ${new URL(target.url).pathname.slice(1)} set synchronous_commit = off`);
    for (const dryRun of [true, false])
      expect(await go(target.url, dryRun)).toMatchObject({
        exitCode: 2,
        message: "PostgreSQL runs with synchronous_commit=off: it must be on",
      });
    const made = "select count(*) as n from pg_tables where schemaname in ('public', 'other')";
    expect(await rawSql(target, made)).toEqual([{ n: 0 }]);
    await there.dispose();
  });
});

describe("the copy order", () => {
  it("puts referenced tables first and includes every table but those of this database alone", async () => {
    const { target, dispose } = await freshDatabase("sqlite");
    await (await openStore(target, { now: () => 1, fatal: quiet })).close();
    const source = await openCopySource(target);
    const order = await copyOrder(source.source);
    await source.close();
    expect(order.indexOf("workspaces")).toBeLessThan(order.indexOf("projects"));
    expect(order.indexOf("projects")).toBeLessThan(order.indexOf("api_keys"));
    const tables = await rawSql(
      target,
      "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'",
    );
    expect(order.toSorted()).toEqual(
      tables
        .map(({ name }) => String(name))
        .filter(
          (name) =>
            !["schema_migrations", "setup_tokens", "audit_marks", "written_bytes", "mail_counts"].includes(name),
        )
        .toSorted(),
    );
    await dispose();
  });
});
