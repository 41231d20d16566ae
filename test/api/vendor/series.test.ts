// Usage series: every projection counts every event once, in the buckets, groups and zones that a request names.
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { RouteOutput } from "../../../src/client.ts";
import { foldJournal } from "../../../src/domain/series/fold.ts";
import { reapSeries } from "../../../src/domain/series/retention.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  expectRefusal,
  sharedInstance,
  testInstance,
  type Json,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";

/** Three hours before clocks go back in Berlin. */
const START = Date.UTC(2026, 9, 24, 22, 10);
const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000];
type Answer = RouteOutput<"GET /v1/usage/series">;
const iso = (ms: number): string => new Date(ms).toISOString();

for (const backend of runBackends) {
  describe(`usage series on ${backend}`, () => {
    const instance = sharedInstance(backend, { clock: testClock(START), leads: false });
    let w: Workspace;
    let key: { id: string };
    let serial = 0;
    beforeEach(async () => {
      instance.clock.set(START);
      w = await instance.workspace();
      key = await w.mint();
    });

    const event = (own: Json = {}): Json =>
      telemetryEvent({
        ts: iso(instance.clock.now()),
        project_id: w.project_id,
        tenant_id: w.tenant_id,
        key_id: key.id,
        request_id: `r${++serial}`,
        ...own,
      });
    const report = async (...events: Json[]): Promise<void> => {
      const body = telemetryBatch(events.map(event));
      expect((await w.call("sk_owner", "POST /v1/ingest/batch", body)).status).toBe(202);
    };
    const fold = (): Promise<void> => foldJournal(instance.app.services);
    const get = (query: string, as: "sk_owner" | "sk_test" = "sk_owner") => w.call(as, `GET /v1/usage/series?${query}`);
    const series = async (query: string): Promise<Answer> => {
      const { status, body } = await get(query);
      expect({ status, problem: body.error }).toEqual({ status: 200, problem: undefined });
      return body;
    };
    /** Requests in all, by group. */
    const byGroup = async (query: string): Promise<Json> => {
      const { series: lines, other } = await series(query);
      const totals = lines.map(({ group, total }) => [String(group), total.requests]);
      return { ...Object.fromEntries(totals), ...(other && { OTHER: other.total.requests }) };
    };
    const create = async (route: string, body: Json): Promise<string> =>
      (await w.call("sk_owner", route, body)).body.id as string;

    it("is gap-free, zero-filled, and ends with the current bucket", async () => {
      await report({ ts: iso(START - 2 * HOUR), status: 500 }, {}, { denial_reason: "rate_limited", status: 429 });
      await fold();
      const body = await series(`bucket=hour&from=${iso(START - 3 * HOUR)}`);
      expect(body).toEqual({
        object: "usage_series",
        bucket: "hour",
        from: "2026-10-24T19:00:00.000Z",
        to: "2026-10-24T23:00:00.000Z",
        time_zone: "UTC",
        group_by: "none",
        as_of: iso(START),
        overflow: false,
        buckets: [19, 20, 21, 22].map((hour) => `2026-10-24T${hour}:00:00.000Z`),
        series: [
          {
            group: null,
            label: null,
            requests: [0, 1, 0, 2],
            errors: [0, 1, 0, 1],
            units: [0, 1, 0, 1],
            total: { requests: 3, errors: 2, units: 2 },
          },
        ],
        other: null,
        total: {
          requests: [0, 1, 0, 2],
          errors: [0, 1, 0, 1],
          units: [0, 1, 0, 1],
          total: { requests: 3, errors: 2, units: 2 },
        },
      });
      expect((await series("bucket=minute")).total.requests.at(-1)).toBe(2);
      expect((await series("bucket=minute")).buckets).toHaveLength(61);
      expect((await series("bucket=hour")).buckets).toHaveLength(25);
      expect((await series("bucket=day")).buckets).toHaveLength(31);
      expect((await series(`bucket=day&to=${iso(START + 9 * DAY)}`)).buckets.at(-1)).toBe("2026-10-24T00:00:00.000Z");
    });

    it("counts as the daily and monthly figures do: repetitions, old events, sampling, omitted tenants", async () => {
      const batch = telemetryBatch([
        event({ request_id: "same" }),
        event({ request_id: "same" }),
        event({ ts: iso(START - 8 * DAY) }),
        event({ ts: iso(START - 6 * DAY), sample_rate: 0.25 }),
        event({ tenant_id: null }),
        event({ key_id: null }),
        event({ denial_reason: "expired", status: 401 }),
        event({ denial_reason: "allowed", status: 401 }), // a denial all the same
        event({ key_id: null, tenant_id: null }),
      ]);
      for (let sent = 0; sent < 2; sent++) await w.call("sk_owner", "POST /v1/ingest/batch", batch);
      await fold();
      await fold();
      const usage = (await w.call("sk_owner", `GET /v1/keys/${key.id}/usage?days=30`)).body.data;
      const daily = await series(`bucket=day&key_id=${key.id}&from=${iso(START - 29 * DAY)}`);
      expect(daily.total.requests).toEqual(usage.map(({ requests }: Json) => requests));
      expect(daily.total.errors).toEqual(usage.map(({ errors }: Json) => errors));
      const [month] = (await w.call("sk_owner", "GET /v1/usage/tenants")).body.data;
      const allowed = await series(`bucket=day&tenant_id=${w.tenant_id}&outcome=allowed&from=2026-10-01T00:00:00Z`);
      expect(allowed.total.total.requests).toBe(month.request_count);
      expect(await byGroup(`bucket=day&group_by=tenant`)).toEqual({ [w.tenant_id]: 8, null: 2 });
      expect(await byGroup(`bucket=day&group_by=key`)).toEqual({ [key.id]: 8, null: 2 });
      expect(await byGroup(`bucket=day&group_by=outcome&key_id=${key.id}`)).toEqual({
        allowed: 6,
        expired: 1,
        other: 1,
      });
    });

    it("says which batches it has, and has each in every projection at once", async () => {
      await report({});
      instance.clock.advance(MINUTE);
      const before = await series("bucket=hour");
      expect([before.as_of, before.total.total.requests]).toEqual([iso(START), 0]);
      await fold();
      const after = await series("bucket=hour");
      expect([after.as_of, after.total.total.requests]).toEqual([iso(START + MINUTE), 1]);
      for (const group of ["project", "tenant", "key", "outcome", "route", "env"])
        expect(Object.values(await byGroup(`group_by=${group}`)), group).toEqual([1]);
    });

    it("adds what was reported while another process was adding it exactly once", async () => {
      await report({}, {});
      await Promise.all([fold(), fold(), fold()]);
      expect((await series("bucket=hour")).total.total.requests).toBe(2);
    });

    it("lists the largest groups with their labels and sums the others", async () => {
      const tenants = await Promise.all(
        Array.from({ length: 4 }, (_, i) => create("POST /v1/tenants", { external_id: `t${i}` })),
      );
      await report(
        ...tenants.flatMap((tenant_id, i) => Array.from({ length: i + 1 }, () => ({ key_id: null, tenant_id }))),
      );
      await fold();
      const { series: lines, other, total } = await series("group_by=tenant&top=2");
      expect(lines.map(({ group, label, total: sum }) => [group, label, sum.requests])).toEqual([
        [tenants[3], "t3", 4],
        [tenants[2], "t2", 3],
      ]);
      expect([other?.total.requests, total.total.requests]).toEqual([3, 10]);
      expect((await series(`group_by=key`)).series[0]).toMatchObject({ group: null, label: null });
      const { series: keys } = await series(`group_by=project`);
      expect(keys[0]).toMatchObject({ group: w.project_id, label: "api" });
    });

    it("adds up local days of Asia/Kathmandu and the 25-hour day of Europe/Berlin", async () => {
      const hours = Array.from({ length: 60 * 4 }, (_, i) => START + 4 * MINUTE - i * 15 * MINUTE);
      instance.clock.set(START + 30 * HOUR);
      await report(...hours.map((at) => ({ ts: iso(at + 28 * HOUR) })));
      await fold();
      const total = (await series("bucket=day")).total.total.requests;
      expect(total).toBe(240);
      for (const [zone, lengths] of [
        ["Asia/Kathmandu", [24, 24, 24, 24]],
        ["Europe/Berlin", [24, 24, 25, 24]],
      ] as const) {
        const body = await series(`bucket=day&time_zone=${zone}&from=${iso(START - 2 * DAY + 4 * HOUR)}`);
        const edges = [...body.buckets, body.to].map((text) => Date.parse(text));
        expect(edges.slice(1).map((edge, i) => (edge - (edges[i] ?? 0)) / HOUR)).toEqual(lengths);
        expect(body.total.total.requests, zone).toBe(240);
        const counted = edges.slice(1).map((edge, i) => {
          return hours.filter((at) => at + 28 * HOUR >= (edges[i] ?? 0) && at + 28 * HOUR < edge).length;
        });
        expect(body.total.requests, zone).toEqual(counted);
        expect((await series(`bucket=day&time_zone=${zone}&group_by=tenant`)).series[0]?.total.requests).toBe(240);
      }
    });

    it("refuses what cannot be combined, naming the parameter", async () => {
      for (const [query, path] of [
        ["group_by=tenant&latency=true", "latency"],
        ["group_by=key&route=GET%20/", "route"],
        [`tenant_id=${w.tenant_id}&group_by=route`, "group_by"],
        [`key_id=${key.id}&group_by=tag:region`, "group_by"],
        ["group_by=tag:Bad", "group_by"],
        ["bucket=hour&time_zone=Europe/Berlin", "time_zone"],
        ["bucket=day&time_zone=Europe/Nowhere", "time_zone"],
        [`from=${iso(START)}&to=${iso(START - HOUR)}`, "from"],
        [`from=${iso(START + 3 * DAY)}&to=${iso(START + 5 * DAY)}`, "from"],
        [`bucket=minute&from=${iso(START - 49 * HOUR)}`, "from"],
        [`bucket=hour&from=${iso(START - 36 * DAY)}`, "from"],
        [`bucket=day&from=${iso(START - 401 * DAY)}`, "from"],
        [`bucket=day&time_zone=Asia/Tokyo&from=${iso(START - 36 * DAY)}`, "from"],
        [`bucket=minute&group_by=tenant&top=100&from=${iso(START - 1_000 * MINUTE)}`, "top"],
      ] as const)
        expectRefusal(await get(query), 400, "invalid_request", path);
      expect((await get(`bucket=day&from=${iso(START - 400 * DAY)}`)).status).toBe(200);
    });

    it("is confined to the environment and the workspace of the credential", async () => {
      const test = await w.mint({ env: "test" });
      await report({}, { key_id: test.id, env: "test" });
      await fold();
      expect((await get("env=live", "sk_test")).body.error.code).toBe("forbidden");
      expect((await get("", "sk_test")).body.total.total.requests).toBe(1);
      expect(await byGroup("group_by=env")).toEqual({ live: 1, test: 1 });
      const other = await instance.workspace();
      const foreign = await other.call("sk_owner", `GET /v1/usage/series?key_id=${key.id}`);
      expect(foreign.body.total.total.requests).toBe(0);
      const project = await create("POST /v1/projects", { name: "B", slug: "bbb" });
      const restricted = { env: "live", permissions: ["read"], project_ids: [project] };
      const secret = (await w.call("sk_owner", "POST /v1/secret_keys", restricted)).body.key as string;
      const seen = await instance.call(secret, "GET /v1/usage/series?group_by=project");
      expect(seen.body.total.total.requests).toBe(0);
      expectRefusal(await instance.call(secret, `GET /v1/usage/series?project_id=${w.project_id}`), 404, "not_found");
    });

    it("adds a batch of many hours, outcomes and tags in short transactions, and every event once", async () => {
      const tags = { region: "eu", plan: "pro", app: "web", version: "2" };
      const events = Array.from({ length: 400 }, (_, i) => {
        const denial_reason = i < 100 ? null : `reason_${Math.floor(i / 100)}`;
        return { ts: iso(START - (i % 100) * HOUR), denial_reason, tags, duration_ms: 1 + i };
      });
      await report(...events);
      const { store } = instance.app.services;
      const count = async (): Promise<number> =>
        Number((await instance.sql("select count(*) as n from usage_rollups"))[0]?.n);
      const write = store.write.bind(store);
      const grown: number[] = [];
      const spy = vi.spyOn(store, "write").mockImplementation(async (job) => {
        const before = await count();
        const done = await write(job);
        grown.push((await count()) - before);
        return done;
      });
      await fold();
      spy.mockRestore();
      expect(grown.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(3_000);
      expect(Math.max(...grown)).toBeLessThan(2_000);
      const from = `bucket=hour&from=${iso(START - 100 * HOUR)}`;
      for (const group of ["none", "project", "tenant", "key", "route", "outcome", "tag:plan"])
        expect((await series(`${from}&group_by=${group}`)).total.total.requests).toBe(400);
      expect(await byGroup(`${from}&group_by=outcome`)).toMatchObject({ allowed: 100, reason_3: 100 });
      expect(await byGroup(`${from}&group_by=tag:region`)).toMatchObject({ eu: 400 });
    });

    it("keeps minutes, hours and days for their own time", async () => {
      await report({});
      await fold();
      const count = async (): Promise<unknown[]> => {
        const mark = backend === "sqlite" ? "?" : "$1";
        const rows = await instance.sql(
          `select r.grain as grain, count(*) as n from usage_rollups r join usage_groups g on g.id = r.group_id
           where g.workspace_id = ${mark} group by r.grain order by r.grain`,
          [w.id],
        );
        return rows.map(({ grain, n }) => [Number(grain), Number(n)]);
      };
      expect(await count()).toEqual([1, 2, 3].map((grain) => [grain, 4]));
      instance.clock.advance(49 * HOUR);
      await reapSeries(instance.app.services);
      expect(await count()).toEqual([2, 3].map((grain) => [grain, 4]));
      instance.clock.advance(36 * DAY);
      await reapSeries(instance.app.services);
      expect(await count()).toEqual([[3, 4]]);
      instance.clock.advance(400 * DAY);
      await reapSeries(instance.app.services);
      expect(await count()).toEqual([]);
    });
  });
}

describe("usage series that are off", () => {
  it("writes no journal and has no series", async () => {
    await using instance = await testInstance("sqlite", { flags: { series: "off" } });
    const w = await instance.workspace();
    const own = { ts: iso(instance.clock.now()), project_id: w.project_id, request_id: "r" };
    await w.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch([telemetryEvent(own)]));
    expect(await instance.sql("select id from usage_journal")).toEqual([]);
    expectRefusal(await w.call("sk_owner", "GET /v1/usage/series"), 404, "not_found");
  });
});
