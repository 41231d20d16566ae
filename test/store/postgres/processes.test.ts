// Several processes on one PostgreSQL database: chains, policy versions, notifications, locks and retries. What waits for a timeout is in
// timeouts.test.ts.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { insertOneTenant, tenantIds, terminateBackend } from "../../../harness/databases/jobs.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { until } from "../../../harness/waiting.ts";
import { verifyChain } from "../../../src/domain/audit/chain-verification.ts";
import { record } from "../../../src/domain/core/record.ts";
import { mutate } from "../../../src/domain/core/mutate.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { connectPostgres } from "../../../src/store/postgres/client.ts";

describe.runIf(backends.includes("postgres"))("several processes on one PostgreSQL", () => {
  it("neither fork a chain nor lose a row when they write to one workspace", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const ctx = await vendorOf(fixture.services);
    const theirs = { ...ctx, services: other.services };
    await Promise.all(
      Array.from({ length: 100 }, (_, i) => createTenant(i % 2 === 0 ? ctx : theirs, { external_id: `t${i}` })),
    );
    expect(await tenantIds(fixture)).toHaveLength(100);
    expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toMatchObject({
      verified: true,
      checked: 102,
    });
  });

  it("assign one project's policy versions without gaps or duplicates", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const ctx = await vendorOf(fixture.services);
    const project = await createProject(ctx, { name: "p", slug: "p" });
    const tenant = await createTenant(ctx, { external_id: "t" });
    const want = { project_id: project.id, tenant_id: tenant.id, env: "live" as const };
    const theirs = { ...ctx, services: other.services };
    await Promise.all(Array.from({ length: 60 }, (_, i) => createKey(i % 2 === 0 ? ctx : theirs, want)));
    const rows = await fixture.sql("select policy_version as version from api_keys order by policy_version");
    expect(rows.map(({ version }) => version)).toEqual(Array.from({ length: 60 }, (_, i) => i + 2));
  });

  it("receive each other's policy changes and notices", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const ctx = await vendorOf(fixture.services);
    const project = await createProject(ctx, { name: "p", slug: "p" });
    const tenant = await createTenant(ctx, { external_id: "t" });
    const changes = new Promise((resolve) => other.services.store.onPolicyChange(resolve));
    await createKey(ctx, { project_id: project.id, tenant_id: tenant.id, env: "live" });
    expect(await changes).toEqual([{ project_id: project.id, version: 2 }]);
    const notice = new Promise((resolve) => other.services.store.onNotice("unlocked", resolve));
    await fixture.services.store.notify("unlocked", "revoked one two");
    expect(await notice).toBe("revoked one two");
  });

  it("receive a resync notice after the listening connection was lost", async () => {
    await using fixture = await testServices("postgres");
    const resync = new Promise((resolve) => fixture.services.store.onNotice("resync", resolve));
    const [listener] = await fixture.sql(
      "select pid from pg_stat_activity where datname = current_database() and query = 'listen keyrack'",
    );
    await terminateBackend(fixture, Number(listener?.pid));
    expect(await resync).toBe("");
    const notice = new Promise((resolve) => fixture.services.store.onNotice("unlocked", resolve));
    await fixture.sql("select pg_notify('keyrack', 'unlocked here')");
    expect(await notice).toBe("here");
  });

  it("wait for each other's lock on a chain", async () => {
    await using fixture = await testServices("postgres");
    if (fixture.target.kind !== "postgres") throw new Error("not PostgreSQL");
    const ctx = await vendorOf(fixture.services);
    const other = await connectPostgres(fixture.target.url);
    await other.query("begin");
    await other.query("select * from audit_heads for update");
    const waiting = createTenant(ctx, { external_id: "t" });
    await expect
      .poll(() =>
        fixture.sql("select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"),
      )
      .toHaveLength(1);
    expect(await tenantIds(fixture)).toEqual([]);
    await other.query("rollback");
    await other.end();
    await waiting;
    expect(await tenantIds(fixture)).toEqual(["t"]);
  });

  it("do not deadlock on rows that their jobs write in another order", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const rows = ["one", "two"] as const;
    await fixture.sql("create table locked (name text primary key)");
    for (const name of rows) await fixture.sql("insert into locked values ($1)", [name]);
    let runs = 0;
    const write = ({ services }: typeof fixture, name: string, then: () => Promise<void>) =>
      record(
        services,
        async (tx) => {
          runs++;
          await tx.all({ sql: "select * from locked where name = $1 for update", values: [name] });
          await then();
        },
        { locks: [`locked/${name}`] },
      );
    const waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    const begun = Promise.withResolvers<void>();
    const first = [
      write(fixture, "one", async () => {
        begun.resolve();
        await until(async () => (await fixture.sql(waiting)).length > 0);
      }),
      write(fixture, "two", async () => {}),
    ];
    await begun.promise;
    const second = [write(other, "two", async () => {}), write(other, "one", async () => {})];
    await Promise.all([...first, ...second]);
    expect(runs).toBe(4); // a group that was ended by the database would have run twice
  });

  it("do not wait for a workspace whose chain another process keeps locked", async () => {
    await using fixture = await testServices("postgres");
    if (fixture.target.kind !== "postgres") throw new Error("not PostgreSQL");
    const [paused, busy] = [await vendorOf(fixture.services), await vendorOf(fixture.services)];
    const other = await connectPostgres(fixture.target.url);
    await other.query("begin");
    await other.query("select * from audit_heads where workspace_id = $1 for update", [paused.actor.workspace_id]);
    let done = false;
    const waiting = createTenant(paused, { external_id: "paused" }).finally(() => (done = true));
    for (let i = 0; i < 5; i++) {
      await createTenant(busy, { external_id: `busy${i}` });
      expect(done).toBe(false);
    }
    await other.query("rollback");
    await other.end();
    await waiting;
    expect(await tenantIds(fixture)).toEqual(["busy0", "busy1", "busy2", "busy3", "busy4", "paused"]);
    for (const { actor } of [paused, busy])
      expect(await verifyChain(fixture.services, actor.workspace_id)).toMatchObject({ verified: true });
  });

  for (const code of ["40001", "40P01", "55P03"]) {
    it(`retry a group after ${code}, at most three times, and write it once`, async () => {
      await using fixture = await testServices("postgres");
      const ctx = await vendorOf(fixture.services);
      const attempt = (failures: number, external_id: string) => {
        let runs = 0;
        const done = mutate(ctx, { workspace_id: ctx.actor.workspace_id }, async (tx) => {
          await insertOneTenant(ctx, tx, external_id);
          if (++runs <= failures) throw Object.assign(new Error("try again"), { code });
          return { value: runs, events: [{ action: "tenant.created", target_id: null, payload: {} }] };
        });
        return done;
      };
      expect(await attempt(2, "a")).toBe(3);
      await expect(attempt(3, "b")).rejects.toMatchObject({ failure: "unavailable" });
      expect(await attempt(0, "c")).toBe(1);
      expect(await tenantIds(fixture)).toEqual(["a", "c"]);
      expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toMatchObject({
        verified: true,
        checked: 4,
      });
    });
  }
});
