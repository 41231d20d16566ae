// A feed that sends wrong, malformed or endless responses, or stalls: the library continues, and no decision loosens.

import { describe, expect, it } from "vitest";
import { policyDelta, keyEntry, keyRemoval, policySnapshot } from "../../../harness/sdk/policy-fixtures.ts";
import { FakeControlPlane, type InjectedFault } from "../../../harness/sdk/control-plane.ts";
import type { RecordedRequest } from "../../../harness/sdk/exchange.ts";
import { ManualPorts } from "../../../harness/sdk/ports.ts";
import { until } from "../../../harness/waiting.ts";
import { startTestKeyrack } from "../../../harness/sdk/test-keyrack.ts";

type Fault = (
  request: RecordedRequest,
  plane: FakeControlPlane,
  keys: { good: string; foreign: string },
) => InjectedFault;

const json = (value: unknown): InjectedFault => ({ status: 200, text: JSON.stringify(value) });
const headOf = (plane: FakeControlPlane) => ({ workspace_id: plane.workspaceId, project_id: plane.projectId });

// Each responds to the poll after a good snapshot of version 2, and tries to add a key that was never minted.
const faults: [string, Fault][] = [
  ["text that is not JSON", () => ({ status: 200, text: "<html>welcome</html>" })],
  ["an empty body", () => ({ status: 200, text: "" })],
  ["bytes that are not UTF-8", () => ({ status: 200, text: "\ud800" })],
  ["a number", () => json(7)],
  ["null", () => json(null)],
  ["an error envelope with status 200", () => json({ error: { code: "internal_error", message: "" } })],
  ["a truncated body", () => ({ status: 200, text: '{"object":"policy_delta","changes":[' })],
  ["a redirect", () => ({ status: 302, text: "", headers: { location: "http://127.0.0.1:9/" } })],
  ["a server error", () => ({ status: 500, text: "{}" })],
  ["a 304 for another version", () => ({ status: 304, headers: { etag: 'W/"delta:x:all:all:999"' } })],
  [
    "a delta of another project",
    (_request, plane, { foreign }) =>
      json({ ...policyDelta(2, 3, [upsert(foreign)]), workspace_id: plane.workspaceId }),
  ],
  [
    "a delta of another workspace",
    (_request, plane, { foreign }) => json({ ...policyDelta(2, 3, [upsert(foreign)]), project_id: plane.projectId }),
  ],
  [
    "a delta of another environment",
    (_request, plane, { foreign }) => json({ ...policyDelta(2, 3, [upsert(foreign)]), ...headOf(plane), env: "test" }),
  ],
  [
    "a delta with an older version",
    (_request, plane, { foreign }) => json({ ...policyDelta(2, 1, [upsert(foreign)]), ...headOf(plane) }),
  ],
  [
    "changes without a new version",
    (_request, plane, { foreign }) => json({ ...policyDelta(2, 2, [upsert(foreign)]), ...headOf(plane) }),
  ],
  [
    "a delta since another version",
    (_request, plane, { foreign }) => json({ ...policyDelta(1, 3, [upsert(foreign)]), ...headOf(plane) }),
  ],
  [
    "a valid change and an invalid one",
    (_request, plane, { foreign, good }) =>
      json({ ...policyDelta(2, 3, [upsert(foreign), keyRemoval(good), { change: "upsert" }]), ...headOf(plane) }),
  ],
  [
    "a snapshot whose cursor repeats",
    (request, plane, { foreign }) =>
      json(
        policySnapshot([keyEntry(foreign)], {
          ...headOf(plane),
          version: 9,
          next_cursor: request.query.get("cursor") ?? "c",
        }),
      ),
  ],
  [
    "a snapshot whose pages disagree",
    (request, plane, { foreign }) =>
      request.query.has("cursor")
        ? json(policySnapshot([], { ...headOf(plane), version: 10 }))
        : json(policySnapshot([keyEntry(foreign)], { ...headOf(plane), version: 9, next_cursor: "c" })),
  ],
  [
    "a snapshot that stops midway",
    (request, plane, { foreign }) =>
      request.query.has("cursor")
        ? "drop"
        : json(policySnapshot([keyEntry(foreign)], { ...headOf(plane), version: 9, next_cursor: "c" })),
  ],
  [
    "new cursors with the same key for ever",
    (request, plane, { foreign }) =>
      json(
        policySnapshot([keyEntry(foreign)], {
          ...headOf(plane),
          version: 9,
          next_cursor: request.query.get("cursor")?.length === 40 ? null : `${request.query.get("cursor") ?? ""}x`,
        }),
      ),
  ],
  ["a dropped connection", () => "drop"],
];

