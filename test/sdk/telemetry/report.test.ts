// Telemetry: batches, sampling that does not change usage counts, bounded memory, and reported drops.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Reporter } from "../../../src/sdk/telemetry/report.ts";
import { Client } from "../../../src/sdk/client.ts";
import { readOptions } from "../../../src/sdk/options.ts";
import { SDK_NAME, SDK_VERSION } from "../../../src/sdk/version.ts";
import { FakeControlPlane } from "../../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../../harness/sdk/ports.ts";
import { until } from "../../../harness/waiting.ts";
import type { LogLine } from "../../../harness/sdk/test-keyrack.ts";

const TENANTS = ["0190163d-8694-739b-aea5-000000000001", "0190163d-8694-739b-aea5-000000000002"];
const happened = {
  method: "GET",
  path: "/orders",
  route: "/orders",
  status: 200,
  durationMs: 1.23456,
  degraded: false,
  denial: null as string | null,
  subject: {
    keyId: TENANTS[0] ?? "",
    tenantId: TENANTS[0] ?? "",
    env: "live" as const,
    displayPrefix: "kr_live_abcdef",
  },
};

async function setup(options: { sampleRate?: number } = {}) {
  const plane = await FakeControlPlane.start();
  const ports = new ManualPorts();
  const settings = readOptions({ ...plane.options, nodeId: "n1", ...options });
  const lines: LogLine[] = [];
  const log = (level: string, message: string, fields: Record<string, unknown>) =>
    void lines.push({ level, message, fields });
  const dropped = { events: 0 };
  const reporter = new Reporter(
    { client: new Client(settings, ports), settings, ports, log },
    (n) => void (dropped.events += n),
  );
  return { plane, ports, reporter, lines, dropped, [Symbol.asyncDispose]: () => plane[Symbol.asyncDispose]() };
}

