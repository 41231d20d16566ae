// The pause between two wakes of the polls of a project.
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { turns } from "../../../harness/waiting.ts";
import { NEVER_DISCONNECTS, Subscription } from "../../../src/domain/core/subscription.ts";
import type { Head } from "../../../src/domain/policy/head.ts";
import { Waiters } from "../../../src/domain/policy/waiters.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

// A pause of 50 ms would be over on a busy machine before it is read.
beforeEach(() => void vi.spyOn(performance, "now").mockReturnValue(1_000));
afterEach(() => void vi.restoreAllMocks());

/**
 * The pause after a wake of this many polls, when one comes back after others while other work has kept the process
 * busy.
 */
const pauseAfter = async (polls: number, active: number, others = 0) => {
  const waiters = new Waiters(async () => ({ version: 4 }) as Head);
  const newPoll = () => new Subscription<Head>(HOUR_MS, NEVER_DISCONNECTS, () => {});
  const woken = Array.from({ length: polls }, newPoll);
  for (const poll of woken) waiters.add(poll, 3);
  waiters.wake(4);
  await woken.at(-1)?.changed();
  await turns(2);
  const busy = vi.spyOn(performance, "eventLoopUtilization");
  try {
    busy.mockReturnValue({ idle: 0, active: 0, utilization: 0 });
    for (let i = 0; i < others; i++) waiters.add(newPoll(), 4);
    busy.mockReturnValue({ idle: 0, active, utilization: 1 });
    waiters.add(newPoll(), 4);
    return waiters.pauseMs;
  } finally {
    busy.mockRestore();
    waiters.stop();
    for (const poll of woken) poll.close();
  }
};

it("a wake is delayed by as long as the process was busy, up to 5 s, when a poll comes back after the last", async () => {
  const many = await pauseAfter(2_000, HOUR_MS);
  expect(many).toBeGreaterThan(1_000);
  expect(many).toBeLessThanOrEqual(5_000);
});

it("a wake of a large fleet is delayed by as long as it kept the process busy, however long that was", async () => {
  const fleet = await pauseAfter(10_000, 8_000);
  expect(fleet).toBeGreaterThan(6_000);
  expect(fleet).toBeLessThanOrEqual(8_000);
  expect(await pauseAfter(10_000, HOUR_MS)).toBeLessThanOrEqual(20_000);
});

it("a wake of few polls is delayed by what they cost, however busy others keep the process", async () => {
  expect(await pauseAfter(10, HOUR_MS)).toBeLessThanOrEqual(50);
  expect(await pauseAfter(100, HOUR_MS)).toBeLessThanOrEqual(500);
});

it("a wake is not delayed by more polls than were woken", async () => {
  expect(await pauseAfter(2_000, HOUR_MS, 1_999)).toBeGreaterThan(1_000);
  expect(await pauseAfter(2_000, HOUR_MS, 2_000)).toBeLessThanOrEqual(50);
});

it("a version that was announced before is not new, also while its wake is delayed", async () => {
  let version = 4;
  const waiters = new Waiters(async () => ({ version }) as Head);
  const poll = new Subscription<Head>(HOUR_MS, NEVER_DISCONNECTS, () => {});
  waiters.add(poll, 3);
  expect([waiters.wake(4), waiters.wake(4)]).toEqual([true, false]);
  await poll.changed();
  await turns(2);
  expect(waiters.pauseMs).toBeGreaterThan(0);
  version = 6;
  expect([waiters.wake(5), waiters.wake(5), waiters.wake(6), waiters.wake(6)]).toEqual([true, false, true, false]);
  waiters.stop();
  poll.close();
});
