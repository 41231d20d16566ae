// Rate limits: the check endpoint with its 250 ms timeout, and leases that never admit more than the limit.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import type { RateLimit } from "../../../src/kernel/ratelimit/rule.ts";
import type { Context } from "../../../src/sdk/index.ts";
import { internalsOf } from "../../../src/sdk/internals.ts";
import { FakeControlPlane } from "../../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../../harness/sdk/ports.ts";
import { until } from "../../../harness/waiting.ts";
import { startTestKeyrack, type TestKeyrack } from "../../../harness/sdk/test-keyrack.ts";

const rule: RateLimit = { id: "per-minute", limit: 100, window_ms: 60_000, algorithm: "sliding", scope: "key" };
const run = promisify(execFile);
const UNUSABLE_LEASE = '{"granted":1,"policies":[{"id":"per-minute","remaining":1,"reset_ms":1}]}';

async function limited(rules: RateLimit[], ports?: ManualPorts) {
  const plane = await FakeControlPlane.start();
  const { key } = plane.mint({ rate_limits: rules });
  const instance = await startTestKeyrack({ plane, ...(ports && { ports }) });
  return { instance, plane, key };
}

function requester(
  instance: TestKeyrack,
  key: string,
  limits: "check" | "lease",
  failMode: "open" | "closed" = "closed",
) {
  const guard = internalsOf(instance.keyrack).guard({ limits, failMode });
  return () => guard.admit(null, { method: "GET", path: "/", authorization: `Bearer ${key}`, apiKey: null });
}

