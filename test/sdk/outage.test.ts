// An application under traffic while the control plane fails and recovers, and a fleet that acknowledges a revocation.

import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { apps } from "../../harness/sdk/apps.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { createKeyrackWith } from "../../src/sdk/keyrack.ts";
import { ManualPorts } from "../../harness/sdk/ports.ts";
import { until } from "../../harness/waiting.ts";
import { startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";

describe("a control plane outage", () => {
  it("fails no valid request, becomes degraded, and afterwards rejects keys revoked meanwhile", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const [valid, revoked] = [plane.mint().key, plane.mint().key];
    await using instance = await startTestKeyrack({ plane, ports });
    const app = await (apps["express"] as NonNullable<(typeof apps)["express"]>)(instance.keyrack, async () => ({
      status: 200,
      body: "",
    }));
    const me = async (key: string) => {
      const response = await fetch(`${app.url}/me`, { headers: { authorization: `Bearer ${key}` } });
      const { keyrack } = (await response.json()) as { keyrack?: { degraded: boolean } };
      return [response.status, keyrack?.degraded];
    };
    expect([await me(valid), await me(revoked)]).toEqual([
      [200, false],
      [200, false],
    ]);
    await plane.down();
    // The feed fails and backs off repeatedly while traffic continues.
    for (let failures = 0; failures < 8; failures++) {
      expect(await me(valid)).toEqual([200, ports.mono > 31_000]);
      ports.advance(5000);
    }
    expect(ports.mono).toBeGreaterThan(31_000);
    expect(await me(valid)).toEqual([200, true]);
    plane.revoke(revoked);
    await plane.up();
    ports.advance(10_000);
    await until(() => instance.keyrack.status().version === plane.feed.version);
    expect([await me(valid), (await me(revoked))[0]]).toEqual([[200, false], 401]);
    await app.close();
  });
});

describe("ready() while Keyrack cannot be reached", () => {
  it("waits, says so once in a warning of the process without a log, and resolves when Keyrack is up", async () => {
    await using plane = await FakeControlPlane.start();
    await plane.down();
    const ports = new ManualPorts();
    const { fetch } = ports;
    let calls = 0;
    ports.fetch = (...args) => (calls++, fetch(...args));
    const warnings: Error[] = [];
    const note = (warning: Error) => void warnings.push(warning);
    process.on("warning", note);
    const keyrack = createKeyrackWith(plane.options, ports);
    try {
      let isReady = false;
      const ready = keyrack.ready().then(() => (isReady = true));
      await once(process, "warning");
      await until(() => (ports.advance(200), calls > 3));
      expect(isReady).toBe(false);
      await plane.up();
      await until(() => (ports.advance(200), isReady));
      await ready;
      const own = warnings.filter(({ name }) => name === "KeyrackWarning");
      expect(own.map(({ message }) => message)).toEqual([
        expect.stringContaining("the policy feed failed"),
        expect.stringContaining("the first policy cannot be loaded yet"),
      ]);
      expect(own[1]?.message).toContain(plane.url);
    } finally {
      process.off("warning", note);
      await keyrack.close();
    }
  });
});

describe("a revoked secret key", () => {
  it("leaves the policy in force, which ages, and is logged", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const { key } = plane.mint();
    await using instance = await startTestKeyrack({ plane, ports });
    plane.injectFault = ({ path }) =>
      path.startsWith("/v1/policy") ? { status: 401, json: { error: { code: "unauthenticated" } } } : undefined;
    plane.mint(); // wakes the long poll, so that the next one is rejected
    await until(() => instance.lines.some(({ fields }) => fields["status"] === 401));
    expect(instance.keyrack.verify(key)).toMatchObject({ ok: true, context: { verified: true } });
    ports.advance(31_000);
    expect(instance.keyrack.verify(key)).toMatchObject({ ok: true, context: { degraded: true } });
    expect(instance.lines.find(({ fields }) => fields["status"] === 401)?.level).toBe("error");
  });
});

describe("a fleet of twenty nodes", () => {
  it("acknowledges a revocation, and every node that did rejects the key", async () => {
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
