// PostgreSQL: what one connection, several processes and a network can do to a commit, and that none of it doubles,
// loses or halves a mutation.
import { Client } from "pg";
import { describe, expect, it } from "vitest";
import { verifyChain } from "../../../src/domain/audit/audit.ts";
import type { Ctx } from "../../../src/domain/core/context.ts";
import type { SecretKeyActor } from "../../../src/domain/core/actor.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { mutate, unchanged } from "../../../src/domain/core/mutate.ts";
import { record } from "../../../src/domain/core/record.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { openStore } from "../../../src/store/database.ts";
import { insertTenant } from "../../../src/store/queries/tenants.ts";
import type { Tx } from "../../../src/store/engine/statement.ts";
import { backends, freshDatabase } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { tcpProxy, type Cut } from "../../../harness/databases/commit-proxy.ts";

const EVENTS = { now: () => 1, fatal: () => {} };

async function tenants(lite: TestServices): Promise<unknown[]> {
  const rows = await lite.sql("select external_id from tenants order by external_id");
  return rows.map(({ external_id }) => external_id);
}

async function backendPid(tx: Tx): Promise<number> {
  const [row] = await tx.all<{ pid: number }>({ sql: "select pg_backend_pid() as pid", values: [] });
  return row?.pid ?? 0;
}

/** Ends a connection from the server's side, and returns when it is gone. */
async function terminate(lite: TestServices, pid: number): Promise<void> {
  await lite.sql("select pg_terminate_backend($1, 5000)", [pid]);
}

function insertOne(ctx: Ctx<SecretKeyActor>, tx: Tx, external_id: string): Promise<number> {
  const { workspace_id } = ctx.actor;
  const row = { id: ctx.services.newId(), workspace_id, external_id, name: null, meta: "{}", embed_epoch: 1 };
  return insertTenant.run(tx, { ...row, created_at: 1, updated_at: 1, deleted_at: null });
}

describe.runIf(backends.includes("postgres"))("PostgreSQL", () => {
  it("is refused when it would not keep what it commits", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const admin = new Client({ connectionString: target.url });
    await admin.connect();
    await admin.query(`alter database ${new URL(target.url).pathname.slice(1)} set synchronous_commit = off`);
    await admin.end();
    await expect(openStore(target, EVENTS)).rejects.toThrow("synchronous_commit=off");
    await dispose();
  });

  it("bounds every statement, lock and idle transaction of ours", async () => {
    await using lite = await testServices("postgres");
    const names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
    const shown = await record(lite.services, (tx) =>
      Promise.all(names.map((name) => tx.all<Record<string, string>>({ sql: `show ${name}`, values: [] }))),
    );
    expect(shown.map(([row]) => Object.values(row ?? {})[0])).toEqual(["5s", "2s", "10s"]);
  });

  for (const [what, sql] of [
    ["an update", "update audit_log set action = 'x'"],
    ["a delete", "delete from audit_log"],
    ["a truncation", "truncate audit_log"],
  ] as const) {
    it(`refuses ${what} of the audit log`, async () => {
      await using lite = await testServices("postgres");
      await vendorOf(lite.services);
      const before = await lite.sql("select * from audit_log order by seq");
      await expect(lite.sql(sql)).rejects.toThrow(/append-only/);
      expect(await lite.sql("select * from audit_log order by seq")).toEqual(before);
    });
  }
});

describe.runIf(backends.includes("postgres"))("a side-by-side segment on PostgreSQL", () => {
  it("is replayed one by one when one job spoils it: only that one fails", async () => {
    await using lite = await testServices("postgres");
    const ctx = await vendorOf(lite.services);
    const project = await createProject(ctx, { name: "p", slug: "p" });
    const first = await createTenant(ctx, { external_id: "taken" });
    const want = { project_id: project.id, tenant_id: first.id, env: "live" as const };
    // Reads first and bumps then: the version's own read meets the transaction that the clash has spoilt.
    const readThenBump = mutate(ctx, { workspace_id: ctx.actor.workspace_id, batch: true }, async (tx) => {
      await backendPid(tx);
      const version = await tx.bump(project.id);
      return { value: version, events: [{ action: "project.updated", target_id: project.id, payload: {} }] };
    });
    const results = await Promise.allSettled([
      createTenant(ctx, { external_id: "a" }),
      createTenant(ctx, { external_id: "taken" }),
      readThenBump,
      createKey(ctx, want),
      createTenant(ctx, { external_id: "b" }),
      createKey(ctx, want),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      "fulfilled",
      "fulfilled",
      "fulfilled",
      "fulfilled",
    ]);
    expect(await tenants(lite)).toEqual(["a", "b", "taken"]);
    const versions = await lite.sql("select version from policy_versions order by version");
    expect(versions.map(({ version }) => version)).toEqual([2, 3, 4]);
    expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toMatchObject({
      verified: true,
      checked: 9,
    });
  });
});

