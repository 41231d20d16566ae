// A vendor's app under traffic while the control plane dies and comes back, and a fleet that acknowledges a revocation.

import { describe, expect, it } from "vitest";
import { apps } from "../../harness/sdk/apps.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { ManualPorts, waitUntil } from "../../harness/sdk/ports.ts";
import { startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";

describe("the control plane dies under a running app", () => {
  it("no request fails that should pass, degraded turns true, and what was revoked meanwhile is refused after", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const [kept, revoked] = [plane.mint().key, plane.mint().key];
    await using r = await startTestKeyrack({ plane, ports });
    const app = await (apps["express"] as NonNullable<(typeof apps)["express"]>)(r.keyrack, async () => ({
      status: 200,
      body: "",
    }));
    const me = async (key: string) => {
      const answer = await fetch(`${app.url}/me`, { headers: { authorization: `Bearer ${key}` } });
      const { keyrack } = (await answer.json()) as { keyrack?: { degraded: boolean } };
      return [answer.status, keyrack?.degraded];
    };
    expect([await me(kept), await me(revoked)]).toEqual([
      [200, false],
      [200, false],
    ]);
    await plane.down();
    // The feed fails and backs off, over and over; traffic goes on.
    for (let failures = 0; failures < 8; failures++) {
      expect(await me(kept)).toEqual([200, ports.mono > 31_000]);
      ports.advance(5000);
    }
    expect(ports.mono).toBeGreaterThan(31_000);
    expect(await me(kept)).toEqual([200, true]);
    plane.revoke(revoked);
    await plane.up();
    ports.advance(10_000);
    await waitUntil(() => r.keyrack.status().version === plane.feed.version);
    expect([await me(kept), (await me(revoked))[0]]).toEqual([[200, false], 401]);
    await app.close();
  });
});

describe("the secret key is revoked under a running app", () => {
  it("the policy in force goes on deciding, grows old, and the log says why", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const { key } = plane.mint();
    await using r = await startTestKeyrack({ plane, ports });
    plane.injectFault = ({ path }) =>
      path.startsWith("/v1/policy") ? { status: 401, json: { error: { code: "unauthenticated" } } } : undefined;
    plane.mint(); // wakes the long poll, so that the next one is refused
    await waitUntil(() => r.lines.some(({ fields }) => fields["status"] === 401));
    expect(r.keyrack.verify(key)).toMatchObject({ ok: true, context: { verified: true } });
    ports.advance(31_000);
    expect(r.keyrack.verify(key)).toMatchObject({ ok: true, context: { degraded: true } });
    expect(r.lines.find(({ fields }) => fields["status"] === 401)?.level).toBe("warn");
  });
});

describe("a fleet of twenty nodes", () => {
  it("acknowledges a revocation, and every node that has refuses the key", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint();
    const rigs = await Promise.all(Array.from({ length: 20 }, () => startTestKeyrack({ plane })));
    await plane.feed.acknowledged(20);
    plane.revoke(key);
    await plane.feed.acknowledged(20);
    expect(rigs.filter(({ keyrack }) => keyrack.verify(key).ok)).toEqual([]);
    await Promise.all(rigs.map(({ keyrack }) => keyrack.close()));
    expect(plane.feed.nodes.size).toBe(0);
  });
});
