// Quotas in protect: a metered key is charged with each request, and later for those that could not be charged.
import { describe, expect, it } from "vitest";
import { FakeControlPlane } from "../../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../../harness/sdk/ports.ts";
import { startTestKeyrack } from "../../../harness/sdk/test-keyrack.ts";
import type { Keyrack } from "../../../src/sdk/instance.ts";
import { internalsOf } from "../../../src/sdk/internals.ts";
import type { KeyrackOptions } from "../../../src/sdk/options.ts";
import { until } from "../../../harness/waiting.ts";

async function metered(left: number | null, options: Partial<KeyrackOptions> = {}, ports?: ManualPorts) {
  const plane = await FakeControlPlane.start();
  plane.limits.quotaLeft = left;
  const { key } = plane.mint({ rate_limits: [], metered: true });
  const instance = await startTestKeyrack({ plane, options, ...(ports && { ports }) });
  return { plane, key, instance, [Symbol.asyncDispose]: () => instance[Symbol.asyncDispose]() };
}

function send(keyrack: Keyrack, key: string, limits: "check" | "lease" | "off" = "check") {
  const guard = internalsOf(keyrack).guard({ limits });
  return guard.admit(null, { method: "GET", path: "/", authorization: `Bearer ${key}`, apiKey: null });
}

describe("a metered key", () => {
  it("is charged to its quotas, which the context and the header fields list", async () => {
    await using s = await metered(2);
    const { context, headers } = await send(s.instance.keyrack, s.key);
    expect(s.plane.limits.checks).toMatchObject([{ key_id: context?.keyId, cost: 1, limits: [], quotas: true }]);
    expect(context?.rateLimit).toEqual([{ id: "calls", limit: 10, windowMs: 0, remaining: 1, resetMs: 5_000 }]);
    expect(headers).toEqual({ "ratelimit-policy": '"calls";q=10', ratelimit: '"calls";r=1;t=5' });
    await send(s.instance.keyrack, s.key, "lease");
    expect(s.plane.limits.quotaLeft).toBe(0);
    await send(s.instance.keyrack, s.key, "off");
    expect(s.plane.limits.checks.length).toBe(2);
  });

  it("is refused with 429 and the quota when nothing is left", async () => {
    await using s = await metered(0);
    s.plane.limits.otherQuota = { id: "calls", amount: 10, remaining: 3, reset_ms: 3_600_000 };
    const { denial } = await send(s.instance.keyrack, s.key);
    expect([denial?.status, denial?.headers["retry-after"]]).toEqual([429, "5"]);
    expect(JSON.parse(denial?.body ?? "")).toEqual({
      error: {
        code: "quota_exceeded",
        message: "This API key has used up its quota.",
        quota: "calls",
        resets_at: expect.stringMatching(/^\d{4}-.*:\d\d\.000Z$/),
      },
    });
    const resetsAt = Date.parse(JSON.parse(denial?.body ?? "").error.resets_at);
    expect(resetsAt).toBeLessThan(Date.now() + 60_000);
  });

  it("is admitted while it cannot be charged, and charged with the next call", async () => {
    await using s = await metered(null);
    const { context, denial } = await send(s.instance.keyrack, s.key);
    expect([denial, context?.degraded]).toEqual([null, true]);
    await send(s.instance.keyrack, s.key);
    s.plane.limits.quotaLeft = 10;
    await send(s.instance.keyrack, s.key);
    expect([s.plane.limits.checks[0]?.["owed"], s.plane.limits.quotaLeft]).toEqual([2, 7]);
  });

  it("is charged once for what it owes when the response to that is lost", async () => {
    await using s = await metered(null);
    await send(s.instance.keyrack, s.key);
    s.plane.limits.quotaLeft = 10;
    const owed = () => s.plane.limits.checks.map((check) => check["owed"]);
    s.plane.injectFault = ({ path }) => (path.startsWith("/v1/ratelimit") ? "lose" : undefined);
    await send(s.instance.keyrack, s.key, "check");
    s.plane.injectFault = () => undefined;
    for (let i = 0; i < 2; i++) await send(s.instance.keyrack, s.key);
    // The lost request itself is owed as well: whether it was charged cannot be known.
    expect(owed()).toEqual([1, 2, undefined]);
    const [first, again] = s.plane.limits.checks.map((check) => check["owed_id"]);
    expect(again).toBe(first);
    expect(s.plane.limits.quotaLeft).toBe(10 - 2 - 3);
  });

  it("is charged at the end for what it owes, once, when responses are lost", async () => {
    await using s = await metered(null);
    await send(s.instance.keyrack, s.key);
    s.plane.limits.quotaLeft = 10;
    s.plane.injectFault = ({ path }) => (path.startsWith("/v1/ratelimit") ? "lose" : undefined);
    await send(s.instance.keyrack, s.key);
    s.plane.injectFault = () => undefined;
    await s.instance.keyrack.close();
    expect(s.plane.limits.checks.map(({ cost, owed }) => [cost, owed])).toEqual([
      [1, 1],
      [0, 2],
    ]);
    expect(s.plane.limits.quotaLeft).toBe(10 - 1 - 1 - 1);
  });

  it("does not send what it owes while responses come too late", async () => {
    const ports = new ManualPorts();
    await using s = await metered(10, {}, ports);
    s.plane.injectFault = ({ path }) => (path.startsWith("/v1/ratelimit") ? "hang" : undefined);
    for (const calls of [1, 2]) {
      const late = send(s.instance.keyrack, s.key);
      await until(() => s.plane.seen.filter(({ path }) => path.startsWith("/v1/ratelimit")).length === calls);
      ports.advance(250);
      expect((await late).context?.degraded).toBe(true);
    }
    s.plane.injectFault = () => undefined;
    for (let i = 0; i < 3; i++) await send(s.instance.keyrack, s.key);
    expect(s.plane.limits.checks.map(({ owed }) => owed)).toEqual([undefined, 2, undefined]);
    expect(s.plane.limits.quotaLeft).toBe(5);
  });

  it("is charged for what it owes when the library closes", async () => {
    await using s = await metered(null);
    await send(s.instance.keyrack, s.key);
    s.plane.limits.quotaLeft = 10;
    await s.instance.keyrack.close();
    expect(s.plane.limits.checks).toMatchObject([{ cost: 0, owed: 1 }]);
  });

  it("is refused with 503 while it cannot be charged, where the vendor wants that", async () => {
    await using s = await metered(null, { quotaFailMode: "closed" });
    const { denial } = await send(s.instance.keyrack, s.key);
    expect(denial?.status).toBe(503);
    s.plane.limits.quotaLeft = 10;
    await send(s.instance.keyrack, s.key);
    expect(s.plane.limits.checks[0]).not.toHaveProperty("owed");
  });
});
