// The push of usage to a receiver that answers 409, for a moment or because it has an event already, and to one that
// refuses a part of an hour.
import { describe, expect, it } from "vitest";
import { pushUsage } from "../../../src/domain/metering/push.ts";
import { MeterState } from "../../../src/domain/metering/state.ts";
import { retryMeter, showMeter } from "../../../src/domain/metering/status.ts";
import { foldJournal } from "../../../src/domain/series/fold.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { meterReceiver, type MeterEvent } from "../../../harness/meter-receiver.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";
import { testClock } from "../../../harness/instances/test-services.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

const NOON = Date.UTC(2026, 9, 20, 12);
const DELAYS = [30_000, 60_000, 120_000];

/** An instance with an hour of one unit for each of these tenants, which is due. */
async function setup(backend: (typeof runBackends)[number], tenants: string[]) {
  const receiver = await meterReceiver();
  const clock = testClock(NOON);
  const flags = { meter_url: receiver.url, public_url: "https://keys.example.com" };
  const instance = await testInstance(backend, { clock, flags, leads: false }); // the tests push by themselves
  const workspace = await instance.workspace();
  const ids = new Map<string, string>();
  for (const external_id of tenants)
    ids.set(external_id, (await workspace.call("sk_owner", "POST /v1/tenants", { external_id })).body.id as string);
  let serial = 0;
  const report = async (...names: string[]): Promise<void> => {
    const ts = new Date(NOON).toISOString();
    const events = names.map((name) =>
      telemetryEvent({ project_id: workspace.project_id, tenant_id: ids.get(name), ts, request_id: `r${++serial}` }),
    );
    expect((await workspace.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch(events))).status).toBe(202);
    await foldJournal(instance.app.services);
    clock.advance(2 * HOUR_MS);
  };
  await report(...tenants);
  const alone = (subject: string): MeterEvent[] =>
    receiver.requests.flatMap(({ events }) => (events.length === 1 ? events : [])).filter((e) => e.subject === subject);
  return {
    receiver,
    clock,
    alone,
    report,
    sql: (text: string) => instance.sql(text),
    retry: () => retryMeter(instance.app.services),
    push: () => pushUsage(instance.app.services),
    /** As a process that does not push shows it. */
    statusElsewhere: () => showMeter({ ...instance.app.services, meter: new MeterState() }),
    status: () => showMeter(instance.app.services),
    warnings: () => instance.logs.filter((line) => line.includes("has an event already")),
    refusals: () => instance.logs.filter((line) => line.includes("refused an event")),
    async [Symbol.asyncDispose]() {
      await instance[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
    },
  };
}

describe.each(runBackends)("a conflict of the push on %s", (backend) => {
  it("that does not pass settles the event after three retries, with a warning, and delays no other event", async () => {
    await using s = await setup(backend, ["known", "other"]);
    const isKnown = ({ subject }: MeterEvent): boolean => subject === "known";
    s.receiver.answer = (events) => ({ status: events.some(isKnown) ? 409 : 204 });
    for (const [n, delay] of DELAYS.entries()) {
      await s.push();
      expect(s.receiver.total().value).toBe(1);
      expect(s.alone("known")).toHaveLength(n + 1);
      expect(await s.status()).toMatchObject({ unsettled: 1, refused: 0, last_error: "the receiver responded 409" });
      s.clock.advance(delay - 1);
      await s.push();
      expect(s.alone("known")).toHaveLength(n + 1);
      s.clock.advance(1);
    }
    expect(s.warnings()).toEqual([]);
    await s.push();
    await s.push();
    const known = s.alone("known");
    expect([known.length, new Set(known.map((event) => JSON.stringify(event))).size]).toEqual([4, 1]);
    expect(s.alone("other")).toHaveLength(1);
    expect(await s.status()).toMatchObject({ unsettled: 0, refused: 0, refused_ids: [], last_error: null });
    expect([s.warnings().length, s.warnings()[0]?.includes(known[0]?.id ?? "-")]).toEqual([1, true]);
    expect(s.refusals()).toEqual([]);
  });

  it("that passes loses nothing, and Retry-After is obeyed", async () => {
    await using s = await setup(backend, ["locked"]);
    s.receiver.answer = () => ({ status: 409, headers: { "retry-after": "90" } });
    await s.push();
    const next_attempt_at = new Date(s.clock.now() + 90_000).toISOString();
    expect(await s.statusElsewhere()).toMatchObject({ last_error: "the receiver responded 409", next_attempt_at });
    s.receiver.answer = () => ({ status: 204 });
    s.clock.advance(89_999);
    await s.push();
    expect(s.receiver.requests).toHaveLength(1);
    s.clock.advance(1);
    await s.push();
    expect(s.receiver.total().value).toBe(1);
    const last_sent_at = new Date(s.clock.now()).toISOString();
    for (const status of [await s.status(), await s.statusElsewhere()])
      expect(status).toMatchObject({ unsettled: 0, refused: 0, last_error: null, next_attempt_at: null, last_sent_at });
    expect([...s.warnings(), ...s.refusals()]).toEqual([]);
  });
});

describe.each(runBackends)("a refused part of an hour on %s", (backend) => {
  it("keeps no further part of the hour from being sent, and is the one that is shown and sent again", async () => {
    await using s = await setup(backend, ["unknown"]);
    s.receiver.answer = () => ({ status: 422 });
    await s.push();
    const id = s.alone("unknown")[0]?.id as string;
    const lastPart = (): unknown => s.receiver.requests.at(-1)?.events.map(({ data }) => data.part);
    expect(await s.status()).toMatchObject({ unsettled: 0, refused: 1, refused_ids: [id] });

    s.receiver.answer = () => ({ status: 204 });
    await s.report("unknown", "unknown");
    await s.push();
    await s.push();
    expect([s.receiver.requests.length, lastPart(), s.receiver.total().value]).toEqual([2, [2], 2]);
    expect(await s.status()).toMatchObject({ unsettled: 0, refused: 1, refused_ids: [id], oldest_unsent_hour: null });

    s.receiver.answer = () => ({ status: 422 });
    await s.report("unknown");
    await s.push();
    expect([s.receiver.requests.length, lastPart(), s.refusals().length]).toEqual([3, [3], 2]);

    s.receiver.answer = () => ({ status: 204 });
    await s.report("unknown");
    expect(await s.retry()).toBe(1);
    await s.push();
    expect(lastPart()).toEqual([4]);
    expect(s.receiver.total().value).toBe(5);
    expect(await s.status()).toMatchObject({ unsettled: 0, refused: 0, refused_ids: [] });
  });

  it("is set aside alone where other parts of the hour are in the same request", async () => {
    await using s = await setup(backend, ["unknown"]);
    s.receiver.answer = () => ({ status: 422 });
    await s.push();
    await s.report("unknown");
    await s.push();
    await s.report("unknown");
    await s.push();
    await s.retry();
    s.receiver.answer = (events) => ({ status: events.some(({ data }) => data.part === 2) ? 422 : 204 });
    await s.push();
    await s.push();
    expect(s.receiver.total().value).toBe(2);
    const { refused_ids, unsettled } = await s.status();
    expect([refused_ids.map((id) => id.slice(-2)), unsettled]).toEqual([["-2"], 0]);
    expect(s.refusals()).toHaveLength(4);
  });
});
