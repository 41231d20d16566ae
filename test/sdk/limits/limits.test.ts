// Rate limits: the check endpoint with its 250 ms rule, and leases that never let more through than the limit.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import type { RateLimit } from "../../../src/kernel/ratelimit/rule.ts";
import type { Context } from "../../../src/sdk/index.ts";
import { internalsOf } from "../../../src/sdk/internals.ts";
import { rateLimitHeaders } from "../../../src/sdk/limits/check.ts";
import { FakeControlPlane } from "../../../harness/sdk/control-plane.ts";
import { ManualPorts, waitUntil } from "../../../harness/sdk/ports.ts";
import { startTestKeyrack, type TestKeyrack } from "../../../harness/sdk/test-keyrack.ts";

const rule: RateLimit = { id: "per-minute", limit: 100, window_ms: 60_000, algorithm: "sliding", scope: "key" };
const run = promisify(execFile);

async function limited(rules: RateLimit[], ports?: ManualPorts) {
  const plane = await FakeControlPlane.start();
  const { key } = plane.mint({ rate_limits: rules });
  const r = await startTestKeyrack({ plane, ...(ports && { ports }) });
  return { r, plane, key };
}

function asker(r: TestKeyrack, key: string, limits: "check" | "lease", failMode: "open" | "closed" = "closed") {
  const guard = internalsOf(r.keyrack).guard({ limits, failMode });
  return () => guard.admit(null, { method: "GET", path: "/", authorization: `Bearer ${key}`, apiKey: null });
}

describe('limits: "check"', () => {
  it("sends the key, its tenant, its environment and its rules, and one unit of cost", async () => {
    const tenantRule: RateLimit = { ...rule, id: "tenant.day", scope: "tenant", algorithm: "fixed" };
    const { r, plane, key } = await limited([rule, tenantRule]);
    const { context } = await asker(r, key, "check")();
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
    await r[Symbol.asyncDispose]();
  });

  const wrongs: [string, object | string][] = [
    ["is cut off", "drop"],
    ["answers 503", { status: 503, text: "{}" }],
    ["answers 401", { status: 401, text: "{}" }],
    ["answers nonsense", { status: 200, text: '{"allowed":"no"}' }],
    ["answers about other rules", { status: 200, text: '{"allowed":false,"policies":[]}' }],
  ];
  for (const [what, wrong] of wrongs) {
    it(`admits degraded, in both fail modes, when the endpoint ${what}`, async () => {
      const { r, plane, key } = await limited([rule]);
      plane.injectFault = ({ path }) => (path.startsWith("/v1/ratelimit") ? (wrong as "drop") : undefined);
      for (const mode of ["open", "closed"] as const) {
        for (const limits of ["check", "lease"] as const) {
          const { context, headers, denial } = await asker(r, key, limits, mode)();
          expect([context?.rateLimit, context?.degraded, context?.verified, denial, headers]).toEqual([
            null,
            true,
            true,
            null,
            {},
          ]);
        }
      }
      await r[Symbol.asyncDispose]();
    });
  }

  it("waits 250 ms and not longer for counters that do not answer", async () => {
    const ports = new ManualPorts();
    const { r, plane, key } = await limited([rule], ports);
    plane.injectFault = ({ path }) => (path.startsWith("/v1/ratelimit") ? "hang" : undefined);
    let admitted: Context | null | undefined;
    const asked = asker(r, key, "check")().then(({ context }) => (admitted = context));
    await waitUntil(() => plane.seen.some(({ path }) => path.startsWith("/v1/ratelimit")));
    ports.advance(249);
    await new Promise((resolve) => setImmediate(resolve));
    expect(admitted).toBe(undefined);
    ports.advance(1);
    await asked;
    expect(admitted).toMatchObject({ degraded: true, rateLimit: null });
    await r[Symbol.asyncDispose]();
  });

  it("leaves retry-after out where waiting does not help", async () => {
    const { r, plane, key } = await limited([rule]);
    const policies = [{ id: rule.id, remaining: 0, reset_ms: 0 }];
    const told = { allowed: false, limited_policy: rule.id, retry_after_seconds: null, policies };
    plane.injectFault = ({ path }) =>
      path.startsWith("/v1/ratelimit") ? { status: 200, text: JSON.stringify(told) } : undefined;
    const { denial } = await asker(r, key, "check")();
    expect([denial?.status, denial?.headers["retry-after"]]).toEqual([429, undefined]);
    await r[Symbol.asyncDispose]();
  });

  it("writes the header fields of draft 11: names quoted, seconds rounded up", () => {
    const states = [
      { id: "burst", limit: 10, windowMs: 1500, remaining: 3, resetMs: 1 },
      { id: "per-day", limit: 1_000_000_000, windowMs: 86_400_000, remaining: 0, resetMs: 0 },
    ];
    expect(rateLimitHeaders(states)).toEqual({
      "ratelimit-policy": '"burst";q=10;w=2, "per-day";q=1000000000;w=86400',
      ratelimit: '"burst";r=3;t=1, "per-day";r=0;t=0',
    });
    expect(rateLimitHeaders([])).toEqual({});
  });
});

