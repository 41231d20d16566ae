// The push of usage to a metering system, with a receiver that fails, stalls, refuses and comes back.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { pushUsage } from "../../../src/domain/metering/push.ts";
import { replayMeter, retryMeter, showMeter } from "../../../src/domain/metering/status.ts";
import { collectMetrics } from "../../../src/domain/health/metrics.ts";
import { showStatus } from "../../../src/domain/health/status.ts";
import { foldJournal } from "../../../src/domain/series/fold.ts";
import { reapSeries } from "../../../src/domain/series/retention.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { meterReceiver, type MeterEvent, type MeterReceiver } from "../../../harness/meter-receiver.ts";
import {
  testInstance,
  type Json,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";

const NOON = Date.UTC(2026, 9, 20, 12);
const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000];
const PUBLIC_URL = "https://keys.example.com";
const iso = (ms: number): string => new Date(ms).toISOString();

for (const back of runBackends) {
  describe(`the push of usage on ${back}`, () => {
    let receiver: MeterReceiver;
    let r: TestInstance;
    let w: Workspace;
    let serial = 0;
    beforeAll(async () => {
      receiver = await meterReceiver();
      const flags = { meter_url: receiver.url, public_url: PUBLIC_URL };
      r = await testInstance(back, { clock: testClock(NOON), flags, leads: false }); // the tests push by themselves
    });
    afterAll(async () => {
      await r[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
    });
    /** Later in every test; everything of the tests before is sent, and their failures are forgotten. */
    beforeEach(async () => {
      r.app.services.meter.succeeded(r.clock.now());
      receiver.answer = () => ({ status: 204 });
      r.clock.set(Math.ceil((r.clock.now() + HOUR) / HOUR) * HOUR);
      await retryMeter(r.app.services);
      await pushUsage(r.app.services, { evenIfWaiting: true });
      receiver.requests.length = 0;
      w = await r.workspace();
    });

    const report = async (...events: Json[]): Promise<void> => {
      const base = { ts: iso(r.clock.now()), project_id: w.project_id, tenant_id: w.tenant_id };
      const all = events.map((own) => telemetryEvent({ ...base, request_id: `m${++serial}`, ...own }));
      const reply = await w.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch(all));
      expect(reply.status).toBe(202);
      await foldJournal(r.app.services);
    };
    const push = () => pushUsage(r.app.services);
    const sent = (): MeterEvent[] => receiver.requests.flatMap(({ events }) => events);
    const values = () => sent().map(({ id, data }) => [id, data.value, data.part]);
    const tenant = async (external_id: string): Promise<string> =>
      (await w.call("sk_owner", "POST /v1/tenants", { external_id })).body.id as string;
    const exported = async (): Promise<number> => {
      const day = Math.floor(r.clock.now() / DAY) * DAY;
      const range = `from=${iso(day - 2 * DAY)}&to=${iso(day + DAY)}`;
      const { text } = await w.call("sk_owner", `GET /v1/usage/export?${range}`);
      const lines = text.split("\n").filter(Boolean);
      return lines.reduce((sum, line) => sum + (JSON.parse(line) as { units: number }).units, 0);
    };
    const metric = async (name: string): Promise<number | undefined> =>
      (await collectMetrics(r.app.services)).find((family) => family.name === name)?.samples[0]?.value;

    it("sends an hour of each live tenant and project once, when it has settled", async () => {
      const start = r.clock.now();
      await report({ cost: 5 }, { status: 500 }, { denial_reason: "rate_limited", status: 429 });
      await report({ env: "test" }, { tenant_id: null });
      r.clock.set(start + HOUR + 15 * MINUTE - 1);
      await push();
      expect(receiver.requests).toEqual([]);
      r.clock.advance(1);
      expect((await showMeter(r.app.services)).oldest_unsent_hour).toBe(iso(start));
      await push();
      await push();
      expect(receiver.requests).toHaveLength(1);
      expect(receiver.requests[0]?.headers).toMatchObject({ "content-type": "application/cloudevents-batch+json" });
      const range = `from=${iso(start)}&to=${iso(start + HOUR)}&bucket=hour`;
      const row = JSON.parse((await w.call("sk_owner", `GET /v1/usage/export?${range}`)).text);
      const { project_id, tenant_id } = w;
      expect(sent()).toEqual([
        {
          specversion: "1.0",
          id: `${row.id}-1`,
          source: `${PUBLIC_URL}/workspaces/${w.id}`,
          type: "keyrack.usage.v1",
          subject: "customer",
          time: iso(start),
          datacontenttype: "application/json",
          data: {
            value: 6,
            requests: 3,
            errors: 2,
            project_id,
            project_slug: "api",
            tenant_id,
            plan_id: null,
            hour: iso(start),
            part: 1,
          },
        },
      ]);
      expect(row).toMatchObject({ units: 6, requests: 3, errors: 2 });
      expect(await metric("keyrack_meter_lag_seconds")).toBe(0);
    });

    it("sends what comes late as a further part with the difference", async () => {
      const ts = iso(r.clock.now());
      await report({ ts }, { ts });
      r.clock.advance(2 * HOUR);
      await push();
      await report({ ts, cost: 7 });
      r.clock.advance(15 * MINUTE);
      await push();
      const [first, second] = sent();
      expect(values()).toEqual([
        [first?.id, 2, 1],
        [first?.id.replace(/-1$/, "-2"), 7, 2],
      ]);
      expect(second?.data).toMatchObject({ requests: 1, errors: 0 });
    });

    it("repeats the same events to a receiver that fails, stalls, dies and comes back, and adds up to the export", async () => {
      const before = receiver.total().value;
      const start = r.clock.now();
      await report({ cost: 3 });
      r.clock.advance(2 * HOUR);
      receiver.answer = () => ({ status: 503, headers: { "retry-after": "120" } });
      await push();
      r.clock.advance(119 * SECOND);
      await push();
      expect(receiver.requests).toHaveLength(1);
      // It takes the events, and the answer is lost.
      const take = receiver.answer;
      receiver.answer = () => (response) => void response.destroy();
      r.clock.advance(SECOND);
      await push();
      expect(receiver.requests).toHaveLength(2);
      expect((await showMeter(r.app.services)).last_error).toBeTruthy();
      await report({ ts: iso(start), cost: 4 });
      r.clock.advance(60 * SECOND - 1);
      await push();
      expect(receiver.requests).toHaveLength(2);
      receiver.answer = take;
      r.clock.advance(1);
      await push();
      const waiting = new AbortController();
      const timeout = vi.spyOn(AbortSignal, "timeout").mockReturnValue(waiting.signal);
      receiver.answer = () => () => waiting.abort(new DOMException("stalled", "TimeoutError"));
      r.clock.advance(HOUR);
      await push();
      timeout.mockRestore();
      expect((await showMeter(r.app.services)).last_error).toBe("no response within 10 s");
      receiver.answer = () => ({ status: 204 });
      r.clock.advance(HOUR);
      await push();
      const bodies = receiver.requests.map(({ events }) => JSON.stringify(events));
      expect(bodies.slice(0, 5).every((body) => body === bodies[0])).toBe(true);
      expect(receiver.total().value - before).toBe(await exported());
      expect(await exported()).toBe(7);
      expect(await showMeter(r.app.services)).toMatchObject({ unsettled: 0, last_error: null, next_attempt_at: null });
    });

    it("halves a refused request, sets single events aside and sends them again", async () => {
      const before = receiver.total().value;
      const bad = await tenant("bad");
      const good = await Promise.all([1, 2, 3, 4].map((n) => tenant(`good-${n}`)));
      await report(...[bad, ...good].map((tenant_id) => ({ tenant_id })));
      r.clock.advance(2 * HOUR);
      const refusedBefore = (await metric("keyrack_meter_refused")) ?? 0;
      const isBad = ({ subject }: MeterEvent): boolean => subject === "bad";
      receiver.answer = (events) => ({ status: events.some(isBad) ? 422 : 200 });
      await push();
      await push();
      expect(receiver.total().value - before).toBe(4);
      const id = sent().find(isBad)?.id;
      expect(await showMeter(r.app.services)).toMatchObject({ refused: 1, refused_ids: [id], unsettled: 0 });
      expect((await metric("keyrack_meter_refused")) ?? 0).toBe(refusedBefore + 1);
      expect(r.logs.some((line) => line.includes("refused an event") && line.includes(String(id)))).toBe(true);
      receiver.answer = () => ({ status: 200 });
      expect(await retryMeter(r.app.services)).toBe(1);
      await push();
      expect(receiver.total().value - before).toBe(5);
    });

    it("sends settled hours again under the same ids", async () => {
      const start = r.clock.now();
      await report({});
      r.clock.advance(2 * HOUR);
      await push();
      await report({ ts: iso(start), cost: 2 });
      r.clock.advance(HOUR);
      await push();
      const first = values();
      receiver.requests.length = 0;
      expect(await replayMeter(r.app.services, start, start + HOUR)).toBe(1);
      await push();
      expect(first).toHaveLength(2);
      expect(values()).toEqual(first);
    });

    it("sends at most a hundred events a request", async () => {
      const tenants = await Promise.all(Array.from({ length: 130 }, (_, n) => tenant(`many-${n}`)));
      await report(...tenants.map((tenant_id) => ({ tenant_id })));
      r.clock.advance(2 * HOUR);
      await push();
      expect(receiver.requests.map(({ events }) => events.length)).toEqual([100, 30]);
      expect(new Set(sent().map(({ id }) => id)).size).toBe(130);
    });

    it("says so before an hour that was not sent is deleted, and keeps nothing after it", async () => {
      await report({});
      const hour = iso(r.clock.now());
      receiver.answer = () => ({ status: 302, headers: { location: "/elsewhere" } });
      r.clock.advance(29 * DAY);
      await push();
      expect((await showStatus(r.app.services)).components.worker).toBe("ok");
      r.clock.advance(2 * DAY);
      await push();
      expect((await showStatus(r.app.services)).components.worker).toBe("degraded");
      expect(r.logs.filter((line) => line.includes("will be deleted") && line.includes(hour))).toHaveLength(1);
      expect(await metric("keyrack_meter_lag_seconds")).toBeGreaterThan(30 * 86_400);
      r.clock.advance(6 * DAY);
      await reapSeries(r.app.services);
      for (const table of ["usage_hours", "metered_hours"])
        expect(await r.sql(`select count(*) as n from ${table}`), table).toEqual([{ n: 0 }]);
      expect((await showMeter(r.app.services)).oldest_unsent_hour).toBeNull();
    });
  });
}