describe.runIf(backends.includes("postgres"))("a job on PostgreSQL", () => {
  it("that hides a failed statement is not told that it was committed: COMMIT was answered ROLLBACK", async () => {
    await using lite = await testServices("postgres");
    const ctx = await vendorOf(lite.services);
    const hides = record(lite.services, async (tx) => {
      await insertOne(ctx, tx, "hidden");
      await tx.run({ sql: "select 1 / 0", values: [] }).catch(() => {});
    });
    await expect(hides).rejects.toThrow(/rolled the transaction back/);
    expect(await tenants(lite)).toEqual([]);
    await record(lite.services, (tx) => insertOne(ctx, tx, "next"));
    expect(await tenants(lite)).toEqual(["next"]);
  });

  it("that takes too long is refused with 503 alone; its fellows are done", async () => {
    await using lite = await testServices("postgres");
    const ctx = await vendorOf(lite.services);
    const slow = record(lite.services, async (tx) => {
      await tx.run({ sql: "set local statement_timeout = 50", values: [] });
      await tx.run({ sql: "select pg_sleep(3)", values: [] });
    });
    const fellow = record(lite.services, (tx) => insertOne(ctx, tx, "fellow"));
    await expect(slow).rejects.toMatchObject({ status: 503, code: "unavailable" });
    await fellow;
    expect(await tenants(lite)).toEqual(["fellow"]);
  });
});

describe.runIf(backends.includes("postgres"))("a lost connection to PostgreSQL", () => {
  it("during the work fails those who were under way, leaves nothing of them, and heals by itself", async () => {
    await using lite = await testServices("postgres");
    const ctx = await vendorOf(lite.services);
    const doomed = mutate(ctx, { workspace_id: ctx.actor.workspace_id }, async (tx) => {
      await insertOne(ctx, tx, "doomed");
      await terminate(lite, await backendPid(tx));
      await insertOne(ctx, tx, "doomed too");
      return { value: 0, events: [{ action: "tenant.created", target_id: null, payload: {} }] };
    });
    await expect(doomed).rejects.toMatchObject({ failure: "unavailable", status: 503 });
    await createTenant(ctx, { external_id: "after" });
    expect(await tenants(lite)).toEqual(["after"]);
    expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toMatchObject({
      verified: true,
      checked: 3,
    });
  });

  it("while nothing is under way costs no request", async () => {
    await using lite = await testServices("postgres");
    const ctx = await vendorOf(lite.services);
    const pid = await record(lite.services, backendPid);
    await terminate(lite, pid);
    await createTenant(ctx, { external_id: "after" });
    expect(await tenants(lite)).toEqual(["after"]);
  });

  it("of a reader is replaced at its next use", async () => {
    await using lite = await testServices("postgres");
    const ctx = await vendorOf(lite.services);
    const query = { sql: "select pg_backend_pid() as pid", values: [] };
    const [before] = await lite.services.store.read.all<{ pid: number }>(query);
    await terminate(lite, before?.pid ?? 0);
    const pids = async (): Promise<unknown> => lite.services.store.read.all(query).catch((error: unknown) => error);
    await expect.poll(pids).toMatchObject([{ pid: expect.any(Number) as number }]);
    await createTenant(ctx, { external_id: "after" });
  });

  for (const [when, landed] of [
    ["before commit", false],
    ["after commit", true],
  ] as const satisfies [Cut, boolean][]) {
    it(`${when} is looked up: ${landed ? "it took effect, and all are told so" : "it did not, and all are refused"}`, async () => {
      await using lite = await testServices("postgres");
      if (lite.target.kind !== "postgres") throw new Error("not PostgreSQL");
      const { hostname, port } = new URL(lite.target.url);
      await using proxy = await tcpProxy(hostname, Number(port || 5432));
      await using far = await lite.another({ ...lite.target, url: proxy.url(lite.target.url) });
      const ctx = await vendorOf(far.services);
      await createTenant(ctx, { external_id: "a" });
      const cut = proxy.cutNext(when);
      const results = await Promise.allSettled([
        createTenant(ctx, { external_id: "b" }),
        mutate(ctx, { workspace_id: ctx.actor.workspace_id }, async () => unchanged("nothing")),
      ]);
      await cut;
      expect(results[0]).toMatchObject(landed ? { status: "fulfilled" } : { reason: { failure: "unavailable" } });
      expect(await tenants(lite)).toEqual(landed ? ["a", "b"] : ["a"]);
      await createTenant(ctx, { external_id: "c" });
      const checked = landed ? 5 : 4;
      expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toMatchObject({ verified: true, checked });
    });
  }
});