describe('limits: "lease"', () => {
  it("never admits more than the limit, refuses with the wait, and remembers a refusal without a hop", async () => {
    const { r, plane, key } = await limited([{ ...rule, limit: 50 }]);
    const ask = asker(r, key, "lease");
    const statuses: number[] = [];
    for (let i = 0; i < 80; i++) statuses.push((await ask()).denial?.status ?? 200);
    expect(statuses).toEqual([...Array.from({ length: 50 }, () => 200), ...Array.from({ length: 30 }, () => 429)]);
    const hops = plane.limits.leases.length;
    const { denial } = await ask();
    expect(plane.limits.leases.length - hops).toBeLessThan(2);
    expect(Number(denial?.headers["retry-after"])).toBeGreaterThan(50);
    expect(denial?.headers["ratelimit"]).toMatch(/^"per-minute";r=0;t=\d+$/);
    await r[Symbol.asyncDispose]();
  });

  it("shares one lease among requests that arrive together, each unit once", async () => {
    const { r, plane, key } = await limited([{ ...rule, limit: 64 }]);
    const ask = asker(r, key, "lease");
    const answers = await Promise.all(Array.from({ length: 100 }, () => ask()));
    expect(answers.filter(({ denial }) => denial === null).length).toBe(64);
    expect(answers.filter(({ denial }) => denial?.status === 429).length).toBe(36);
    expect(plane.limits.leases.length).toBeLessThan(6);
    await r[Symbol.asyncDispose]();
  });

  it("asks for more while traffic is dense and for less when units lapse", async () => {
    const ports = new ManualPorts();
    const { r, plane, key } = await limited([{ ...rule, limit: 3200 }], ports);
    plane.limits.now = () => ports.mono;
    const ask = asker(r, key, "lease");
    for (let i = 0; i < 300; i++) await ask();
    const wants = plane.limits.leases.map(({ want }) => want);
    expect(wants.slice(0, 6)).toEqual([1, 2, 4, 8, 16, 32]);
    expect(Math.max(...wants)).toBeLessThanOrEqual(200);
    const before = Math.max(...wants);
    for (let i = 0; i < 4; i++) {
      ports.advance(6000);
      await ask();
    }
    expect(plane.limits.leases.at(-1)?.want).toBeLessThan(before / 4);
    await r[Symbol.asyncDispose]();
  });

  it("spends nothing after a lease's end, counted from before it was asked for", async () => {
    const ports = new ManualPorts();
    const { r, plane, key } = await limited([{ ...rule, limit: 3200 }], ports);
    plane.limits.now = () => ports.mono;
    const ask = asker(r, key, "lease");
    for (let i = 0; i < 20; i++) await ask();
    const leases = plane.limits.leases.length;
    // Past the end, by the monotonic clock alone and with no timer run.
    ports.mono += 6001;
    await ask();
    expect(plane.limits.leases.length).toBe(leases + 1);
    await r[Symbol.asyncDispose]();
  });

  it("returns what is left before the lease ends, and at close", async () => {
    const ports = new ManualPorts();
    const { r, plane, key } = await limited([{ ...rule, limit: 3200 }], ports);
    plane.limits.now = () => ports.mono;
    const ask = asker(r, key, "lease");
    for (let i = 0; i < 20; i++) await ask();
    ports.advance(4900);
    await waitUntil(() => plane.limits.leases.some(({ returned }) => returned > 0));
    const charged = () => plane.limits.leases.reduce((sum, { granted, returned }) => sum + granted - returned, 0);
    expect(charged()).toBe(20);
    for (let i = 0; i < 3; i++) await ask();
    await r.keyrack.close();
    expect(charged()).toBe(23);
    await r[Symbol.asyncDispose]();
  });

  it("checks each request where the control plane knows no leases", async () => {
    const { r, plane, key } = await limited([{ ...rule, limit: 2 }]);
    plane.limits.leasesKnown = false;
    const ask = asker(r, key, "lease");
    const statuses = [await ask(), await ask(), await ask()].map(({ denial }) => denial?.status ?? 200);
    expect(statuses).toEqual([200, 200, 429]);
    expect(plane.limits.checks.length).toBe(3);
    await r[Symbol.asyncDispose]();
  });

  it("starts afresh when the key's rules change", async () => {
    const { r, plane, key } = await limited([{ ...rule, limit: 320 }]);
    const ask = asker(r, key, "lease");
    for (let i = 0; i < 10; i++) await ask();
    plane.feed.upsert(key, { rate_limits: [{ ...rule, limit: 1, id: "tight" }] });
    await waitUntil(() => r.keyrack.status().version === plane.feed.version);
    expect([await ask(), await ask()].map(({ denial }) => denial?.status ?? 200)).toEqual([200, 429]);
    await r[Symbol.asyncDispose]();
  });

  it("keeps eight processes together under the limit in every window", async () => {
    await using plane = await FakeControlPlane.start();
    const [limit, window_ms] = [40, 3000];
    const { key } = plane.mint({ rate_limits: [{ ...rule, limit, window_ms }] });
    const env = {
      ...process.env,
      PLANE_URL: plane.url,
      SECRET_KEY: plane.secretKey,
      PROJECT_ID: plane.projectId,
      KEY: key,
    };
    const script = new URL("../../../harness/sdk/spender.ts", import.meta.url).pathname;
    const children = Array.from({ length: 8 }, () => run(process.execPath, [script], { env }));
    // Three windows full, then the key is revoked and every process ends.
    await waitUntil(() => plane.limits.leases.reduce((sum, { granted }) => sum + granted, 0) >= 3 * limit);
    plane.revoke(key);
    const all = (await Promise.all(children)).map(
      ({ stdout }) => JSON.parse(stdout) as { spent: number[]; degraded: number },
    );
    const spent = all.flatMap((one) => one.spent).toSorted((a, b) => a - b);
    let from = 0;
    let most = 0;
    for (let to = 0; to < spent.length; to++) {
      while ((spent[to] ?? 0) - (spent[from] ?? 0) >= window_ms) from++;
      most = Math.max(most, to - from + 1);
    }
    expect(most).toBeLessThanOrEqual(limit);
    expect(most).toBeGreaterThan(0);
    expect(all.map(({ degraded }) => degraded)).toEqual(Array.from({ length: 8 }, () => 0));
  });
});