describe("the settings of the push", () => {
  it("never send an hour again under its first id, when it is reported after it was deleted", async () => {
    await using receiver = await meterReceiver();
    const clock = testClock(NOON);
    const flags = { meter_url: receiver.url, public_url: PUBLIC_URL, series_hours: "8d" };
    await using r = await testInstance("sqlite", { clock, flags });
    const w = await r.workspace();
    const report = async (request_id: string): Promise<void> => {
      const event = telemetryEvent({ ts: iso(NOON), request_id, project_id: w.project_id, tenant_id: w.tenant_id });
      expect((await w.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch([event]))).status).toBe(202);
    };
    const foldAndPush = async (): Promise<void> => {
      await foldJournal(r.app.services);
      clock.advance(2 * HOUR);
      await pushUsage(r.app.services);
    };
    await report("first");
    await foldAndPush();
    clock.advance(6 * DAY);
    await report("late");
    clock.advance(3 * DAY);
    await reapSeries(r.app.services);
    await foldAndPush();
    expect(receiver.requests).toHaveLength(1);
  });

  it("send the token of the file, and need the public URL and hours for reports that come late", async () => {
    await using receiver = await meterReceiver();
    const [clock, meter_url] = [testClock(NOON), receiver.url];
    const start = (flags: Record<string, string>) => testInstance("sqlite", { clock, flags: { meter_url, ...flags } });
    await expect(start({})).rejects.toThrow("KEYRACK_PUBLIC_URL");
    await expect(start({ public_url: PUBLIC_URL, series: "off" })).rejects.toThrow("KEYRACK_SERIES=on");
    await expect(start({ public_url: PUBLIC_URL, series_hours: "7d" })).rejects.toThrow("KEYRACK_SERIES_HOURS");
    const missing = { public_url: PUBLIC_URL, meter_token_file: "/nowhere/token" };
    await expect(start(missing)).rejects.toThrow("KEYRACK_METER_TOKEN_FILE cannot be read: ENOENT");
    await using folder = await testInstance("sqlite", { clock });
    const file = join(folder.dataDir, "token");
    writeFileSync(file, "first-token\n");
    await using r = await start({ public_url: PUBLIC_URL, meter_token_file: file });
    const w = await r.workspace();
    const own = { project_id: w.project_id, tenant_id: w.tenant_id };
    const at = (ts: string, request_id: string) => telemetryBatch([telemetryEvent({ ts, request_id, ...own })]);
    for (const [n, token] of ["first-token", "second-token"].entries()) {
      writeFileSync(file, `${token}\n`);
      await w.call("sk_owner", "POST /v1/ingest/batch", at(iso(clock.now()), `t${n}`));
      await foldJournal(r.app.services);
      clock.advance(2 * HOUR);
      await pushUsage(r.app.services);
      expect(receiver.requests.at(-1)?.headers.authorization).toBe(`Bearer ${token}`);
    }
    writeFileSync(file, "two lines\nno-token\n");
    await w.call("sk_owner", "POST /v1/ingest/batch", at(iso(clock.now()), "t2"));
    await foldJournal(r.app.services);
    clock.advance(2 * HOUR);
    await pushUsage(r.app.services);
    expect((await showMeter(r.app.services)).last_error).toBe("KEYRACK_METER_TOKEN_FILE does not contain a token");
    expect(r.logs.filter((line) => line.includes("no-token"))).toEqual([]);
  });
});
