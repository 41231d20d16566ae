// Usage series: routes, tags, outcomes, keys and durations, and what exceeds a cap.
import { beforeEach, describe, expect, it } from "vitest";
import type { RouteOutput } from "../../../src/client.ts";
import { foldJournal } from "../../../src/domain/series/fold.ts";
import { denials } from "../../../src/sdk/denials.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";

const START = Date.UTC(2026, 9, 24, 22, 10);
type Answer = RouteOutput<"GET /v1/usage/series">;
const iso = (ms: number): string => new Date(ms).toISOString();

for (const backend of runBackends) {
  describe(`groups of usage series on ${backend}`, () => {
    const instance = sharedInstance(backend, { clock: testClock(START), leads: false });
    let workspace: Workspace;
    let key: { id: string };
    let serial = 0;
    beforeEach(async () => {
      instance.clock.set(START);
      workspace = await instance.workspace();
      key = await workspace.mint();
    });

    const event = (own: Json = {}): Json =>
      telemetryEvent({
        ts: iso(instance.clock.now()),
        project_id: workspace.project_id,
        tenant_id: workspace.tenant_id,
        key_id: key.id,
        request_id: `r${++serial}`,
        ...own,
      });
    const report = async (...events: Json[]): Promise<void> => {
      const body = telemetryBatch(events.map(event));
      expect((await workspace.call("sk_owner", "POST /v1/ingest/batch", body)).status).toBe(202);
    };
    const fold = (): Promise<void> => foldJournal(instance.app.services);
    const series = async (query: string): Promise<Answer> => {
      const { status, body } = await workspace.call("sk_owner", `GET /v1/usage/series?${query}`);
      expect({ status, problem: body.error }).toEqual({ status: 200, problem: undefined });
      return body;
    };
    /** Requests in all, by group. */
    const byGroup = async (query: string): Promise<Json> => {
      const { series: lines, other } = await series(query);
      const totals = lines.map(({ group, total }) => [String(group), total.requests]);
      return { ...Object.fromEntries(totals), ...(other && { OTHER: other.total.requests }) };
    };
    it("distinguishes 200 routes and sums the others", async () => {
      const routes = Array.from({ length: 500 }, (_, i) => ({ route: `/r/${i}`, method: i === 0 ? "BREW" : "GET" }));
      const oddMethod = { route: "/r/0", method: "BREW" };
      await report(...routes.slice(0, 250));
      await report(...routes.slice(250), { route: "/r/7" }, oddMethod, { route: null });
      await fold();
      const body = await series("group_by=route&top=100");
      expect(body.series[0]).toMatchObject({ group: "GET /r/7", label: "GET /r/7", total: { requests: 2 } });
      expect(body.series[1]).toMatchObject({ group: "OTHER /r/0", total: { requests: 2 } });
      expect([body.overflow, body.total.total.requests, body.series.length]).toEqual([true, 503, 100]);
      expect(body.other?.total.requests).toBe(503 - 102);
      const [row] = await instance.sql(
        backend === "sqlite"
          ? "select count(*) as n from usage_groups where workspace_id = ? and kind = 'route' and name like '% /r/%'"
          : "select count(*) as n from usage_groups where workspace_id = $1 and kind = 'route' and name like '% /r/%'",
        [workspace.id],
      );
      expect(Number(row?.n)).toBe(200);
      expect((await series("route=GET%20/r/7&group_by=outcome")).series[0]?.total.requests).toBe(2);
      const above = await series("route=GET%20/r/499");
      expect([above.total.total.requests, above.overflow]).toEqual([0, true]);
      const earlier = `from=${iso(START - 5 * 3_600_000)}&to=${iso(START - 3_600_000)}`;
      expect((await series(`route=GET%20/r/499&${earlier}`)).overflow).toBe(false);
    });

    it("bounds outcomes and the keys of an hour, and keeps their days exact", async () => {
      const state = instance.app.services.counts.series;
      const others = [await workspace.mint(), await workspace.mint()];
      const before = state.keysMax;
      state.keysMax = 2;
      try {
        await report({}, ...others.map(({ id }) => ({ key_id: id })), { key_id: others[1]?.id });
        await fold();
      } finally {
        state.keysMax = before;
      }
      const hours = await series("group_by=key");
      expect(hours.overflow).toBe(true);
      expect(hours.series).toHaveLength(2);
      expect([hours.other?.total.requests, hours.total.total.requests]).toEqual([2, 4]);
      const [first, second] = others.map(({ id }) => id);
      expect(await byGroup("bucket=day&group_by=key")).toEqual({
        [key.id]: 1,
        [String(first)]: 1,
        [String(second)]: 2,
      });
      for (const [bucket, requests, overflow] of [
        ["hour", 0, true],
        ["minute", 0, true],
        ["day", 2, false],
      ] as const) {
        const own = await series(`key_id=${second}&bucket=${bucket}`);
        expect([bucket, own.total.total.requests, own.overflow]).toEqual([bucket, requests, overflow]);
      }
      await report(...Array.from({ length: 45 }, (_, i) => ({ denial_reason: `reason_${i}` })), {
        denial_reason: "Not A Name",
      });
      await fold();
      const outcomes = await series("group_by=outcome");
      expect([outcomes.overflow, outcomes.series.length]).toEqual([true, 41]);
      expect(outcomes.series.find(({ group }) => group === "other")?.total.requests).toBe(7);
      expect(outcomes.total.total.requests).toBe(50);
      const minutes = (hours: number) =>
        workspace.call(
          "sk_owner",
          `GET /v1/usage/series?bucket=minute&group_by=outcome&from=${iso(START - hours * 3_600_000)}`,
        );
      expect((await minutes(40)).status).toBe(200);
      expectRefusal(await minutes(47), 400, "invalid_request", "top");
      for (const [outcome, requests, overflow] of [
        ["reason_44", 0, true],
        ["reason_0", 1, true],
        ["allowed", 4, false],
      ] as const) {
        const own = await series(`outcome=${outcome}&group_by=project`);
        expect([outcome, own.total.total.requests, own.overflow]).toEqual([outcome, requests, overflow]);
      }
    });

    it("lists the keys that the hours of a whole day have, and the others together", async () => {
      const state = instance.app.services.counts.series;
      const [first, second] = [await workspace.mint(), await workspace.mint()];
      const [midnight, before] = [Date.UTC(2026, 9, 24), state.keysMax];
      const ts = iso(midnight - 3_600_000);
      state.keysMax = 2;
      try {
        await report({ ts }, { ts, key_id: first.id }, { ts, key_id: second.id }, { ts, key_id: second.id });
        await fold();
      } finally {
        state.keysMax = before;
      }
      const day = `from=${iso(midnight - 86_400_000)}&to=${iso(midnight)}`;
      const hours = await series(`bucket=hour&group_by=key&${day}`);
      expect(hours.series.map(({ group, total }) => [group, total.requests])).toEqual(
        [key.id, first.id].toSorted().map((id) => [id, 1]),
      );
      expect([hours.overflow, hours.other?.total.requests, hours.total.total.requests]).toEqual([true, 2, 4]);
      const days = await series(`bucket=day&group_by=key&${day}`);
      expect([days.overflow, days.series[0]?.total.requests, days.other]).toEqual([false, 2, null]);
    });

    it("groups by tag, with costs, and ignores what is malformed", async () => {
      await report(
        { tags: { region: "eu", tier: "*" }, cost: 5, route: "/a" },
        { tags: { region: "us" }, cost: 0, route: "/a" },
        { tags: { region: "eu", Bad: "x", long: "y".repeat(65) }, cost: 1.5 },
        { tags: ["eu"], denial_reason: "scope", cost: 9 },
      );
      await fold();
      expect(await byGroup("group_by=tag:region")).toEqual({ eu: 2, null: 1, us: 1 });
      expect(await byGroup("group_by=tag:tier")).toEqual({ "*": 1, null: 3 });
      expect(await byGroup("group_by=tag:region&route=GET%20/a")).toEqual({ eu: 1, us: 1 });
      expect(await byGroup("group_by=tag:nothing")).toEqual({ null: 4 });
      expect((await series("group_by=none")).total.total.units).toBe(6);
      const ninth = Array.from({ length: 12 }, (_, i) => ({ tags: { [`name${i}`]: "x" } }));
      await report(...ninth, ...Array.from({ length: 130 }, (_, i) => ({ tags: { region: `r${i}` } })));
      await fold();
      const regions = await series("group_by=tag:region&top=100");
      expect([regions.overflow, regions.total.total.requests]).toEqual([true, 146]);
      const listed = regions.series.reduce((sum, { total }) => sum + total.requests, 0);
      expect(listed + (regions.other?.total.requests ?? 0)).toBe(146);
      expect((await series("group_by=tag:name11")).overflow).toBe(true);
    });

    it("counts the tags of a route above the cap by no route", async () => {
      const tagged = Array.from({ length: 201 }, (_, i) => ({ route: `/r/${i}`, tags: { region: "eu" } }));
      await report(...tagged, { route: "/r/200", tags: { region: "us" } }, { route: null, tags: { region: "us" } });
      await fold();
      expect(await byGroup("group_by=tag:region")).toEqual({ eu: 201, us: 2 });
      expect(await byGroup("group_by=tag:region&route=GET%20/r/199")).toEqual({ eu: 1 });
      const above = await series("group_by=tag:region&route=GET%20/r/200");
      expect([above.series, above.total.total.requests, above.overflow]).toEqual([[], 0, true]);
      const routes = `select count(distinct tenant) as n from usage_groups
        where kind = 'tag:region' and tenant like '% /r/%' and workspace_id = '${workspace.id}'`;
      expect(Number((await instance.sql(routes))[0]?.n)).toBe(200);
    });

    it("keeps the names of live outcomes, tags and keys whatever test traffic reports", async () => {
      const state = instance.app.services.counts.series;
      const before = state.keysMax;
      state.keysMax = 2;
      const test = [
        await workspace.mint({ env: "test" }),
        await workspace.mint({ env: "test" }),
        await workspace.mint({ env: "test" }),
      ];
      try {
        const made = Array.from({ length: 60 }, (_, i) => ({
          env: "test",
          key_id: test[i % 3]?.id,
          denial_reason: `made_up_${i}`,
          tags: { [`name${i % 9}`]: "x", region: `r${i}` },
        }));
        const body = telemetryBatch(made.map(event));
        expect((await workspace.call("sk_test", "POST /v1/ingest/batch", body)).status).toBe(202);
        await fold();
        await report({ denial_reason: "refused_by_us", tags: { region: "eu" } }, { tags: { region: "us" } });
        await fold();
      } finally {
        state.keysMax = before;
      }
      expect(await byGroup("env=live&group_by=outcome")).toEqual({ allowed: 1, refused_by_us: 1 });
      expect(await byGroup("env=live&group_by=tag:region")).toEqual({ eu: 1, us: 1 });
      expect(await byGroup("env=live&group_by=key")).toEqual({ [key.id]: 2 });
      expect((await series("env=live&group_by=outcome")).overflow).toBe(false);
      expect((await series("env=test&group_by=outcome")).overflow).toBe(true);
    });

    it("has a quarter of a workspace's names for test", async () => {
      const state = instance.app.services.counts.series;
      const before = state.keysMax;
      state.keysMax = 8;
      const minted: { id: string }[] = [];
      for (let i = 0; i < 4; i++) minted.push(await workspace.mint({ env: "test" }));
      try {
        const made = Array.from({ length: 12 }, (_, i) => ({
          env: "test",
          key_id: minted[i % 4]?.id,
          denial_reason: `made_up_${i}`,
        }));
        await workspace.call("sk_test", "POST /v1/ingest/batch", telemetryBatch(made.map(event)));
        await fold();
      } finally {
        state.keysMax = before;
      }
      expect((await series("env=test&group_by=key")).series).toHaveLength(2);
      const { other, ...named } = await byGroup("env=test&group_by=outcome&top=100");
      expect([other, Object.keys(named).length]).toEqual([3, 9]);
    });

    it("always names the library's own denials", async () => {
      await report(...Array.from({ length: 60 }, (_, i) => ({ denial_reason: `made_up_${i}` })));
      await report(...Object.keys(denials).map((denial_reason) => ({ denial_reason })));
      await fold();
      const { series: lines } = await series("group_by=outcome&top=100");
      expect(lines.map(({ group }) => group)).toEqual(expect.arrayContaining(Object.keys(denials)));
    });

    it("has percentiles within 10 %, for every bucket and by route", async () => {
      const durations = Array.from({ length: 100 }, (_, i) => ({ duration_ms: i + 1, route: i < 50 ? "/a" : "/b" }));
      await report(...durations);
      await fold();
      for (const bucket of ["minute", "hour", "day"]) {
        const { latency } = (await series(`bucket=${bucket}&latency=true`)).total;
        for (const [name, exact] of [
          ["p50", 50],
          ["p95", 95],
          ["p99", 99],
        ] as const) {
          const found = latency?.[name].at(-1) ?? 0;
          expect(Math.abs(found - exact) / exact, `${bucket} ${name} ${found}`).toBeLessThan(0.1);
        }
        expect(latency?.p50[0]).toBeNull();
      }
      const { series: lines } = await series("group_by=route&latency=true");
      const [a, b] = ["GET /a", "GET /b"].map((group) => lines.find((line) => line.group === group));
      expect(a?.latency?.p99.at(-1)).toBeLessThan(55);
      expect(b?.latency?.p50.at(-1)).toBeGreaterThan(65);
    });
  });
}
