// What a vendor adds to telemetry: cost, tags, reports of their own, and OpenTelemetry.

import { describe, expect, it } from "vitest";
import type { Context } from "../../src/sdk/context.ts";
import type { ProtectOptions } from "../../src/sdk/protect-options.ts";
import { internalsOf } from "../../src/sdk/internals.ts";
import type { OtelApi } from "../../src/sdk/otel.ts";
import { startTestKeyrack, type TestKeyrack } from "../../harness/sdk/test-keyrack.ts";
import { until } from "../../harness/waiting.ts";

const LIMIT = { id: "all", limit: 100, window_ms: 60_000, algorithm: "sliding", scope: "key" } as const;

async function newKey(instance: TestKeyrack, limits: object[] = []): Promise<string> {
  const { key } = instance.plane.mint({ rate_limits: limits } as never);
  await until(() => instance.keyrack.verify(key).ok);
  return key;
}

/** Sends a request through protect; `handle` runs before its response ends. */
async function pass(
  instance: TestKeyrack,
  key: string,
  options: ProtectOptions,
  handle: (context: Context | null) => void = () => {},
) {
  const guard = internalsOf(instance.keyrack).guard(options);
  const request = { method: "GET", path: "/", authorization: `Bearer ${key}`, apiKey: null };
  const admitted = await guard.admit({}, request);
  handle(admitted.context);
  admitted.done(admitted.denial?.status ?? 200, "/");
  return admitted;
}

/** Closes the library, which sends what is left. */
async function eventsOf(instance: TestKeyrack) {
  await instance.keyrack.close();
  return instance.plane.ingest.events as unknown as Record<string, unknown>[];
}

describe("cost and tags", () => {
  it("are reported with the event, and cost is charged to the limits", async () => {
    await using instance = await startTestKeyrack();
    const key = await newKey(instance, [LIMIT]);
    await pass(instance, key, { cost: () => 7, tags: { region: "eu" } });
    await pass(instance, key, {});
    const [first, second] = await eventsOf(instance);
    expect(first).toMatchObject({ cost: 7, tags: { region: "eu" } });
    expect(second).not.toHaveProperty("cost");
    expect(second).not.toHaveProperty("tags");
    expect(instance.plane.limits.checks.map(({ cost }) => cost)).toEqual([7, 1]);
  });

  it("spend units of a lease, and check what costs more than is left of it", async () => {
    await using instance = await startTestKeyrack();
    const key = await newKey(instance, [LIMIT]);
    for (const cost of [5, 60, 0]) await pass(instance, key, { limits: "lease", cost });
    expect(instance.plane.limits.leases[0]).toMatchObject({ want: 5, granted: 5 });
    const admitted = await pass(instance, key, { limits: "lease", cost: 50 });
    expect(admitted.denial?.status).toBe(429);
    const leased = instance.plane.limits.leases.reduce((sum, { granted, returned }) => sum + granted - returned, 0);
    const checked = instance.plane.limits.checks.reduce((sum, { cost }) => sum + Number(cost), 0);
    expect(leased + checked).toBeGreaterThanOrEqual(65);
  });

  it("of a handler join those of the route, and what is no tag is left out", async () => {
    await using instance = await startTestKeyrack();
    const key = await newKey(instance);
    const tags = { region: "eu", Upper: "x", long: "y".repeat(65), secret: key };
    await pass(instance, key, { tags }, (context) => {
      instance.keyrack.tag(context, { plan: "gold" });
      instance.keyrack.tag(context, { region: "us" });
      instance.keyrack.tag(undefined, { region: "of an unprotected route" });
    });
    await pass(instance, key, {
      tags: () => {
        throw new Error("the vendor's own bug");
      },
    });
    const [first, second] = await eventsOf(instance);
    expect(first?.tags).toEqual({ region: "us", plan: "gold" });
    expect(second).not.toHaveProperty("tags");
  });

  it("that cannot be are refused: options at the start, the result of a function with the request", async () => {
    await using instance = await startTestKeyrack();
    const key = await newKey(instance);
    for (const options of [{ cost: 1001 }, { cost: -1 }, { cost: 1.5 }, { tags: null }, { tags: "x" }, { tags: ["a"] }])
      expect(() => internalsOf(instance.keyrack).guard(options as never)).toThrow(TypeError);
    await expect(pass(instance, key, { cost: () => Number.NaN })).rejects.toThrow("cost must be a whole number");
  });
});

