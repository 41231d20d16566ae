// Saving rate-limit counters: at shutdown for a limited time, and by account again after a restart.
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { checkLimits, flushAllCounters, flushCounters, loadCounters } from "../../../src/domain/limits/ratelimit.ts";
import { record } from "../../../src/domain/core/record.ts";
import type { RateLimit } from "../../../src/kernel/ratelimit/rule.ts";
import { lapsesAt, spanAt } from "../../../src/kernel/ratelimit/window.ts";
import { OVERFLOW_SUBJECT } from "../../../src/ratelimit/memory/row-store.ts";
import { formatWindows, keyOf } from "../../../src/ratelimit/memory/saved-counter.ts";
import { saveCounters } from "../../../src/store/queries/rate-counters.ts";

const ruleOf = (id: string, window_ms: number): RateLimit => ({
  id,
  limit: 100,
  window_ms,
  algorithm: "fixed",
  scope: "key",
});
const [day, minute] = [ruleOf("day", 86_400_000), ruleOf("minute", 60_000)];

for (const backend of runBackends) {
  describe(`saved counters on ${backend}`, () => {
    let fixture: TestServices;
    beforeAll(async () => {
      fixture = await testServices(backend);
    });
    afterAll(() => fixture[Symbol.asyncDispose]());

    const saved = async (like: string): Promise<number> =>
      Number((await fixture.sql("select count(*) as n from rate_counters where key like $1", [like]))[0]?.["n"]);

    it("at shutdown are those of the longest windows, when time is up", async () => {
      const { services } = fixture;
      const ctx = await vendorOf(services);
      const charge = (i: number, limits: RateLimit[]) =>
        checkLimits(ctx, {
          project_id: services.newId(),
          env: "live",
          key_id: null,
          tenant_id: null,
          cost: 1,
          limits: i === 0 ? [day] : limits,
        });
      for (let i = 0; i < 6; i++) await charge(i, [minute]);
      await flushAllCounters(services, () => 3_000);
      expect([await saved("%/day/%"), await saved("%/minute/%")]).toEqual([1, 0]);
      await flushAllCounters(services);
      expect([await saved("%/day/%"), await saved("%/minute/%")]).toEqual([1, 5]);
    });

    it("are saved in small transactions, so that none holds the event loop for long", async () => {
      const { services } = fixture;
      const ctx = await vendorOf(services);
      const body = { project_id: services.newId(), env: "live" as const, tenant_id: null, cost: 1 };
      const limits = [ruleOf("many", 60_000)];
      for (let i = 0; i < 1_200; i++) await checkLimits(ctx, { ...body, limits, key_id: services.newId() });
      const taken = vi.spyOn(services.counters.memory, "dirtyRows");
      onTestFinished(() => taken.mockRestore());
      expect(await flushCounters(services)).toBe(1_200);
      expect(taken.mock.results.map(({ value }) => (value as unknown[]).length)).toEqual([500, 500, 200, 0]);
    });

    it("of a rule that overflowed count apart again, in every page that is loaded", async () => {
      const { services, clock } = fixture;
      const ctx = await vendorOf(services);
      const { workspace_id } = ctx.actor;
      const project_id = services.newId();
      const limits = [ruleOf("overflowed", 60_000)];
      const first = spanAt(limits[0]!, clock.steady());
      const subjects = Array.from({ length: 5_100 }, () => services.newId()).toSorted();
      const rows = [OVERFLOW_SUBJECT, ...subjects].map((subject) => ({
        key: keyOf({ ...limits[0]!, workspace_id, project_id, env: "live", subject }),
        lapses_at: lapsesAt(limits[0]!, first),
        windows: formatWindows(first, [subject === OVERFLOW_SUBJECT ? 100 : 1]),
      }));
      await record(services, (tx) => saveCounters(tx, rows));
      await using later = await fixture.another();
      await loadCounters(later.services);
      const left = async (key_id: string) => {
        const body = { project_id, env: "live" as const, tenant_id: null, key_id, cost: 0, limits };
        return (await checkLimits({ ...ctx, services: later.services }, body)).policies[0]!.remaining;
      };
      expect(await Promise.all([subjects[0]!, subjects.at(-1)!].map(left))).toEqual([99, 99]);
      expect(await left(services.newId())).toBe(0); // it may have shared the overflow counter
    });

    it("belong to the account that created their workspace when they are loaded", async () => {
      const { services } = fixture;
      const ctx = await vendorOf(services);
      const { workspace_id } = ctx.actor;
      await fixture.sql("update workspaces set created_by = $1 where id = $2", ["ann", workspace_id]);
      const limits = [ruleOf("account", 60_000)];
      const body = { project_id: services.newId(), env: "live" as const, tenant_id: null, cost: 1, limits };
      await checkLimits(ctx, { ...body, key_id: services.newId() });
      await flushCounters(services);
      await using later = await fixture.another();
      await loadCounters(later.services);
      const owners = later.services.shares.of("counters").owners();
      expect(owners.find(({ owner }) => owner.id === `${workspace_id}/live`)?.owner.group).toBe("ann");
    });
  });
}
