// What the log says while a policy ages: when decisions become degraded, when keys are refused, and when that is over.

import { describe, expect, it } from "vitest";
import { FakeControlPlane } from "../../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../../harness/sdk/ports.ts";
import { startTestKeyrack, type TestKeyrack } from "../../../harness/sdk/test-keyrack.ts";
import { until } from "../../../harness/waiting.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";
import type { Policy } from "../../../src/kernel/policy/policy.ts";
import { PolicyState } from "../../../src/sdk/feed/policy-state.ts";
import type { FailMode, Settings } from "../../../src/sdk/options.ts";

const STALE = "the policy is stale: decisions are degraded";
const FRESH = "the policy is fresh again";
const expired = (effect: string) => `the policy is older than maxStaleMs: ${effect}`;

/** The lines on the policy's age, without those on the feed. */
const aged = ({ lines }: TestKeyrack) =>
  lines.filter(({ message }) => message.startsWith("the policy is")).map(({ level, message }) => [level, message]);

/** Advances until the feed has caught up: the pause after a failure may not be scheduled yet. */
async function recover(instance: TestKeyrack, ports: ManualPorts): Promise<void> {
  await instance.plane.up();
  await until(() => (ports.advance(1000), instance.keyrack.status().version === instance.plane.feed.version));
  await until(() => (ports.advance(1000), !instance.keyrack.status().degraded));
}

describe("the log of an outage", () => {
  it.each<[FailMode, string]>([
    ["closed", "every key is refused"],
    ["open", "keys are admitted unverified"],
  ])("names each change once, and the end, every time: fail mode %s", async (failMode, effect) => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const { key } = plane.mint();
    const options = { failMode, maxStaleMs: 60_000 };
    await using instance = await startTestKeyrack({ plane, ports, options });
    for (let outage = 1; outage <= 2; outage++) {
      instance.lines.length = 0;
      await plane.down();
      await until(() => instance.lines.some(({ message }) => message === "the policy feed failed"));
      ports.advance(29_000 - (instance.keyrack.status().ageMs ?? 0));
      expect(aged(instance)).toEqual([]);
      ports.advance(1001);
      expect(aged(instance)).toEqual([["warn", STALE]]);
      ports.advance(28_000);
      expect(aged(instance)).toHaveLength(1);
      ports.advance(2000);
      expect(instance.keyrack.verify(key)).toMatchObject(
        failMode === "closed" ? { code: "unavailable" } : { ok: true, context: { verified: false } },
      );
      for (let minute = 0; minute < 5; minute++) ports.advance(60_000);
      const broken = [
        ["warn", STALE],
        ["error", expired(effect)],
      ];
      expect(aged(instance)).toEqual(broken);
      expect(instance.lines.find(({ level }) => level === "error")?.fields).toEqual({
        age_ms: 60_001,
        fail_mode: failMode,
      });
      await recover(instance, ports);
      expect(aged(instance)).toEqual([...broken, ["info", FRESH]]);
    }
  });

  it("does not name a policy that is stale between two polls, but does when one fails", () => {
    const ports = new ManualPorts();
    const lines: string[] = [];
    const settings = { staleMs: 30_000, maxStaleMs: DAY_MS, failMode: "closed" } as Settings;
    const state = new PolicyState(settings, ports, (_level, message) => lines.push(message));
    const policy = { version: 1 } as Policy;
    for (let poll = 0; poll < 3; poll++) {
      state.confirm(policy);
      ports.advance(60_000);
      expect(state.degraded).toBe(true);
    }
    expect(lines).toEqual([]);
    state.fail();
    state.fail();
    expect(lines).toEqual([STALE]);
    state.confirm(policy);
    expect(lines).toEqual([STALE, FRESH]);
    state.close();
  });

  it("names the last state only where a suspended machine wakes, and nothing after close()", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    await using instance = await startTestKeyrack({ plane, ports });
    await plane.down();
    ports.setWall(25 * HOUR_MS);
    expect(aged(instance)).toEqual([["error", expired("every key is refused")]]);
    ports.setWall(HOUR_MS);
    const closed = instance.keyrack.close();
    ports.advance(10_000);
    await closed;
    expect(aged(instance)).toHaveLength(1);
  });
});

it.each([
  [401, "error", [1, 2, 4, 6, 7]],
  [503, "warn", [1, 2, 4]],
] as const)("a feed that fails with %i for hours: %s for the failures %o", async (status, level, logged) => {
  await using plane = await FakeControlPlane.start();
  const ports = new ManualPorts();
  await using instance = await startTestKeyrack({ plane, ports, options: { staleMs: DAY_MS } });
  plane.injectFault = ({ path }) => (path.startsWith("/v1/policy") ? { status, text: "{}" } : undefined);
  plane.mint(); // ends the poll in flight
  for (let failures = 1; failures < 7; failures++) {
    const pause = await ports.timer(1, 10_000);
    ports.advance(failures < 5 ? pause : HOUR_MS);
  }
  await ports.timer(1, 10_000);
  const lines = instance.lines.filter(({ message }) => message === "the policy feed failed");
  expect(lines.map((line) => [line.level, line.fields["failures"]])).toEqual(logged.map((failure) => [level, failure]));
});
