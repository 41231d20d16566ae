// The queue in front of password hashing: who waits how long beside a flood, and who is refused.
import { afterEach, describe, expect, it, vi } from "vitest";
import { PasswordQueue } from "../../../src/domain/auth/password-queue.ts";
import { Ledger } from "../../../src/fairness/ledger.ts";

const from = (network: number, known = false) => ({ network: `10.0.${network}.0/24`, known });

/** A queue with one slot, held by a task that runs until `open()`; `order` names the tasks that ran. */
function heldQueue(limits = { bound: 512, share: 32 }) {
  const ledger = new Ledger(limits);
  const queue = new PasswordQueue(ledger, 1);
  let open = (): void => {};
  const first = queue.run(from(0), () => new Promise<void>((resolve) => (open = resolve)));
  const order: string[] = [];
  const refused: string[] = [];
  const all: Promise<void>[] = [first];
  const add = (name: string, network: number, known = false): void => {
    const task = queue.run(from(network, known), async () => void order.push(name));
    all.push(task.catch(({ failure }: { failure: string }) => void refused.push(`${name} ${failure}`)));
  };
  const drain = async (): Promise<void> => {
    open();
    await Promise.all(all);
  };
  return { ledger, queue, order, refused, add, drain };
}

describe("the password queue", () => {
  afterEach(() => void vi.useRealTimers());

  it("lets 32 of a network wait, refuses its next, and admits those of another network", async () => {
    const { ledger, order, refused, add, drain } = heldQueue();
    for (let n = 0; n < 40; n++) add(`flood ${n}`, 1);
    add("other", 2);
    await drain();
    expect(order.length).toBe(33);
    expect(order.indexOf("other")).toBeLessThan(2);
    expect(refused).toEqual(Array.from({ length: 8 }, (_, n) => `flood ${n + 32} overloaded`));
    expect([ledger.used, ledger.refused.get("network")]).toEqual([0, 8]);
  });

  it("runs a known person after at most two hashes of strangers, even from many networks", async () => {
    const { order, add, drain } = heldQueue();
    for (let n = 0; n < 400; n++) add(`flood ${n}`, 1 + (n % 100));
    add("known", 200, true);
    await drain();
    expect(order.indexOf("known")).toBeLessThan(2);
  });

  it("runs a known person next, however many strangers were served while no known person waited", async () => {
    for (const strangers of [1, 2, 3]) {
      const { order, add, drain, queue } = heldQueue();
      for (let n = 0; n < strangers; n++) add(`before ${n}`, 1);
      await drain();
      const held = Promise.withResolvers<void>();
      const running = queue.run(from(1), () => held.promise);
      for (let n = 0; n < 5; n++) add(`flood ${n}`, 1);
      add("known", 2, true);
      held.resolve();
      await running;
      await drain();
      expect(order[strangers]).toBe("known");
    }
  });

  it("runs a known person after a few hashes of a network whose own accounts are known too", async () => {
    const { order, add, drain } = heldQueue();
    for (let n = 0; n < 32; n++) add(`flood ${n}`, 1, n % 2 === 0);
    add("known", 2, true);
    await drain();
    expect(order.indexOf("known")).toBeLessThan(4);
  });

  it("still runs strangers while known people keep coming", async () => {
    const { order, add, drain } = heldQueue();
    for (let n = 0; n < 20; n++) add(`known ${n}`, 1, true);
    add("stranger", 2);
    await drain();
    expect(order.indexOf("stranger")).toBeLessThan(2);
  });

  it("refuses the network with most waiting when it is full, and no other", async () => {
    const { order, refused, add, drain } = heldQueue({ bound: 6, share: 5 });
    for (let n = 0; n < 5; n++) add(`flood ${n}`, 1);
    for (let n = 0; n < 3; n++) add(`other ${n}`, 2);
    await drain();
    expect(refused.every((each) => each.startsWith("flood"))).toBe(true);
    expect(order.filter((each) => each.startsWith("other")).length).toBe(3);
  });

  it("refuses after ten seconds of waiting, and frees the place", async () => {
    vi.useFakeTimers();
    const { ledger, order, refused, add, drain } = heldQueue();
    add("early", 1);
    await vi.advanceTimersByTimeAsync(5_000);
    add("late", 1);
    await vi.advanceTimersByTimeAsync(5_000);
    expect([refused, ledger.used]).toEqual([["early overloaded"], 1]);
    await drain();
    expect([order, ledger.used]).toEqual([["late"], 0]);
  });

  it("counts an IPv6 customer's /48 as one network", async () => {
    const { queue, ledger, drain } = heldQueue({ bound: 512, share: 1 });
    const wait = (network: string) => queue.run({ network, known: false }, async () => {});
    const first = wait("2001:db8:1:2::/64");
    await expect(wait("2001:db8:1:3::/64")).rejects.toMatchObject({ failure: "overloaded", status: 503 });
    const other = wait("2001:db8:2:3::/64");
    expect(ledger.used).toBe(2);
    await drain();
    await Promise.all([first, other]);
  });

  it("frees its slot when a task fails", async () => {
    const queue = new PasswordQueue(new Ledger({ bound: 8, share: 8 }), 1);
    await expect(queue.run(from(1), () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    expect(await queue.run(from(1), async () => 7)).toBe(7);
  });
});
