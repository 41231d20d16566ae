// /metrics of usage series, search and quotas, each as what it counts happens.
import { beforeAll, describe, expect, it, vi } from "vitest";
import { runBackends } from "../../harness/databases/backends.ts";
import { sharedInstance, type Json, type Workspace } from "../../harness/instances/test-instance.ts";
import { telemetryBatch, telemetryEvent } from "../../harness/telemetry.ts";
import { indexChanges } from "../../src/domain/search/search-index.ts";
import { foldJournal } from "../../src/domain/series/fold.ts";

for (const backend of runBackends) {
  describe(`/metrics on ${backend}`, () => {
    const instance = sharedInstance(backend, { flags: { metrics: "127.0.0.1:0" }, leads: false });
    let workspace: Workspace;
    beforeAll(async () => {
      workspace = await instance.workspace();
    });

    const scrape = async (): Promise<(name: string) => number> => {
      const text = await (await fetch(instance.app.metricsUrl ?? "")).text();
      const values = new Map(text.split("\n").map((line) => [line.split(" ")[0], Number(line.split(" ")[1])]));
      return (name) => values.get(name) ?? Number.NaN;
    };
    const report = async (...events: Json[]): Promise<void> => {
      const base = {
        ts: new Date(instance.clock.now()).toISOString(),
        project_id: workspace.project_id,
        tenant_id: workspace.tenant_id,
      };
      const all = events.map((own, i) =>
        telemetryEvent({ ...base, request_id: `${instance.clock.now()}-${i}`, ...own }),
      );
      expect((await workspace.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch(all))).status).toBe(202);
    };

    it("counts malformed optional fields of events, by field", async () => {
      const key_id = (await workspace.mint()).id;
      await report(
        { key_id, cost: 1.5, tags: ["x"] },
        { key_id, network: "203.0.113.9" },
        { key_id, user_agent: "a b" },
      );
      await report({ key_id, cost: 2000, tags: { Bad: "x", good: "y" } });
      const now = await scrape();
      const ignored = ["cost", "tags", "network", "user_agent"].map((field) =>
        now(`keyrack_ingest_ignored_total{field="${field}"}`),
      );
      expect(ignored).toEqual([2, 2, 1, 1]);
      await foldJournal(instance.app.services);
    });

    it("shows how far the usage series are behind, and what exceeded a cap", async () => {
      const { series } = instance.app.services.counts;
      await report({ key_id: (await workspace.mint()).id });
      instance.clock.advance(4_000);
      const before = await scrape();
      expect([before("keyrack_series_journal_rows"), before("keyrack_series_lag_seconds")]).toEqual([1, 4]);
      const { keysMax } = series;
      series.keysMax = 0;
      await foldJournal(instance.app.services).finally(() => (series.keysMax = keysMax));
      await report(...Array.from({ length: 42 }, (_, i) => ({ denial_reason: `reason_${i}` })));
      await foldJournal(instance.app.services);
      const after = await scrape();
      expect([after("keyrack_series_journal_rows"), after("keyrack_series_lag_seconds")]).toEqual([0, 0]);
      const grew = (kind: string): number => {
        const name = `keyrack_series_overflow_total{kind="${kind}"}`;
        return after(name) - before(name);
      };
      expect([grew("key"), grew("outcome") > 0, grew("route"), grew("tag")]).toEqual([1, true, 0, 0]);
    });

    it("shows how many changes of keys the search index lacks", async () => {
      const { store } = instance.app.services;
      await indexChanges(instance.app.services);
      for (let i = 0; i < 3; i++) await workspace.mint();
      const write = store.write.bind(store);
      const lacking: Promise<number>[] = [];
      const writing = vi.spyOn(store, "write").mockImplementation(async (job) => {
        lacking.push(scrape().then((now) => now("keyrack_search_backlog")));
        await lacking[0];
        return write(job);
      });
      await indexChanges(instance.app.services);
      writing.mockRestore();
      expect(await lacking[0]).toBe(3);
      expect((await scrape())("keyrack_search_backlog")).toBe(0);
    });

    it("counts requests that a quota refused, and blocks by result", async () => {
      const { quotas } = instance.app.services;
      const check = async (amount: number, times: number): Promise<void> => {
        const { id: key_id } = await workspace.mint({ quotas: [{ id: "calls", amount, refill: "none" }] });
        const body = { project_id: workspace.project_id, env: "live", key_id, limits: [], quotas: true };
        for (let i = 0; i < times; i++) await workspace.call("sk_owner", "POST /v1/ratelimit/check", body);
      };
      const before = await scrape();
      await check(2, 4);
      await check(0, 1);
      await check(1_000, 1);
      instance.clock.advance(60_000);
      await quotas.sweep();
      const after = await scrape();
      const grew = (name: string): number => after(name) - before(name);
      expect(grew("keyrack_quota_denied_total")).toBe(3);
      const blocks = ["taken", "empty", "returned", "failed"].map((result) =>
        grew(`keyrack_quota_blocks_total{result="${result}"}`),
      );
      expect(blocks.map((count) => count > 0)).toEqual([true, true, true, false]);
    });
  });
}
