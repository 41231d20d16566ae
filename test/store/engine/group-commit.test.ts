// The group commit: many mutations in one durable transaction.
import { describe, expect, it, vi } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { policyVersions, storedState, tenantRow, vendorWithTenant } from "../../../harness/databases/jobs.ts";
import { testServices } from "../../../harness/instances/test-services.ts";
import { verifyChain } from "../../../src/domain/audit/chain-verification.ts";
import { record } from "../../../src/domain/core/record.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { insertTenant } from "../../../src/store/queries/tenants.ts";

for (const backend of backends) {
  describe(`the group commit on ${backend}`, () => {
    it("commits mutations that arrive together in one transaction", async () => {
      await using fixture = await testServices(backend);
      const { ctx } = await vendorWithTenant(fixture);
      await fixture.services.store.checkpointIfIdle(); // waits until the writer is idle, or the first would commit alone
      const before = fixture.services.store.stats.commits;
      await Promise.all(Array.from({ length: 50 }, (_, i) => createTenant(ctx, { external_id: `t${i}` })));
      expect(fixture.services.store.stats.commits - before).toBe(1);
      expect(fixture.services.store.stats.largest).toBe(50);
    });

    it("commits a single mutation without waiting for others", async () => {
      await using fixture = await testServices(backend);
      const { ctx } = await vendorWithTenant(fixture);
      vi.useFakeTimers({ toFake: ["setTimeout", "setInterval"] });
      try {
        await createTenant(ctx, { external_id: "alone" }); // would never resolve if it waited for a timer
      } finally {
        vi.useRealTimers();
      }
      expect(await fixture.sql("select id from tenants where external_id = 'alone'")).toHaveLength(1);
    });

    it("loses no row and forks no chain among 200 concurrent mutations", async () => {
      await using fixture = await testServices(backend);
      const { ctx, project, want } = await vendorWithTenant(fixture);
      const made = await Promise.all(
        Array.from({ length: 200 }, (_, i) =>
          i % 2 === 0 ? createKey(ctx, want) : createTenant(ctx, { external_id: `t${i}` }),
        ),
      );
      const keys = new Set((await fixture.sql("select id from api_keys")).map(({ id }) => id));
      const tenants = new Set((await fixture.sql("select id from tenants")).map(({ id }) => id));
      for (const { id, object } of made) expect((object === "api_key" ? keys : tenants).has(id)).toBe(true);
      expect([keys.size, tenants.size]).toEqual([100, 101]);
      expect(await policyVersions(fixture, project.id)).toEqual(Array.from({ length: 100 }, (_, i) => i + 2));
      const chain = await verifyChain(fixture.services, ctx.actor.workspace_id);
      expect(chain).toMatchObject({ verified: true, checked: 204, head_seq: 204 });
      expect((await fixture.sql("select tenant_count from workspaces"))[0]?.tenant_count).toBe(101);
    });

    it("keeps audit times in order when the clock steps back", async () => {
      await using fixture = await testServices(backend);
      const { ctx } = await vendorWithTenant(fixture);
      fixture.clock.advance(5_000);
      await createTenant(ctx, { external_id: "later" });
      fixture.clock.advance(-3_600_000);
      await createTenant(ctx, { external_id: "earlier" });
      const times = (await fixture.sql("select occurred_at from audit_log order by seq")).map((row) => row.occurred_at);
      expect(times).toEqual(times.toSorted((a, b) => Number(a) - Number(b)));
      expect(times.at(-1)).toBe(times.at(-2));
    });

    it("settles every accepted mutation before it closes, and rejects later ones", async () => {
      await using fixture = await testServices(backend);
      const { ctx } = await vendorWithTenant(fixture);
      const accepted = Promise.all(Array.from({ length: 20 }, (_, i) => createTenant(ctx, { external_id: `t${i}` })));
      const closed = fixture.services.store.close();
      await expect(createTenant(ctx, { external_id: "late" })).rejects.toMatchObject({ failure: "stopping" });
      await accepted;
      await closed;
      expect(await fixture.sql("select id from tenants")).toHaveLength(21);
    });

    it("does not fail a write when a listener throws", async () => {
      await using fixture = await testServices(backend);
      const { ctx, want } = await vendorWithTenant(fixture);
      const { store } = fixture.services;
      const broken = () => {
        throw new Error("broken listener");
      };
      const written = vi.fn();
      store.onPolicyChange(broken);
      store.onWritten(written);
      store.onWritten(broken);
      await createKey(ctx, want);
      await createKey(ctx, want);
      expect(await fixture.sql("select id from api_keys")).toHaveLength(2);
      expect(written).toHaveBeenCalledTimes(2);
      expect(fixture.fatal).toEqual([]);
    });

    it("commits record() without an audit row", async () => {
      await using fixture = await testServices(backend);
      const { ctx } = await vendorWithTenant(fixture);
      const before = await storedState(fixture);
      await record(fixture.services, (tx) => insertTenant.run(tx, tenantRow(ctx, "quiet")));
      expect(await storedState(fixture)).toEqual({ ...before, tenants: 2 });
    });
  });
}