describe.runIf(backends.includes("postgres"))("several processes on one PostgreSQL", () => {
  it("neither fork a chain nor lose a row when they write to one workspace", async () => {
    await using lite = await testServices("postgres");
    await using other = await lite.another();
    const ctx = await vendorOf(lite.services);
    const theirs = { ...ctx, services: other.services };
    await Promise.all(
      Array.from({ length: 100 }, (_, i) => createTenant(i % 2 === 0 ? ctx : theirs, { external_id: `t${i}` })),
    );
    expect(await tenants(lite)).toHaveLength(100);
    expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toMatchObject({
      verified: true,
      checked: 102,
    });
  });

  it("give one project's versions without gaps or repetition", async () => {
    await using lite = await testServices("postgres");
    await using other = await lite.another();
    const ctx = await vendorOf(lite.services);
    const project = await createProject(ctx, { name: "p", slug: "p" });
    const tenant = await createTenant(ctx, { external_id: "t" });
    const want = { project_id: project.id, tenant_id: tenant.id, env: "live" as const };
    const theirs = { ...ctx, services: other.services };
    await Promise.all(Array.from({ length: 60 }, (_, i) => createKey(i % 2 === 0 ? ctx : theirs, want)));
    const rows = await lite.sql("select policy_version as version from api_keys order by policy_version");
    expect(rows.map(({ version }) => version)).toEqual(Array.from({ length: 60 }, (_, i) => i + 2));
  });

  it("hear of each other's policy changes and words", async () => {
    await using lite = await testServices("postgres");
    await using other = await lite.another();
    const ctx = await vendorOf(lite.services);
    const project = await createProject(ctx, { name: "p", slug: "p" });
    const tenant = await createTenant(ctx, { external_id: "t" });
    const bump = new Promise((resolve) => other.services.store.onPolicyChange(resolve));
    await createKey(ctx, { project_id: project.id, tenant_id: tenant.id, env: "live" });
    expect(await bump).toEqual([{ project_id: project.id, version: 2 }]);
    const word = new Promise((resolve) => other.services.store.onNotice("credential", resolve));
    await lite.services.store.notify("credential", "revoked one two");
    expect(await word).toBe("revoked one two");
  });

  it("are told to look at everything again after they could not listen", async () => {
    await using lite = await testServices("postgres");
    const resync = new Promise((resolve) => lite.services.store.onNotice("resync", resolve));
    const [listener] = await lite.sql(
      "select pid from pg_stat_activity where datname = current_database() and query = 'listen keyrack'",
    );
    await terminate(lite, Number(listener?.pid));
    expect(await resync).toBe("");
    const word = new Promise((resolve) => lite.services.store.onNotice("still", resolve));
    await lite.sql("select pg_notify('keyrack', 'still here')");
    expect(await word).toBe("here");
  });

  it("wait for each other's lock on a chain", async () => {
    await using lite = await testServices("postgres");
    if (lite.target.kind !== "postgres") throw new Error("not PostgreSQL");
    const ctx = await vendorOf(lite.services);
    const other = new Client({ connectionString: lite.target.url });
    await other.connect();
    await other.query("begin");
    await other.query("select * from audit_heads for update");
    const waiting = createTenant(ctx, { external_id: "t" });
    await expect
      .poll(() =>
        lite.sql("select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"),
      )
      .toHaveLength(1);
    expect(await tenants(lite)).toEqual([]);
    await other.query("rollback");
    await other.end();
    await waiting;
    expect(await tenants(lite)).toEqual(["t"]);
  });

  for (const code of ["40001", "40P01", "55P03"]) {
    it(`run a group again that met ${code}, at most three times, and write it once`, async () => {
      await using lite = await testServices("postgres");
      const ctx = await vendorOf(lite.services);
      const attempt = (failures: number, external_id: string) => {
        let runs = 0;
        const done = mutate(ctx, { workspace_id: ctx.actor.workspace_id }, async (tx) => {
          await insertOne(ctx, tx, external_id);
          if (++runs <= failures) throw Object.assign(new Error("try again"), { code });
          return { value: runs, events: [{ action: "tenant.created", target_id: null, payload: {} }] };
        });
        return done;
      };
      expect(await attempt(2, "a")).toBe(3);
      await expect(attempt(3, "b")).rejects.toMatchObject({ failure: "unavailable" });
      expect(await attempt(0, "c")).toBe(1);
      expect(await tenants(lite)).toEqual(["a", "c"]);
      expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toMatchObject({
        verified: true,
        checked: 4,
      });
    });
  }
});