describe('limits: "check"', () => {
  it("sends the key, its tenant, its environment and its rules, and one unit of cost", async () => {
    const tenantRule: RateLimit = { ...rule, id: "tenant.day", scope: "tenant", algorithm: "fixed" };
    const { instance, plane, key } = await limited([rule, tenantRule]);
    const { context } = await requester(instance, key, "check")();
    expect(plane.limits.checks).toEqual([
      {
        project_id: plane.projectId,
        env: "live",
        key_id: context?.keyId,
        tenant_id: plane.tenantId,
        cost: 1,
        limits: [rule, tenantRule],
      },
    ]);
    expect(context?.rateLimit).toEqual([
      { id: "per-minute", limit: 100, windowMs: 60_000, remaining: 99, resetMs: 60_000 },
      { id: "tenant.day", limit: 100, windowMs: 60_000, remaining: 99, resetMs: 60_000 },
    ]);
    await instance[Symbol.asyncDispose]();
  });

  const wrongs: [string, object | string][] = [
    ["drops the connection", "drop"],
    ["responds 503", { status: 503, text: "{}" }],
    ["responds 401", { status: 401, text: "{}" }],
    ["responds with HTML", { status: 200, text: "<html>" }],
    ...["{}", "null", "[]", '"x"', '{"allowed":"no"}', '{"allowed":false,"policies":[]}', UNUSABLE_LEASE].map(
      (text): [string, object] => [`responds with ${text}`, { status: 200, text }],
    ),
  ];
  for (const [what, wrong] of wrongs) {
    it.each(["check", "lease"] as const)(
      `admits degraded, in both fail modes, and says so when the endpoint ${what}: %s`,
      async (limits) => {
        const { instance, plane, key } = await limited([rule]);
        plane.injectFault = ({ path }) => (path.startsWith("/v1/ratelimit") ? (wrong as "drop") : undefined);
        for (const mode of ["open", "closed"] as const) {
          const { context, headers, denial } = await requester(instance, key, limits, mode)();
          expect(context).toMatchObject({ rateLimit: null, degraded: true, verified: true });
          expect([denial, headers]).toEqual([null, {}]);
        }
        const logged = instance.lines.filter(({ message }) => message.startsWith("rate limits cannot be checked"));
        expect(logged).toMatchObject([{ level: "warn", fields: { failures: 1 } }]);
        await instance[Symbol.asyncDispose]();
      },
    );
  }

  it("waits 250 ms and no longer for counters that do not respond", async () => {
    const ports = new ManualPorts();
    const { instance, plane, key } = await limited([rule], ports);
    plane.injectFault = ({ path }) => (path.startsWith("/v1/ratelimit") ? "hang" : undefined);
    let admitted: Context | null | undefined;
    const pending = requester(instance, key, "check")().then(({ context }) => (admitted = context));
    await until(() => plane.seen.some(({ path }) => path.startsWith("/v1/ratelimit")));
    ports.advance(249);
    await new Promise((resolve) => setImmediate(resolve));
    expect(admitted).toBe(undefined);
    ports.advance(1);
    await pending;
    expect(admitted).toMatchObject({ degraded: true, rateLimit: null });
    await instance[Symbol.asyncDispose]();
  });

  for (const limits of ["check", "lease"] as const) {
    it(`admits at once after five timeouts in a row, and tries every 100 ms (${limits})`, async () => {
      await using plane = await FakeControlPlane.start();
      const ports = new ManualPorts();
      const { key } = plane.mint({ rate_limits: [rule] });
      await using instance = await startTestKeyrack({ plane, ports });
      const guard = internalsOf(instance.keyrack).guard({ limits });
      const send = () => guard.admit(null, { method: "GET", path: "/", authorization: `Bearer ${key}`, apiKey: null });
      const calls = () => plane.seen.filter(({ path }) => path.startsWith("/v1/ratelimit")).length;
      plane.injectFault = ({ path }) => (path.startsWith("/v1/ratelimit") ? "hang" : undefined);
      for (let i = 1; i <= 5; i++) {
        const waiting = send();
        await until(() => calls() === i);
        ports.advance(250);
        expect((await waiting).context).toMatchObject({ degraded: true, rateLimit: null });
      }
      for (let i = 0; i < 3; i++) expect((await send()).context).toMatchObject({ degraded: true, rateLimit: null });
      expect(calls()).toBe(5);
      plane.injectFault = () => undefined;
      ports.advance(100);
      expect((await send()).context).toMatchObject({ degraded: false, rateLimit: [{ id: rule.id }] });
      expect(calls()).toBe(6);
      expect(instance.lines.filter(({ message }) => message.startsWith("rate limits cannot be checked"))).toMatchObject(
        [{ level: "warn", fields: { failures: 1 } }],
      );
    });
  }

  it("keeps checking after one pause, however many calls it made time out", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const { key } = plane.mint({ rate_limits: [rule] });
    await using instance = await startTestKeyrack({ plane, ports });
    const guard = internalsOf(instance.keyrack).guard({ limits: "check" });
    const send = () => guard.admit(null, { method: "GET", path: "/", authorization: `Bearer ${key}`, apiKey: null });
    const calls = () => plane.seen.filter(({ path }) => path.startsWith("/v1/ratelimit")).length;
    plane.injectFault = ({ path }) => (path.startsWith("/v1/ratelimit") ? "hang" : undefined);
    const early = Array.from({ length: 10 }, send);
    await until(() => calls() === 10);
    ports.advance(100);
    const late = Array.from({ length: 10 }, send);
    await until(() => calls() === 20);
    ports.advance(150);
    for (const each of early) expect((await each).context).toMatchObject({ degraded: true, rateLimit: null });
    ports.advance(100);
    for (const each of late) expect((await each).context).toMatchObject({ degraded: true, rateLimit: null });
    plane.injectFault = () => undefined;
    expect((await send()).context).toMatchObject({ degraded: false, rateLimit: [{ id: rule.id }] });
    expect(calls()).toBe(21);
  });

  it("omits retry-after where waiting does not help", async () => {
    const { instance, plane, key } = await limited([rule]);
    const policies = [{ id: rule.id, remaining: 0, reset_ms: 0 }];
    const result = { allowed: false, limited_policy: rule.id, retry_after_seconds: null, policies };
    plane.injectFault = ({ path }) =>
      path.startsWith("/v1/ratelimit") ? { status: 200, text: JSON.stringify(result) } : undefined;
    const { denial } = await requester(instance, key, "check")();
    expect([denial?.status, denial?.headers["retry-after"]]).toEqual([429, undefined]);
    await instance[Symbol.asyncDispose]();
  });
});

