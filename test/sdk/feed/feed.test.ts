// The feed client: how it follows the policy, how it behaves during an outage, and what it reports.

import { describe, expect, it } from "vitest";
import { KeyrackError } from "../../../src/sdk/index.ts";
import { createKeyrackWith } from "../../../src/sdk/keyrack.ts";
import { FakeControlPlane } from "../../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../../harness/sdk/ports.ts";
import { until } from "../../../harness/waiting.ts";
import { startTestKeyrack } from "../../../harness/sdk/test-keyrack.ts";

const feedCalls = (plane: FakeControlPlane) => plane.seen.filter(({ path }) => path.startsWith("/v1/policy/"));

describe("the feed", () => {
  it("loads every key of a snapshot of several pages", async () => {
    await using plane = await FakeControlPlane.start();
    plane.feed.ceiling = 7;
    const keys = Array.from({ length: 30 }, () => plane.mint().key);
    await using instance = await startTestKeyrack({ plane });
    expect(keys.filter((key) => !instance.keyrack.verify(key).ok)).toEqual([]);
    const pages = feedCalls(plane).filter(({ path }) => path.endsWith("snapshot"));
    expect(pages.map(({ query }) => query.has("cursor"))).toEqual([false, true, true, true, true]);
    expect(pages[0]?.query.get("max_keys")).toBe("10000");
  });

  it("uses nothing of a snapshot until its last page is loaded", async () => {
    await using plane = await FakeControlPlane.start();
    plane.feed.ceiling = 1;
    const [first] = [plane.mint().key, plane.mint().key];
    let openGate = () => {};
    const gate = new Promise<undefined>((resolve) => (openGate = () => resolve(undefined)));
    plane.injectFault = ({ query }) => (query.has("cursor") ? gate : undefined);
    await using instance = await startTestKeyrack({ plane, ready: false });
    await until(() => feedCalls(plane).length === 2);
    expect(instance.keyrack.verify(first)).toMatchObject({ code: "unavailable" });
    openGate();
    await instance.keyrack.ready();
    expect(instance.keyrack.verify(first).ok).toBe(true);
  });

  it("learns of new, changed and revoked keys by long poll, at once", async () => {
    await using instance = await startTestKeyrack();
    const { key } = instance.plane.mint({ scopes: ["a"] });
    await until(() => instance.keyrack.verify(key).ok);
    instance.plane.feed.upsert(key, { scopes: ["b"] });
    await until(() => instance.keyrack.verify(key, { scopes: ["b"] }).ok);
    instance.plane.revoke(key);
    await until(() => !instance.keyrack.verify(key).ok);
    const waits = feedCalls(instance.plane).flatMap(({ query }) => query.get("wait_ms") ?? []);
    expect(new Set(waits)).toEqual(new Set(["10000"]));
  });

  it("acknowledges each version under its node id, and reports when it leaves", async () => {
    await using plane = await FakeControlPlane.start();
    const instance = await startTestKeyrack({ plane, options: { nodeId: "node-1" } });
    plane.mint();
    await plane.feed.acknowledged(1);
    expect(plane.feed.nodes.get("node-1")).toBe(plane.feed.version);
    await instance.keyrack.close();
    expect([...plane.feed.nodes]).toEqual([]);
    expect(feedCalls(plane).at(-1)?.query.get("leaving")).toBe("true");
  });

  it("reports that it leaves also where it closes right after its first policy, or before it", async () => {
    await using plane = await FakeControlPlane.start();
    const after = await startTestKeyrack({ plane });
    await after.keyrack.close();
    expect(feedCalls(plane).at(-1)?.query.get("leaving")).toBe("true");
    plane.injectFault = ({ path }) => (path === "/v1/policy/snapshot" ? "hang" : undefined);
    const before = await startTestKeyrack({ plane, ready: false });
    await until(() => feedCalls(plane).at(-1)?.path === "/v1/policy/snapshot");
    await before.keyrack.close();
    expect(feedCalls(plane).at(-1)?.query.get("leaving")).toBe("true");
    expect([...plane.feed.nodes]).toEqual([]);
  });

  it("sends nothing where it closes before its first call", async () => {
    await using plane = await FakeControlPlane.start();
    await createKeyrackWith(plane.options).close();
    expect(plane.seen).toEqual([]);
  });

  it("has a different node id in every instance", async () => {
    await using plane = await FakeControlPlane.start();
    await using a = await startTestKeyrack({ plane });
    await using b = await startTestKeyrack({ plane });
    const ids = new Set(feedCalls(a.plane).map(({ query }) => query.get("node")));
    expect(ids.size).toBe(2);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9._:-]{1,128}$/);
    expect(b.keyrack.status().version).toBe(1);
  });

  it("polls conditionally, and takes 304 as a confirmation", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports });
    plane.mint();
    await until(() => instance.keyrack.status().version === 2);
    await plane.feed.acknowledged(1);
    ports.advance(9000);
    expect(instance.keyrack.status().ageMs).toBe(9000);
    plane.feed.stop();
    await until(() => instance.keyrack.status().ageMs === 0);
    const tags = feedCalls(plane).map(({ headers }) => headers["if-none-match"]);
    expect(tags).toContain(`W/"delta:${plane.projectId}:all:all:2"`);
  });

  it("follows a delta in parts, and a delta that becomes a paged snapshot", async () => {
    await using plane = await FakeControlPlane.start();
    await using instance = await startTestKeyrack({ plane });
    plane.feed.ceiling = 3;
    const keys = Array.from({ length: 10 }, () => plane.mint().key);
    await until(() => keys.every((key) => instance.keyrack.verify(key).ok));
    plane.revoke(keys[0] ?? "");
    plane.feed.restore(1_000_000);
    await until(() => instance.keyrack.status().version === 1_000_000);
    expect(keys.map((key) => instance.keyrack.verify(key).ok)).toEqual([
      false,
      ...Array.from({ length: 9 }, () => true),
    ]);
  });

  it("restarts from a snapshot when the control plane was restored to an older version", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint();
    for (let i = 0; i < 10; i++) plane.mint();
    await using instance = await startTestKeyrack({ plane });
    plane.feed.entries.clear();
    plane.feed.restore(3);
    await until(() => instance.keyrack.status().version === 3);
    expect(instance.keyrack.verify(key).ok).toBe(false);
  });

  it("revokes keys of a policy that has as many as maxKeys", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint();
    await using instance = await startTestKeyrack({ plane, options: { maxKeys: 1 } });
    plane.revoke(key);
    await until(() => !instance.keyrack.verify(key).ok);
    expect(instance.lines.filter(({ level }) => level !== "debug")).toEqual([]);
  });

  it("rejects every key of a deleted project", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint();
    await using instance = await startTestKeyrack({ plane, options: { failMode: "open" } });
    plane.feed.deleteProject();
    await until(() => !instance.keyrack.verify(key).ok);
    expect(instance.keyrack.verify(key)).toMatchObject({ code: "invalid_key" });
  });

  it("polls on an interval when long polls are not supported", async () => {
    await using plane = await FakeControlPlane.start();
    plane.feed.longPolls = false;
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports, options: { pollMs: 3000 } });
    // The rejected wait_ms costs one back-off; the next response confirms, and from then on the interval applies.
    ports.advance(await ports.timer(100, 600));
    const gap = await ports.timer(2250, 3750);
    const { key } = plane.mint();
    ports.advance(gap);
    await until(() => instance.keyrack.verify(key).ok);
    // Once with the capabilities and once without: either could have been what the server refused.
    expect(feedCalls(plane).filter(({ query }) => query.has("wait_ms")).length).toBe(2);
  });

  it("polls on an interval after a proxy has cut off two long polls", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    plane.injectFault = ({ query }) => (query.has("wait_ms") ? { status: 504, text: "gateway" } : undefined);
    await using instance = await startTestKeyrack({ plane, ports });
    for (let i = 0; i < 2; i++) ports.advance(await ports.timer(100, 600));
    await ports.timer(1500, 2500);
    expect(feedCalls(plane).filter(({ query }) => query.has("wait_ms")).length).toBe(2);
    expect(instance.keyrack.status().degraded).toBe(false);
  });

  it("continues with long polls after a restart behind a proxy, which responds 502 meanwhile", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports });
    const polls = () => feedCalls(plane).map(({ query }) => query.has("wait_ms"));
    await until(() => polls().length === 2);
    plane.injectFault = () => ({ status: 502, text: "bad gateway" });
    plane.mint(); // ends the waiting poll
    for (let i = 0; i < 3; i++) ports.advance(await ports.timer(100, 1600));
    await until(() => polls().length === 6);
    plane.injectFault = () => undefined;
    ports.advance(await ports.timer(2000, 4000));
    await until(() => polls().length === 8);
    expect(polls().slice(2)).toEqual([true, false, false, false, false, true]);
    expect(instance.lines.map(({ message }) => message)).not.toContain(
      "long polls do not work here; polling on an interval",
    );
  });

  it("does not poll in a tight loop when responses come early without a change", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports });
    await until(() => feedCalls(plane).length === 2);
    plane.feed.stop();
    await ports.timer(1500, 2500);
    expect(feedCalls(plane).length).toBe(2);
    expect(instance.keyrack.status().version).toBe(1);
  });
});

