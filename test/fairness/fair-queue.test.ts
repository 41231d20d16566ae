// Turns between owners: one item each, in order within an owner.
import { describe, expect, it } from "vitest";
import { FairQueue } from "../../src/fairness/fair-queue.ts";
import { cellOwner } from "../../src/fairness/owners.ts";

const [a, b, c] = ["a", "b", "c"].map((id) => cellOwner(id, "live"));

const drain = (queue: FairQueue<string>): string[] => {
  const taken: string[] = [];
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) taken.push(next);
  return taken;
};

describe("a fair queue", () => {
  it("serves a quiet owner after at most one item of each other", () => {
    const queue = new FairQueue<string>();
    for (let i = 0; i < 5; i++) queue.push(a!, `a${i}`);
    queue.push(b!, "b0");
    queue.push(c!, "c0");
    queue.push(b!, "b1");
    expect(queue.length).toBe(8);
    expect(drain(queue)).toEqual(["a0", "b0", "c0", "a1", "b1", "a2", "a3", "a4"]);
    expect(queue.length).toBe(0);
  });

  it("gives an owner that comes back its turn after the others", () => {
    const queue = new FairQueue<string>();
    queue.push(a!, "a0");
    queue.push(b!, "b0");
    queue.push(b!, "b1");
    expect(queue.shift()).toBe("a0");
    queue.push(a!, "a1");
    expect(drain(queue)).toEqual(["b0", "a1", "b1"]);
  });

  it("gives up an owner's oldest item out of turn", () => {
    const queue = new FairQueue<string>();
    for (const item of ["a0", "a1"]) queue.push(a!, item);
    queue.push(b!, "b0");
    expect([queue.shiftOf(a!), queue.shiftOf(c!), queue.length]).toEqual(["a0", undefined, 2]);
    expect(drain(queue)).toEqual(["a1", "b0"]);
  });

  it("takes many in turn, each owner's together and in order", () => {
    const queue = new FairQueue<string>();
    for (let i = 0; i < 5; i++) queue.push(a!, `a${i}`);
    queue.push(b!, "b0");
    queue.push(c!, "c0");
    expect(queue.take(4)).toEqual(["a0", "a1", "b0", "c0"]);
    expect(queue.take(2)).toEqual(["a2", "a3"]);
    expect([queue.take(9), queue.take(9), queue.length]).toEqual([["a4"], [], 0]);
  });

  it("takes as many as their weights allow, of each owner and in all", () => {
    const queue = new FairQueue<string>({ weightOf: (item) => (item.startsWith("a") ? 500 : 1) });
    for (let i = 0; i < 3; i++) queue.push(a!, `a${i}`);
    expect(queue.take(200)).toEqual(["a0"]);
    for (let i = 0; i < 4; i++) queue.push(b!, `b${i}`);
    queue.push(c!, "c0");
    expect(queue.take(200, 3)).toEqual(["a1", "b0", "b1", "b2", "c0"]);
    expect(queue.take(200, 3)).toEqual(["a2", "b3"]);
    expect([queue.take(200, 3), queue.length]).toEqual([[], 0]);
  });

  it("counts the cells of an account together, and passes over those that have had their part", () => {
    const queue = new FairQueue<string>();
    for (let cell = 0; cell < 13; cell++)
      for (let i = 0; i < 4; i++) queue.push(cellOwner(`w${cell}`, "live", "account"), `w${cell}-${i}`);
    for (let i = 0; i < 4; i++) queue.push(a!, `a${i}`);
    const taken = queue.take(200, 16);
    expect([taken.length, taken.filter((item) => item.startsWith("a"))]).toEqual([20, ["a0", "a1", "a2", "a3"]]);
    expect(taken.slice(0, 4)).toEqual(["w0-0", "w0-1", "w1-0", "w1-1"]);
    expect([queue.take(200, 16).length, queue.take(200, 16).length, queue.length]).toEqual([16, 16, 4]);
  });

  it("keeps the order of a long queue", () => {
    const queue = new FairQueue<string>();
    const items = Array.from({ length: 5_000 }, (_, i) => String(i));
    for (const item of items) queue.push(a!, item);
    expect(drain(queue).join() === items.join()).toBe(true);
  });
});