describe('limits: "lease"', () => {
  it("never admits more than the limit, denies with the wait, and remembers a denial without a request", async () => {
    const { instance, plane, key } = await limited([{ ...rule, limit: 50 }]);
    const send = requester(instance, key, "lease");
    const statuses: number[] = [];
    for (let i = 0; i < 80; i++) statuses.push((await send()).denial?.status ?? 200);
    expect(statuses).toEqual([...Array.from({ length: 50 }, () => 200), ...Array.from({ length: 30 }, () => 429)]);
    const hops = plane.limits.leases.length;
    const { denial } = await send();
    expect(plane.limits.leases.length - hops).toBeLessThan(2);
    expect(Number(denial?.headers["retry-after"])).toBeGreaterThan(50);
    expect(denial?.headers["ratelimit"]).toMatch(/^"per-minute";r=0;t=\d+$/);
    await instance[Symbol.asyncDispose]();
  });

  it("shares one lease among requests that arrive together, each unit once", async () => {
    const { instance, plane, key } = await limited([{ ...rule, limit: 64 }]);
    const send = requester(instance, key, "lease");
    const results = await Promise.all(Array.from({ length: 100 }, () => send()));
    expect(results.filter(({ denial }) => denial === null).length).toBe(64);
    expect(results.filter(({ denial }) => denial?.status === 429).length).toBe(36);
    expect(plane.limits.leases.length).toBeLessThan(6);
    await instance[Symbol.asyncDispose]();
  });

  it("requests more units under dense traffic and fewer when units lapse", async () => {
    const ports = new ManualPorts();
    const { instance, plane, key } = await limited([{ ...rule, limit: 3200 }], ports);
    plane.limits.now = () => ports.mono;
    const send = requester(instance, key, "lease");
    for (let i = 0; i < 300; i++) await send();
    const wants = plane.limits.leases.map(({ want }) => want);
    expect(wants.slice(0, 6)).toEqual([1, 2, 4, 8, 16, 32]);
    expect(Math.max(...wants)).toBeLessThanOrEqual(200);
    const before = Math.max(...wants);
    for (let i = 0; i < 4; i++) {
      ports.advance(6000);
      await send();
    }
    expect(plane.limits.leases.at(-1)?.want).toBeLessThan(before / 4);
    await instance[Symbol.asyncDispose]();
  });

  it("spends nothing after a lease's end, measured from before the request for it", async () => {
    const ports = new ManualPorts();
    const { instance, plane, key } = await limited([{ ...rule, limit: 3200 }], ports);
    plane.limits.now = () => ports.mono;
    const send = requester(instance, key, "lease");
    for (let i = 0; i < 20; i++) await send();
    const leases = plane.limits.leases.length;
    // Past the end by the monotonic clock alone, without running a timer.
    ports.mono += 6001;
    await send();
    expect(plane.limits.leases.length).toBe(leases + 1);
    await instance[Symbol.asyncDispose]();
  });

  it("returns unused units before the lease ends, and on close", async () => {
    const ports = new ManualPorts();
    const { instance, plane, key } = await limited([{ ...rule, limit: 3200 }], ports);
    plane.limits.now = () => ports.mono;
    const send = requester(instance, key, "lease");
    for (let i = 0; i < 20; i++) await send();
    ports.advance(4900);
    await until(() => plane.limits.leases.some(({ returned }) => returned > 0));
    const charged = () => plane.limits.leases.reduce((sum, { granted, returned }) => sum + granted - returned, 0);
    expect(charged()).toBe(20);
    for (let i = 0; i < 3; i++) await send();
    await instance.keyrack.close();
    expect(charged()).toBe(23);
    await instance[Symbol.asyncDispose]();
  });

  it("checks each request when the control plane does not support leases", async () => {
    const { instance, plane, key } = await limited([{ ...rule, limit: 2 }]);
    plane.limits.supportsLeases = false;
    const send = requester(instance, key, "lease");
    const statuses = [await send(), await send(), await send()].map(({ denial }) => denial?.status ?? 200);
    expect(statuses).toEqual([200, 200, 429]);
    expect(plane.limits.checks.length).toBe(3);
    await instance[Symbol.asyncDispose]();
  });

  it("takes a new lease when the key's rules change", async () => {
    const { instance, plane, key } = await limited([{ ...rule, limit: 320 }]);
    const send = requester(instance, key, "lease");
    for (let i = 0; i < 10; i++) await send();
    plane.feed.upsert(key, { rate_limits: [{ ...rule, limit: 1, id: "tight" }] });
    await until(() => instance.keyrack.status().version === plane.feed.version);
    expect([await send(), await send()].map(({ denial }) => denial?.status ?? 200)).toEqual([200, 429]);
    await instance[Symbol.asyncDispose]();
  });

  it("keeps the total of two processes under the limit in every window", async () => {
    await using plane = await FakeControlPlane.start();
    const [limit, window_ms] = [40, 1000];
    const { key } = plane.mint({ rate_limits: [{ ...rule, limit, window_ms }] });
    const env = {
      ...process.env,
      PLANE_URL: plane.url,
      SECRET_KEY: plane.secretKey,
      PROJECT_ID: plane.projectId,
      KEY: key,
    };
    const script = new URL("../../../harness/sdk/spender.ts", import.meta.url).pathname;
    const children = Array.from({ length: 2 }, () => run(process.execPath, [script], { env }));
    // After two full windows the key is revoked and every process ends.
    await until(() => plane.limits.leases.reduce((sum, { granted }) => sum + granted, 0) >= 2 * limit);
    plane.revoke(key);
    const all = (await Promise.all(children)).map(
      ({ stdout }) => JSON.parse(stdout) as { spent: [before: number, after: number][]; degraded: number },
    );
    // Each was decided between its two times: only those that were certainly within one window count.
    const spent = all.flatMap((one) => one.spent);
    const most = Math.max(
      ...spent.map(([from]) => spent.filter(([before, after]) => before >= from && after < from + window_ms).length),
    );
    expect(most).toBeLessThanOrEqual(limit);
    expect(spent.length).toBeGreaterThan(limit);
    expect(all.map(({ degraded }) => degraded)).toEqual([0, 0]);
  });
});