describe("a hostile feed", () => {
  for (const [what, fault] of faults) {
    it(`changes nothing with ${what}`, async () => {
      await using plane = await FakeControlPlane.start();
      const ports = new ManualPorts();
      const good = plane.mint({ scopes: ["a"] }).key;
      await using elsewhere = await FakeControlPlane.start();
      const foreign = elsewhere.mint({ scopes: ["a", "admin"] }).key;
      // staleMs is long enough that every timer up to ten seconds away is the feed's own pause.
      await using instance = await startTestKeyrack({
        plane,
        ports,
        options: { failMode: "open", staleMs: 3_000_000 },
      });
      await until(() => plane.seen.length === 2);
      plane.injectFault = (request) => fault(request, plane, { good, foreign });
      plane.feed.stop();
      // After two failures it restarts from a snapshot, which is hostile too.
      for (let polls = 0; polls < 4; polls++) ports.advance(await ports.timer(1, 10_000));
      const pause = await ports.timer(1, 10_000);
      expect(instance.keyrack.verify(foreign)).toMatchObject({ code: "invalid_key" });
      expect(instance.keyrack.verify(good, { scopes: ["a"] }).ok).toBe(true);
      expect(instance.keyrack.verify(good, { scopes: ["admin"] })).toMatchObject({ code: "insufficient_scope" });
      expect(instance.keyrack.status()).toMatchObject({ version: 2, keys: 1 });
      expect(instance.keyrack.status().ageMs).toBeGreaterThan(1000);
      plane.injectFault = () => undefined;
      plane.revoke(good);
      ports.advance(pause);
      await until(() => !instance.keyrack.verify(good).ok);
    });
  }

  it("provides no policy until the first valid snapshot", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint();
    let responses = 0;
    plane.injectFault = () => (responses++ < 2 ? json(policySnapshot([keyEntry(key)])) : undefined);
    await using instance = await startTestKeyrack({ plane, ready: false });
    await until(() => responses === 1);
    expect(instance.keyrack.verify(key)).toMatchObject({ code: "unavailable" });
    await instance.keyrack.ready();
    expect(instance.keyrack.verify(key).ok).toBe(true);
  });

  it("cannot exhaust memory: an oversized body is dropped, and smaller pages are requested", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const huge = " ".repeat(1 << 20).repeat(65);
    plane.injectFault = () => ({ status: 200, text: huge });
    await using instance = await startTestKeyrack({ plane, ports, ready: false });
    ports.advance(await ports.timer(100, 600));
    plane.injectFault = () => undefined;
    await instance.keyrack.ready();
    expect(plane.seen.map(({ query }) => query.get("max_keys")).slice(0, 2)).toEqual(["10000", "5000"]);
  });

  it("cannot load more keys than maxKeys", async () => {
    await using plane = await FakeControlPlane.start();
    for (let i = 0; i < 11; i++) plane.mint();
    await using instance = await startTestKeyrack({ plane, options: { maxKeys: 10 }, ready: false });
    await until(() => instance.lines.some(({ fields }) => fields["why"] === "The snapshot has too many keys."));
    expect(instance.keyrack.status().version).toBe(null);
  });

  it("times out when it stalls, and the policy stays and ages", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const { key } = plane.mint();
    await using instance = await startTestKeyrack({ plane, ports });
    await until(() => plane.seen.length === 2);
    plane.injectFault = ({ query }) => (query.has("leaving") ? undefined : "hang");
    plane.feed.stop();
    ports.advance(await ports.timer(1500, 2500));
    await until(() => plane.seen.length === 3);
    ports.advance(12_001);
    await until(() => instance.lines.some(({ fields }) => fields["why"] === "No response within 12000 ms."));
    expect(instance.keyrack.verify(key).ok).toBe(true);
    plane.injectFault = () => undefined;
  });

  it("never reaches a request, and neither does a log function that throws", async () => {
    await using plane = await FakeControlPlane.start();
    const log = () => {
      throw new Error("the log is broken");
    };
    await using instance = await startTestKeyrack({ plane, options: { log } });
    expect(instance.keyrack.verify("nonsense")).toMatchObject({ code: "invalid_key" });
  });
});

function upsert(key: string) {
  return { change: "upsert", ...keyEntry(key) };
}
