// What waits for a timeout of the store: a lock that stays held, a connection that is lost without an end.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { tcpProxy, throughProxy, type Cut } from "../../../harness/databases/commit-proxy.ts";
import { insertOneTenant, tenantIds } from "../../../harness/databases/jobs.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { verifyChain } from "../../../src/domain/audit/chain-verification.ts";
import { mutate } from "../../../src/domain/core/mutate.ts";
import { record } from "../../../src/domain/core/record.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { connectPostgres, withPostgres } from "../../../src/store/postgres/client.ts";
import { PostgresDriver } from "../../../src/store/postgres/driver.ts";

describe.runIf(backends.includes("postgres"))("on PostgreSQL", () => {
  it("a write is refused whose lock another process does not release", async () => {
    await using fixture = await testServices("postgres");
    if (fixture.target.kind !== "postgres") throw new Error("not PostgreSQL");
    const { services } = fixture;
    const other = await connectPostgres(fixture.target.url);
    await other.query("begin");
    await other.query("select pg_advisory_xact_lock(hashtextextended('held', 0))");
    const write = (...locks: string[]) => record(services, async () => locks.join(), { locks });
    const held = write("free", "held");
    held.catch(() => {}); // awaited below
    expect(await Promise.all([write("free"), write()])).toEqual(["free", ""]);
    await expect(held).rejects.toMatchObject({ failure: "unavailable" });
    await other.end();
    expect(await write("free", "held")).toBe("free,held");
  });

  it("another process leads when the leader's host is lost and ends no connection", async () => {
    await using fixture = await testServices("postgres");
    if (fixture.target.kind !== "postgres") throw new Error("not PostgreSQL");
    await using proxy = await tcpProxy(fixture.target.url);
    const silentMaxMs = 5_000; // a listening connection is used every second
    await using drivers = new AsyncDisposableStack();
    const open = async (url: string): Promise<PostgresDriver> => {
      const driver = drivers.adopt(new PostgresDriver(url, 1, { silentMaxMs }), (one) => one.close());
      await driver.open();
      return driver;
    };
    const lost = await open(proxy.url);
    expect(await lost.tryBecomeLeader()).toBe(true);
    const other = await open(fixture.target.url);
    proxy.darkenListeners();
    const leads = (driver: PostgresDriver) => driver.tryBecomeLeader().catch(() => null);
    await expect.poll(() => leads(other)).toBe(true);
    await expect.poll(() => leads(lost)).toBe(false); // once it listens again
    // The sessions that may be silent, or have sent a response that is not acknowledged.
    const limits = "select current_setting('tcp_keepalives_idle') as idle, current_setting('tcp_user_timeout') as sent";
    expect(await lost.reader.query(limits)).toEqual([{ idle: "10", sent: "25000" }]);
  });

  for (const [when, committed] of [
    ["before commit", false],
    ["after commit", true],
  ] as const satisfies [Cut, boolean][]) {
    it(`a connection lost ${when} is looked up also while another process holds the audit head: the job ${committed ? "resolves" : "rejects"}`, async () => {
      await using fixture = await testServices("postgres");
      if (fixture.target.kind !== "postgres") throw new Error("not PostgreSQL");
      await using far = await throughProxy(fixture);
      const ctx = await vendorOf(far.other.services);
      const { workspace_id } = ctx.actor;
      await withPostgres(fixture.target.url, async (holder) => {
        await holder.query("begin");
        const { rows } = await holder.query<{ pid: number }>("select pg_backend_pid() as pid");
        const waits = "select 1 from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'";
        const cut = far.proxy.cutNext(when);
        let held: Promise<unknown> | undefined;
        const job = mutate(ctx, { workspace_id }, async (tx) => {
          await insertOneTenant(ctx, tx, "a");
          // First in the queue for the head: it has it as soon as the lost transaction has ended.
          held = holder.query("select 1 from audit_heads where workspace_id = $1 for update", [workspace_id]);
          await expect.poll(() => fixture.sql(waits, [rows[0]?.pid ?? 0])).toHaveLength(1);
          return { value: "done", events: [{ action: "tenant.created", target_id: null, payload: {} }] };
        });
        const [result] = await Promise.allSettled([job]);
        expect(result).toMatchObject(committed ? { value: "done" } : { reason: { failure: "unavailable" } });
        await Promise.all([cut, held]);
        expect(await tenantIds(fixture)).toEqual(committed ? ["a"] : []);
        await holder.query("rollback");
      });
      await createTenant(ctx, { external_id: "b" });
      expect(await verifyChain(fixture.services, workspace_id)).toMatchObject({ verified: true });
    });
  }
});
