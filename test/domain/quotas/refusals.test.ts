// What a quota's refusal says, and what processes know of each other's units.
import { describe, expect, it, vi } from "vitest";
import { openRaw } from "../../../harness/databases/raw-sql.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, type TestServices } from "../../../harness/instances/test-services.ts";
import { sliding } from "../../../harness/ratelimit/counters.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";
import { until } from "../../../harness/waiting.ts";
import { createGrant, voidGrant } from "../../../src/domain/quotas/grants.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends)
  describe(`a refusal by a quota on ${backend}`, () => {
    it("names the quota, however long the rate limits take to answer", async () => {
      await using fixture = await testServices(backend);
      const { services, clock } = fixture;
      const metered = await MeteredWorld.create(services, { key: [quotaOf({ amount: 2 })] });
      expect(await metered.admitted(2)).toBe(2);
      expect((await metered.check()).limited_quota).toBe("calls");
      const { counter } = services.counters;
      const check = counter.check.bind(counter);
      const slow = vi.spyOn(counter, "check").mockImplementation((request) => {
        clock.advance(1_000);
        return check(request);
      });
      const denied = await metered.check({ limits: [sliding(5, 60_000)] });
      slow.mockRestore();
      expect(denied).toMatchObject({ allowed: false, limited_quota: "calls", limited_policy: null });
      expect(denied.retry_after_seconds).toBeGreaterThan(86_400);
    });
  });

describe.runIf(runBackends.includes("postgres"))("two processes that share a quota", () => {
  /** The first process holds 99 of 6,400 units, and has published that. */
  async function world(fixture: TestServices, other: TestServices) {
    const metered = await MeteredWorld.create(fixture.services, { key: [quotaOf({ amount: 6_400 })] });
    await metered.check();
    await fixture.services.quotas.sweep();
    return { metered, there: metered.in(other.services) };
  }

  it("wait at most 10 s for each other's units, also after units that were owed", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const { there } = await world(fixture, other);
    const denied = await there.check({ owed: 6_300 });
    expect(denied).toMatchObject({ allowed: false, limited_quota: "calls", retry_after_seconds: 10 });
  });

  it("wait at most 10 s after the last block was taken and spent", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const { there } = await world(fixture, other);
    expect((await there.check({ cost: 6_300 })).allowed).toBe(true);
    expect(await there.check()).toMatchObject({ allowed: false, retry_after_seconds: 10 });
  });

  it("know each other's units as soon as they are taken", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const metered = await MeteredWorld.create(fixture.services, { key: [quotaOf({ amount: 2 })] });
    const there = metered.in(other.services);
    expect((await there.check()).allowed).toBe(true);
    await expect.poll(() => fixture.sql("select taken from quota_balances")).toEqual([{ taken: 2 }]); // the next block
    expect(await metered.balance()).toMatchObject({ spent: 1, remaining: 1 });
    expect(await metered.check()).toMatchObject({ allowed: false, retry_after_seconds: 10 });
    fixture.clock.advance(10_000);
    await other.services.quotas.sweep(); // it gives the unit back
    expect([await metered.admitted(2), (await metered.balance()).spent]).toEqual([1, 2]);
  });

  it("know each other's units of grants as soon as they are taken, in every period", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const metered = await MeteredWorld.create(fixture.services, { key: [quotaOf({ amount: 0, refill: "daily" })] });
    const target = { scope: "key", key_id: metered.key_id, quota_id: "calls" } as const;
    await createGrant(metered.ctx, target, { units: 64_000 });
    const there = metered.in(other.services);
    for (let day = 0; day < 2; day++) {
      expect((await there.check()).allowed).toBe(true);
      const { spent, granted, remaining } = await metered.balance(); // the first unit was published as not spent yet
      expect([spent <= 1, granted >= 63_998, remaining >= 63_998]).toEqual([true, true, true]);
      fixture.clock.advance(DAY_MS);
    }
  });

  it("wait for the next period where each other's units are not enough, and name no time where that is not", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const { there } = await world(fixture, other);
    expect(await there.check({ cost: 6_401 })).toMatchObject({ allowed: false, retry_after_seconds: null });
    expect(await there.check({ cost: 6_399 })).toMatchObject({ allowed: false, retry_after_seconds: 10 });
    const { allowed, retry_after_seconds, quotas } = await there.check({ cost: 6_400 });
    expect([allowed, retry_after_seconds]).toEqual([false, Math.ceil((quotas[0]?.reset_ms ?? 0) / 1_000)]);
  });

  it("publish what they hold, also when a lease of a dropped holding comes back", async () => {
    await using fixture = await testServices("postgres");
    const { services, clock } = fixture;
    const { quotas } = services;
    const metered = await MeteredWorld.create(services, { key: [quotaOf({ amount: 6_400 })] });
    const { lease_id } = await metered.lease(10);
    for (let i = 0; i < 4; i++) {
      clock.advance(11_000);
      await quotas.sweep();
    }
    expect(quotas.size).toBe(0);
    await metered.check();
    clock.advance(4_000);
    await quotas.sweep();
    const published = async () =>
      (await fixture.sql("select unspent from quota_holdings where process_id = $1", [quotas.process_id]))[0]?.unspent;
    const before = Number(await published());
    expect(before).toBeGreaterThan(0);
    expect((await metered.return(lease_id, 10)).returned).toBe(10);
    expect(Number(await published())).toBe(before);
  });

  it("give back what each holds of a grant that one of them voids", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const metered = await MeteredWorld.create(fixture.services, { key: [quotaOf({ amount: 0 })] });
    const target = { scope: "key", key_id: metered.key_id, quota_id: "calls" } as const;
    const { grant } = await createGrant(metered.ctx, target, { units: 6_400 });
    const there = metered.in(other.services);
    expect((await there.check()).quotas).toMatchObject([{ remaining: 6_399 }]);
    await voidGrant(metered.ctx, grant.id);
    await expect.poll(() => fixture.sql("select taken from quota_balances")).toEqual([{ taken: 1 }]);
    expect(await there.check({ cost: 90 })).toMatchObject({ allowed: false, quotas: [{ remaining: 0 }] });
    expect(await metered.balance()).toMatchObject({ spent: 1, granted: 0, remaining: 0 });
  });

  it("void what is left of a grant, and record exactly that", async () => {
    await using fixture = await testServices("postgres");
    const metered = await MeteredWorld.create(fixture.services, { key: [quotaOf()] });
    const target = { scope: "key", key_id: metered.key_id, quota_id: "calls" } as const;
    const { grant } = await createGrant(metered.ctx, target, { units: 100 });
    const other = await openRaw(fixture.target);
    await other.all("begin");
    await other.all("update quota_grants set remaining = remaining - 40 where id = $1", [grant.id]);
    const voided = voidGrant(metered.ctx, grant.id);
    await until(async () => {
      const waiting = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
      return (await fixture.sql(waiting)).length > 0;
    });
    await other.all("commit");
    await other.close();
    expect((await voided).remaining).toBe(0);
    const [row] = await fixture.sql("select payload from audit_log where action = 'quota_grant.voided'");
    expect(JSON.parse(String(row?.payload))).toMatchObject({ remaining: 60 });
  });
});