describe("report", () => {
  it("reports a request that was decided by verify alone", async () => {
    await using instance = await startTestKeyrack();
    const key = await newKey(instance);
    const verdict = instance.keyrack.verify(key);
    const denied = instance.keyrack.verify("kr_live_wrong");
    const request = { method: "POST", path: "/a", route: "/a", status: 201, durationMs: 5 };
    if (verdict.ok) instance.keyrack.report({ ...request, context: verdict.context, cost: 2, tags: { tier: "a" } });
    if (!denied.ok) instance.keyrack.report({ ...request, denial: denied, status: denied.status });
    const [first, second] = await eventsOf(instance);
    expect(first).toMatchObject({ status: 201, denial_reason: null, cost: 2, tags: { tier: "a" }, method: "POST" });
    expect(first?.key_id).not.toBeNull();
    expect(second).toMatchObject({ status: 401, denial_reason: "invalid_key", key_id: null });
  });

  it("names the key that verify refused, its tenant and its environment, as protect does", async () => {
    await using instance = await startTestKeyrack();
    const env = "test" as const;
    const keys = [
      instance.plane.mint({ env, expires_at: "2020-01-01T00:00:00.000Z" }),
      instance.plane.mint({ env, disabled: "key" }),
      instance.plane.mint({ env, disabled: "tenant" }),
      instance.plane.mint({ env, scopes: ["write"] }),
    ];
    await until(() => instance.keyrack.status().keys === keys.length);
    for (const { key } of keys) {
      const verdict = instance.keyrack.verify(key, { scopes: ["read"] });
      if (!verdict.ok)
        instance.keyrack.report({ denial: verdict, method: "GET", path: "/", status: 403, durationMs: 1 });
    }
    for (const { key } of keys) await pass(instance, key, { scopes: ["read"] });
    const named = (await eventsOf(instance)).map(({ key_id, tenant_id, env, denial_reason, display_prefix }) => {
      return { key_id, tenant_id, env, denial_reason, display_prefix };
    });
    expect(named.slice(0, 4)).toEqual(named.slice(4));
    expect(named.slice(0, 4).map(({ key_id, denial_reason }) => [key_id, denial_reason])).toEqual([
      [keys[0]?.id, "expired_key"],
      [keys[1]?.id, "key_disabled"],
      [keys[2]?.id, "tenant_suspended"],
      [keys[3]?.id, "insufficient_scope"],
    ]);
    expect(named[0]).toMatchObject({ tenant_id: instance.plane.tenantId, env: "test" });
  });

  it("never throws: invalid requests count as dropped, the first is logged, and the next one is reported", async () => {
    await using instance = await startTestKeyrack();
    const request = { method: "GET", path: "/a", status: 200, durationMs: 1 };
    instance.keyrack.report({ ...request, cost: 1.5 });
    instance.keyrack.report({ ...request, path: undefined as unknown as string });
    instance.keyrack.report(undefined as never);
    instance.keyrack.report(request);
    expect(await eventsOf(instance)).toHaveLength(1);
    expect(instance.plane.ingest.dropped).toBe(3);
    expect(instance.lines.filter(({ message }) => message === "a request was not reported")).toMatchObject([
      { level: "error", fields: { why: expect.stringContaining("cost must be") as string } },
    ]);
  });
});

type Call = [name: string, ...args: unknown[]];

/** Records every call of the API. */
function fakeOtel(calls: Call[]): OtelApi {
  const counter = (name: string) => ({ add: (...args: unknown[]) => void calls.push([name, ...args]) });
  const span = (name: string) => ({
    setAttributes: (attributes: unknown) => calls.push([`${name} attributes`, attributes]),
    end: () => void calls.push([`${name} end`]),
  });
  return {
    SpanKind: { CLIENT: 2 },
    trace: {
      getActiveSpan: () => span("active"),
      getTracer: () => ({
        startSpan: (name, options) => {
          calls.push([`${name} start`, options]);
          return span(name);
        },
      }),
    },
    metrics: {
      getMeter: () => ({
        createCounter: counter,
        createHistogram: (name) => ({ record: (value) => void calls.push([name, typeof value]) }),
        createObservableGauge: (name) => ({
          addCallback: (read) => {
            calls.push([`${name} added`, read]);
            read({ observe: (value) => void calls.push([name, value]) });
          },
          removeCallback: (read) => void calls.push([`${name} removed`, read]),
        }),
      }),
    },
  };
}

describe("OpenTelemetry", () => {
  it("gets attributes, a span around limits, and metrics without ids", async () => {
    const calls: Call[] = [];
    await using instance = await startTestKeyrack({ options: { otel: fakeOtel(calls) } });
    const key = await newKey(instance, [LIMIT]);
    await pass(instance, key, {});
    await pass(instance, "kr_live_wrong", {});
    const requests = calls.filter(([name]) => name === "keyrack.requests").map(([, , attributes]) => attributes);
    expect(requests).toEqual([
      { outcome: "allowed", env: "live" },
      { outcome: "invalid_key", env: "live" },
    ]);
    const spans = calls.filter(([name]) => name.startsWith("keyrack.limits")).map(([name]) => name);
    expect(spans).toEqual(["keyrack.limits start", "keyrack.limits end", "keyrack.limits.duration"]);
    const [attributes] = calls.filter(([name]) => name === "active attributes").map(([, given]) => given);
    expect(Object.keys(attributes as object)).toEqual([
      "keyrack.key_id",
      "keyrack.tenant_id",
      "keyrack.project_id",
      "keyrack.env",
      "keyrack.outcome",
      "keyrack.degraded",
    ]);
    expect(JSON.stringify(calls)).not.toContain(key);
  });

  it("no longer reads the age of the policy after close(), which would keep the policy in memory", async () => {
    const calls: Call[] = [];
    const instance = await startTestKeyrack({ options: { otel: fakeOtel(calls) } });
    const read = (what: string) =>
      calls.filter(([name]) => name === `keyrack.policy.age ${what}`).map(([, one]) => one);
    expect(read("removed")).toEqual([]);
    await instance[Symbol.asyncDispose]();
    expect([read("removed").length, read("removed")[0] === read("added")[0]]).toEqual([1, true]);
  });

  it("that throws is logged once and changes nothing", async () => {
    const broken = fakeOtel([]);
    broken.trace.getActiveSpan = () => {
      throw new Error("broken");
    };
    await using instance = await startTestKeyrack({ options: { otel: broken } });
    const key = await newKey(instance);
    for (let i = 0; i < 3; i++) expect((await pass(instance, key, {})).denial).toBeNull();
    expect(instance.lines.filter(({ message }) => message.startsWith("OpenTelemetry failed"))).toHaveLength(1);
    await using never = await startTestKeyrack({ options: { otel: {} as OtelApi } });
    expect((await pass(never, await newKey(never), {})).denial).toBeNull();
  });
});