describe("the reporter", () => {
  it("sends one batch per second with every required field", async () => {
    await using s = await setup();
    s.reporter.record(happened);
    s.reporter.record({ ...happened, status: 401, denial: "missing_key", subject: null, route: null });
    expect(s.plane.ingest.batches).toBe(0);
    s.ports.advance(1000);
    await s.plane.next("/v1/ingest");
    expect(s.plane.ingest.events).toMatchObject([
      {
        ts: "2026-11-15T12:00:00.000Z",
        project_id: s.plane.projectId,
        env: "live",
        tenant_id: TENANTS[0],
        display_prefix: "kr_live_abcdef",
        duration_ms: 1.235,
        denial_reason: null,
      },
      { tenant_id: null, key_id: null, display_prefix: null, denial_reason: "missing_key", status: 401, route: null },
    ]);
    expect(new Set(s.plane.ingest.events.map(({ request_id }) => request_id)).size).toBe(2);
    expect(JSON.parse(s.plane.seen[0]?.body ?? "")).toMatchObject({
      node_id: "n1",
      sdk: { name: SDK_NAME, version: SDK_VERSION },
    });
  });

  it("sends 0 for what is no duration, so that no other event of its batch is rejected", async () => {
    await using s = await setup();
    for (const durationMs of [Number.NaN, Infinity, undefined as unknown as number, -1])
      s.reporter.record({ ...happened, durationMs });
    s.ports.advance(1000);
    await s.plane.next("/v1/ingest");
    expect(s.plane.ingest.events.map(({ duration_ms }) => duration_ms)).toEqual([0, 0, 0, 0]);
  });

  it("sends a full batch at once", async () => {
    await using s = await setup();
    for (let i = 0; i < 1000; i++) s.reporter.record(happened);
    await s.plane.next("/v1/ingest");
    expect(s.plane.ingest.events.length).toBe(1000);
  });

  it("resends a batch byte for byte when its response was lost, so that it counts once", async () => {
    await using s = await setup();
    s.reporter.record(happened);
    let lost = 2;
    s.plane.injectFault = () => (lost-- > 0 ? { status: 500, text: "{}" } : undefined);
    s.ports.advance(1000);
    await s.ports.timer(700, 800);
    s.reporter.record({ ...happened, path: "/later" });
    s.ports.advance(800);
    await s.ports.timer(1400, 1600);
    s.ports.advance(1600);
    s.ports.advance(await s.ports.timer(900, 1000));
    await until(() => s.plane.ingest.events.length === 2);
    const bodies = s.plane.seen.map(({ body }) => body);
    expect([bodies[0] === bodies[1], bodies[1] === bodies[2], bodies[2] === bodies[3]]).toEqual([true, true, false]);
  });

  it("honours retry-after", async () => {
    await using s = await setup();
    s.plane.injectFault = () => ({ status: 429, text: "{}", headers: { "retry-after": "40" } });
    s.reporter.record(happened);
    s.ports.advance(1000);
    expect(await s.ports.timer(30_000, 50_000)).toBe(40_000);
  });

  it("queues at most ten thousand events and reports how many it dropped", async () => {
    await using s = await setup();
    s.plane.injectFault = () => ({ status: 503, text: "{}" });
    for (let i = 0; i < 1000; i++) s.reporter.record(happened);
    await s.ports.timer(400, 1000);
    for (let i = 0; i < 12_000; i++) s.reporter.record(happened);
    s.plane.injectFault = () => undefined;
    s.ports.advance(1000);
    await until(() => s.plane.ingest.events.length >= 1000);
    await s.reporter.close();
    expect([s.plane.ingest.events.length, s.plane.ingest.dropped]).toEqual([11_000, 2000]);
  });

  it.each([
    ["strangers send requests without a key", { status: 401, denial: "missing_key", subject: null }],
    ["a former customer uses an expired key", { status: 401, denial: "expired_key" }],
    ["a suspended customer sends requests", { status: 403, denial: "tenant_suspended" }],
  ])("keeps the events of customers while %s", async (_, refused) => {
    await using s = await setup();
    const stranger = { ...happened, ...refused };
    s.plane.injectFault = () => ({ status: 503, text: "{}" });
    for (let i = 0; i < 20_000; i++) s.reporter.record(stranger);
    for (let i = 0; i < 9000; i++) s.reporter.record(happened);
    await s.ports.timer(400, 1000);
    expect(s.dropped.events).toBe(19_000);
    s.plane.injectFault = () => undefined;
    await s.reporter.close();
    const customers = s.plane.ingest.events.filter(({ denial_reason }) => denial_reason === null).length;
    expect([customers, s.plane.ingest.events.length, s.plane.ingest.dropped]).toEqual([9000, 10_000, 19_000]);
    const batches = s.plane.seen.map(({ body }) => body.split(`"${refused.denial}"`).length - 1);
    expect(Math.max(...batches)).toBe(100);
  });

  it("warns when events cannot be delivered and when they are dropped, not for each", async () => {
    await using s = await setup();
    s.plane.injectFault = () => ({ status: 401, text: "{}" });
    for (let i = 0; i < 1000; i++) s.reporter.record(happened);
    await s.ports.timer(400, 1000);
    for (let i = 0; i < 12_000; i++) s.reporter.record(happened);
    const undelivered = { level: "warn", message: "events cannot be delivered", fields: { status: 401, failures: 1 } };
    expect(s.lines.slice(0, 2)).toEqual([
      undelivered,
      { level: "warn", message: "events are dropped", fields: { events: 1 } },
    ]);
    expect(s.lines.length).toBeLessThan(14);
  });

  it("bounds its queue by size too", async () => {
    await using s = await setup();
    s.plane.injectFault = () => ({ status: 503, text: "{}" });
    const long = { ...happened, path: `/${"x".repeat(5000)}` };
    for (let i = 0; i < 9000; i++) s.reporter.record(long);
    s.plane.injectFault = () => undefined;
    await s.reporter.close();
    const sent = s.plane.ingest.events.length;
    expect(sent).toBeLessThan(4500);
    expect(s.plane.ingest.events[0]?.path.length).toBe(2048);
  });

  it("drops a rejected batch, counts it, and continues", async () => {
    await using s = await setup();
    let refuse = true;
    s.plane.injectFault = () => (refuse ? { status: 400, text: "{}" } : undefined);
    s.reporter.record(happened);
    s.ports.advance(1000);
    await until(() => s.lines.some(({ message }) => message === "events were rejected"));
    refuse = false;
    s.reporter.record({ ...happened, path: "/next" });
    await s.reporter.close();
    expect([s.plane.ingest.events.map(({ path }) => path), s.plane.ingest.dropped]).toEqual([["/next"], 1]);
  });

  it("counts an event that it dropped once, also where the batch that reports it is rejected", async () => {
    await using s = await setup();
    s.plane.injectFault = () => ({ status: 503, text: "{}" });
    for (let i = 0; i < 1000; i++) s.reporter.record(happened);
    await s.ports.timer(400, 1000);
    for (let i = 0; i < 12_000; i++) s.reporter.record(happened);
    expect(s.dropped.events).toBe(2000);
    let sent = 0;
    s.plane.injectFault = () => (++sent === 2 ? { status: 400, text: "{}" } : undefined); // the one that reports them
    s.ports.advance(1000);
    await s.reporter.close();
    expect([s.dropped.events, s.plane.ingest.dropped]).toEqual([3000, 3000]);
  });

  it("sends the remaining events on close, and gives up after its timeout", async () => {
    await using s = await setup();
    for (let i = 0; i < 2500; i++) s.reporter.record(happened);
    await s.reporter.close();
    expect(s.plane.ingest.events.length).toBe(2500);
    await using late = await setup();
    late.plane.injectFault = () => "hang";
    late.reporter.record(happened);
    const closed = late.reporter.close();
    await until(() => late.plane.seen.length === 1);
    late.ports.advance(3000);
    await closed;
    expect(late.lines.at(-1)).toMatchObject({
      message: "events were not delivered before closing",
      fields: { events: 1 },
    });
  });

  it("redacts credentials and control characters in a path", async () => {
    await using s = await setup();
    const key = "kr_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX29904bfc";
    for (const path of [
      `/by-key/${key}/x`,
      "/krsk_live_AAECAwQFBgcI",
      "/a\u0000b\ud800c\r\nd",
      "/krill",
      "/acme_live_AAECAwQF",
    ]) {
      s.reporter.record({ ...happened, path });
    }
    await s.reporter.close();
    expect(s.plane.ingest.events.map(({ path }) => path)).toEqual([
      "/by-key/kr_redacted/x",
      "/kr_redacted",
      "/a?b?c??d",
      "/krill",
      "/kr_redacted",
    ]);
  });
});

