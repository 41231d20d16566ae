// Throttle windows: nothing is forgotten before it expires, whatever subjects a sender makes up.
import { describe, expect, it } from "vitest";
import { testClock } from "../../../harness/instances/test-services.ts";
import { Throttles, type Throttle } from "../../../src/domain/limits/throttles.ts";
import { Ledger } from "../../../src/fairness/ledger.ts";
import { networkOwner } from "../../../src/fairness/owners.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

const LOGIN: Throttle = { name: "login", limit: 3, windowMs: MINUTE_MS };
const [SENDER, OTHER] = ["203.0.113.0/24", "198.51.100.0/24"];

function throttlesOf(bound = Number.POSITIVE_INFINITY) {
  const clock = testClock(10 * MINUTE_MS);
  const ledger = new Ledger({ bound, share: Number.POSITIVE_INFINITY });
  const throttles = new Throttles(clock, true, ledger);
  /** How many of `count` attempts are admitted. */
  const admitted = (subject: string, network: string, count = 1, throttle = LOGIN): number => {
    let taken = 0;
    for (let i = 0; i < count; i++) if (!throttles.tryTake(throttle, subject, networkOwner(network))) taken++;
    return taken;
  };
  return { clock, ledger, throttles, admitted };
}

describe("throttles", () => {
  it("keep a filled window through a flood of made-up subjects, and refuse the sender's new ones", () => {
    const { clock, ledger, admitted } = throttlesOf(100);
    expect(admitted("guessed", SENDER, 5)).toBe(3);
    expect(admitted("person", OTHER, 2)).toBe(2);
    let opened = 0;
    for (let i = 0; i < 1_000; i++) opened += admitted(`made-up-${i}`, SENDER);
    expect([opened, ledger.used]).toEqual([98, 100]);
    expect(admitted("guessed", SENDER)).toBe(0);
    // Others open windows, at the expense of the sender, and keep theirs.
    for (let i = 0; i < 10; i++) expect(admitted(`other-${i}`, OTHER)).toBe(1);
    expect(admitted("person", OTHER, 2)).toBe(1);
    expect([admitted("guessed", SENDER), admitted("made-up-0", SENDER), admitted("new", SENDER)]).toEqual([0, 0, 0]);
    clock.advance(MINUTE_MS);
    expect([admitted("guessed", SENDER), admitted("new", SENDER)]).toEqual([1, 1]);
  });

  it("keep a filled window when the wall clock is set forward", () => {
    const { clock, admitted } = throttlesOf();
    expect(admitted("guessed", SENDER, 5)).toBe(3);
    clock.jump(2 * MINUTE_MS);
    expect(admitted("guessed", SENDER)).toBe(0);
  });

  it("give up no filled window, however many of a sender's oldest are filled", () => {
    const { ledger, throttles, admitted } = throttlesOf(300);
    for (let i = 0; i < 150; i++) expect(admitted(`guessed-${i}`, SENDER, 3)).toBe(3);
    for (let i = 0; i < 150; i++) admitted(`made-up-${i}`, SENDER);
    for (let i = 0; i < 10; i++) expect(admitted(`other-${i}`, OTHER)).toBe(1);
    for (let i = 0; i < 150; i++) expect(admitted(`guessed-${i}`, SENDER)).toBe(0);
    throttles.refund(LOGIN, "guessed-0"); // no longer filled: it counts, and may be given up
    expect([admitted("guessed-0", SENDER, 2), ledger.used]).toEqual([1, 300]);
  });

  it("open windows of newcomers although the largest sender has only filled ones", () => {
    const { ledger, admitted } = throttlesOf(10);
    for (let i = 0; i < 5; i++) admitted(`guessed-${i}`, SENDER, 3);
    for (let i = 0; i < 4; i++) admitted(`person-${i}`, OTHER);
    admitted("person", "192.0.2.0/24");
    expect([admitted("newcomer", "192.0.3.0/24"), ledger.used]).toEqual([1, 10]);
    expect(admitted("new", SENDER)).toBe(0); // it is the largest, so it evicts nothing of others
    for (let i = 0; i < 5; i++) expect(admitted(`guessed-${i}`, SENDER)).toBe(0);
  });

  it("make room with windows that have lapsed", () => {
    const { clock, ledger, admitted } = throttlesOf(100);
    for (let i = 0; i < 100; i++) admitted(`a-${i}`, SENDER);
    clock.advance(MINUTE_MS);
    for (let i = 0; i < 100; i++) expect(admitted(`b-${i}`, SENDER)).toBe(1);
    expect(ledger.used).toBe(100);
  });

  it("sweep a bounded number of lapsed windows with each request, whatever their lengths", () => {
    const { clock, ledger, admitted } = throttlesOf();
    const lengths = [MINUTE_MS, 2 * MINUTE_MS, 3 * MINUTE_MS];
    for (const windowMs of lengths)
      for (let i = 0; i < 1_000; i++) admitted(`${windowMs}-${i}`, SENDER, 1, { ...LOGIN, windowMs });
    const before = ledger.used;
    clock.advance(10 * MINUTE_MS);
    admitted("next", OTHER);
    expect(before - ledger.used).toBeGreaterThan(0);
    expect(before - ledger.used).toBeLessThan(1_000);
  });

  it("begin a window with its first use that counts, wherever the clock is, and say when it ends", () => {
    const { clock, throttles, admitted } = throttlesOf();
    clock.advance(MINUTE_MS - 1_000);
    expect(admitted("ada", SENDER, 3)).toBe(3);
    admitted("bob", SENDER);
    throttles.refund(LOGIN, "bob");
    clock.advance(2_000);
    expect(throttles.tryTake(LOGIN, "ada", networkOwner(SENDER))).toMatchObject({ retryAfterSeconds: 58 });
    expect(admitted("bob", SENDER, 3)).toBe(3);
    clock.advance(58_000 - 1);
    expect(admitted("ada", SENDER)).toBe(0);
    clock.advance(1);
    expect([admitted("ada", SENDER, 4), admitted("bob", SENDER)]).toEqual([3, 0]);
  });

  it("reset all windows of an address, and no other", () => {
    const { throttles, admitted } = throttlesOf();
    for (const subject of ["ada", "ada n1", "ada n2", "eve", "eve n1"]) admitted(subject, SENDER, 3);
    throttles.reset("ada");
    expect([admitted("ada", SENDER), admitted("ada n1", SENDER), admitted("ada n2", SENDER)]).toEqual([1, 1, 1]);
    expect([admitted("eve", SENDER), admitted("eve n1", SENDER)]).toEqual([0, 0]);
  });

  it("count an IPv6 customer's networks together at eight times the limit of one", () => {
    const { throttles } = throttlesOf();
    let taken = 0;
    const take = (network: string): void => {
      try {
        throttles.takeOfNetwork(LOGIN, network);
        taken++;
      } catch {
        // refused
      }
    };
    for (let i = 0; i < 20; i++) for (let n = 0; n < 4; n++) take(`2001:db8:1:${i}::/64`);
    expect(taken).toBe(24);
    take("2001:db8:2:0::/64");
    expect(taken).toBe(25);
    for (let n = 0; n < 4; n++) take(SENDER);
    expect(taken).toBe(28);
  });
});