describe("during an outage of the control plane", () => {
  it("keeps deciding, becomes degraded after staleMs, and catches up afterwards", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const { key } = plane.mint();
    const other = plane.mint().key;
    await using instance = await startTestKeyrack({ plane, ports });
    await plane.down();
    await ports.timer(100, 600);
    expect(instance.keyrack.verify(key)).toMatchObject({ ok: true, context: { degraded: false } });
    ports.setWall(30_001);
    expect(instance.keyrack.verify(key)).toMatchObject({ ok: true, context: { degraded: true } });
    plane.revoke(other);
    await plane.up();
    ports.advance(10_000);
    await until(() => !instance.keyrack.verify(other).ok);
    expect(instance.keyrack.verify(key)).toMatchObject({ ok: true, context: { degraded: false } });
  });

  it("treats a policy older than maxStaleMs as missing, by either clock", async () => {
    for (const clock of ["wall", "mono"] as const) {
      await using plane = await FakeControlPlane.start();
      const ports = new ManualPorts();
      const { key } = plane.mint();
      await using instance = await startTestKeyrack({ plane, ports, options: { maxStaleMs: 60_000 } });
      await plane.down();
      await ports.timer(100, 600);
      if (clock === "wall") ports.setWall(60_001);
      else {
        // The wall clock is set back while monotonic time continues.
        ports.advance(60_002);
        ports.setWall(-7_200_000);
      }
      expect(instance.keyrack.verify(key)).toMatchObject({ code: "unavailable", status: 503 });
    }
  });

  it("backs off with jitter, up to ten seconds, and honours retry-after", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    plane.injectFault = () => ({ status: 503, text: "{}" });
    await using instance = await startTestKeyrack({ plane, ports, ready: false });
    const waits: number[] = [];
    for (let i = 0; i < 7; i++) {
      waits.push(await ports.timer(1, 29_000));
      ports.advance(waits.at(-1) ?? 0);
      await until(() => plane.seen.length === i + 2);
    }
    expect(waits).toEqual([375, 750, 1500, 3000, 6000, 7500, 7500]);
    plane.injectFault = () => ({ status: 429, text: "{}", headers: { "retry-after": "20" } });
    ports.advance(await ports.timer(1, 29_000));
    expect(await ports.timer(15_000, 20_000)).toBe(20_000);
    expect(instance.lines.filter(({ message }) => message === "the policy feed failed").length).toBeLessThan(6);
  });

  it("rejects ready() when the control plane rejects the request, and waits when it is unreachable", async () => {
    await using plane = await FakeControlPlane.start();
    Object.assign(plane, { secretKey: plane.secretKey });
    plane.injectFault = () => ({ status: 401, text: "{}" });
    await using instance = await startTestKeyrack({ plane, ready: false });
    await expect(instance.keyrack.ready()).rejects.toThrow(/secret key is not accepted/);
    plane.injectFault = () => undefined;
    await instance.keyrack.ready();
    expect(instance.keyrack.status().version).toBe(1);
  });

  it("rejects ready() after its timeout, on close and after it", async () => {
    await using plane = await FakeControlPlane.start();
    plane.injectFault = ({ query }) => (query.has("leaving") ? undefined : "hang");
    const instance = await startTestKeyrack({ plane, ready: false });
    await expect(instance.keyrack.ready({ timeoutMs: 20 })).rejects.toThrow(KeyrackError);
    const waiting = instance.keyrack.ready().catch((error: Error) => error.message);
    await instance.keyrack.close();
    expect(await waiting).toMatch(/closed/);
    await expect(instance.keyrack.ready()).rejects.toThrow(/closed/);
  });

  it("closes at once during a long poll, and is idempotent", async () => {
    await using plane = await FakeControlPlane.start();
    const instance = await startTestKeyrack({ plane });
    await until(() => feedCalls(plane).length === 2);
    await Promise.all([instance.keyrack.close(), instance.keyrack.close()]);
    expect(feedCalls(plane).filter(({ query }) => query.has("leaving")).length).toBe(1);
  });
});