describe("sampling", () => {
  it("reports its fraction and sets sample_rate on the batch", async () => {
    await using s = await setup({ sampleRate: 0.25 });
    for (let i = 0; i < 400; i++) {
      s.ports.randomValue = (i % 100) / 100;
      s.reporter.record({ ...happened, subject: null, denial: "missing_key" });
    }
    await s.reporter.close();
    expect(s.plane.ingest.events.length).toBe(100);
    expect(s.plane.ingest.events.some((event) => "sample_rate" in event)).toBe(false);
    expect(JSON.parse(s.plane.seen[0]?.body ?? "")).toMatchObject({ sample_rate: 0.25 });
  });

  it("never samples out a key's first admitted event of a UTC day, and reports it with a rate of 1", async () => {
    await using s = await setup({ sampleRate: 0.01 });
    s.ports.randomValue = 0.99;
    const of = (key: number, more: object = {}) =>
      s.reporter.record({ ...happened, subject: { ...happened.subject, keyId: TENANTS[key] ?? "" }, ...more });
    of(0, { denial: "rate_limited", status: 429 });
    for (let i = 0; i < 5; i++) of(0);
    for (let i = 0; i < 5; i++) of(1);
    s.ports.advance(1000);
    await until(() => s.plane.ingest.events.length === 2);
    s.ports.wall += 12 * 3_600_000;
    of(0);
    await s.reporter.close();
    await until(() => s.plane.ingest.events.length === 3);
    expect(
      s.plane.ingest.events.map(({ key_id, sample_rate, denial_reason }) => [key_id, sample_rate, denial_reason]),
    ).toEqual([
      [TENANTS[0], 1, null],
      [TENANTS[1], 1, null],
      [TENANTS[0], 1, null],
    ]);
    expect(JSON.parse(s.plane.seen[0]?.body ?? "")).toMatchObject({ sample_rate: 0.01, key_first_daily: true });
  });

  it("treats a key's next event as its first when the first was dropped", async () => {
    await using s = await setup({ sampleRate: 0.01 });
    s.ports.randomValue = 0.99;
    s.plane.injectFault = () => ({ status: 400, text: "{}" });
    s.reporter.record(happened);
    s.ports.advance(1000);
    await until(() => s.lines.length > 0);
    s.plane.injectFault = () => undefined;
    s.reporter.record(happened);
    await s.reporter.close();
    expect(s.plane.ingest.events.length).toBe(1);
  });
});

describe("the library's name", () => {
  it("is the package's own version", () => {
    const { version } = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as {
      version: string;
    };
    expect(SDK_VERSION).toBe(version);
  });
});
