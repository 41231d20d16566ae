// How late the push is: an hour is due when its last reports have settled, however old it is.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pushUsage } from "../../../src/domain/metering/push.ts";
import { isMeterLate, meterLagMs, replayMeter, showMeter } from "../../../src/domain/metering/status.ts";
import { foldJournal } from "../../../src/domain/series/fold.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { meterReceiver, type MeterReceiver } from "../../../harness/meter-receiver.ts";
import { testInstance, type TestInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";

const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000];
const SETTLE = 15 * MINUTE;
const iso = (ms: number): string => new Date(ms).toISOString();

describe.each(runBackends)("the lag of the push on %s", (backend) => {
  let receiver: MeterReceiver;
  let r: TestInstance;
  let w: Workspace;
  let serial = 0;
  beforeAll(async () => {
    receiver = await meterReceiver();
    const flags = { meter_url: receiver.url, public_url: "https://keys.example.com", series_hours: "8d" };
    r = await testInstance(backend, { clock: testClock(Date.UTC(2026, 9, 20, 12)), flags, leads: false });
    w = await r.workspace();
  });
  afterAll(async () => {
    await r[Symbol.asyncDispose]();
    await receiver[Symbol.asyncDispose]();
  });

  const report = async (at: number): Promise<void> => {
    const { project_id, tenant_id } = w;
    const event = telemetryEvent({ ts: iso(at), project_id, tenant_id, request_id: `l${++serial}` });
    expect((await w.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch([event]))).status).toBe(202);
    await foldJournal(r.app.services);
  };
  const push = () => pushUsage(r.app.services, { evenIfWaiting: true });
  const lag = () => meterLagMs(r.app.services);
  const isLate = () => isMeterLate(r.app.services);
  const warnings = () => r.logs.filter((line) => line.includes("will be deleted")).length;
  const startOf = (at: number): number => Math.floor(at / HOUR) * HOUR;

  it("counts from the end of an hour that was reported in time", async () => {
    const start = startOf(r.clock.now());
    await report(r.clock.now());
    r.clock.set(start + HOUR + SETTLE + 40 * SECOND);
    expect(await lag()).toBe(40 * SECOND);
    receiver.answer = () => ({ status: 503 });
    await push();
    r.clock.advance(MINUTE);
    expect(await lag()).toBeGreaterThanOrEqual(MINUTE);
    receiver.answer = () => ({ status: 204 });
    await push();
    expect(await lag()).toBe(0);
  });

  it("counts from when a late report has settled, and warns of no loss of what is about to be sent", async () => {
    const old = r.clock.now() - 6 * DAY;
    await report(old);
    expect(await lag()).toBe(0);
    r.clock.advance(SETTLE + 10 * SECOND);
    expect((await showMeter(r.app.services)).oldest_unsent_hour).toBe(iso(startOf(old)));
    expect([await lag(), await isLate()]).toEqual([10 * SECOND, false]);
    await push();
    expect([await lag(), await isLate(), warnings()]).toEqual([0, false, 0]);
  });

  it("warns once a late report could not be sent for an hour", async () => {
    await report(r.clock.now() - 6 * DAY);
    r.clock.advance(SETTLE);
    receiver.answer = () => ({ status: 503 });
    await push();
    expect([await isLate(), warnings()]).toEqual([false, 0]);
    r.clock.advance(HOUR + SECOND);
    await push();
    expect([await lag(), await isLate(), warnings()]).toEqual([HOUR + SECOND, true, 1]);
    receiver.answer = () => ({ status: 204 });
    await push();
    expect([await lag(), await isLate()]).toEqual([0, false]);
  });

  it("counts from the request when hours are sent again, and warns of no loss of what was sent", async () => {
    const before = warnings();
    const to = r.clock.now();
    expect(await replayMeter(r.app.services, to - 7 * DAY, to)).toBeGreaterThan(0);
    expect([await lag(), await isLate()]).toEqual([0, false]);
    await push();
    expect([await lag(), await isLate(), warnings()]).toEqual([0, false, before]);
  });
});
