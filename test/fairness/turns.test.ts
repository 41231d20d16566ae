// Turns of the event loop: a flood of one owner does not delay another's work.
import { describe, expect, it } from "vitest";
import { cellOwner, type Owner } from "../../src/fairness/owners.ts";
import { Turns } from "../../src/fairness/turns.ts";
import { unboundedLedger } from "../../harness/ledgers.ts";

const [flood, quiet] = [cellOwner("flood", "live"), cellOwner("quiet", "live")];

const nextRound = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Turns on a clock that only work moves. */
function turnsOf() {
  let now = 0;
  const ledger = unboundedLedger();
  const turns = new Turns(ledger, () => now);
  const ran: string[] = [];
  const run = (owner: Owner, name: string, ms: number, kind?: "body"): void => {
    const work = (): void => {
      ran.push(name);
      now += ms;
    };
    turns.run(owner, work, kind);
  };
  const pass = (ms: number): void => void (now += ms);
  return { turns, ledger, ran, run, pass };
}

describe("turns", () => {
  it("run an owner's work at once until it has used its slice, and what is left in later rounds", async () => {
    const { ledger, ran, run, pass } = turnsOf();
    run(quiet, "q0", 0);
    for (let i = 0; i < 6; i++) {
      run(flood, `f${i}`, 0.125);
      pass(1); // reading and writing in the same turn refill nothing
    }
    expect([ran, ledger.usedBy(flood)]).toEqual([["q0", "f0", "f1"], 4]);
    run(quiet, "q1", 0.125);
    expect(ran.at(-1)).toBe("q1");
    await nextRound();
    expect(ran.slice(4)).toEqual(["f2", "f3"]);
    run(quiet, "q2", 0.125);
    await nextRound();
    expect(ran.slice(6)).toEqual(["q2", "f4", "f5"]);
    expect(ledger.used).toBe(0);
  });

  it("cut a round of many owners, so that sockets are read and others run, and give each its slice", async () => {
    const { ran, run } = turnsOf();
    run(quiet, "quiet", 0);
    const cells = Array.from({ length: 50 }, (_, i) => cellOwner(`cell ${i}`, "live"));
    for (const [i, cell] of cells.entries()) {
      run(cell, "first", 0.25);
      run(cell, `${i}`, 0.25);
    }
    expect(ran.splice(0)).toHaveLength(51);
    const rounds: number[] = [];
    while (ran.length < 50) {
      const before = ran.length;
      await nextRound();
      rounds.push(ran.length - before);
    }
    expect(Math.max(...rounds)).toBe(4);
    expect(ran).toEqual(cells.map((_, i) => `${i}`));
  });

  it("let an owner use more of a turn, and of a round, while no other is active", async () => {
    const { ran, run, ledger } = turnsOf();
    for (let i = 0; i < 80; i++) run(flood, `f${i}`, 0.125);
    expect([ran.length, ledger.used]).toEqual([32, 48]);
    await nextRound();
    expect([ran.length, ledger.used]).toEqual([64, 16]);
  });

  it("make an owner pay for work that took longer than its slice", async () => {
    const { ran, run, pass } = turnsOf();
    run(flood, "long", 10);
    run(flood, "next", 0.1);
    for (let round = 0; round < 3; round++) {
      await nextRound();
      run(quiet, `q${round}`, 0.1);
    }
    expect(ran).toEqual(["long", "q0", "q1", "q2"]);
    pass(20); // others used the loop
    run(flood, "last", 0.1);
    await nextRound();
    expect(ran.slice(4)).toEqual(["next", "last"]);
  });

  it("make an owner pay for a large body with time, not with rounds, and only with the time of other bodies", async () => {
    const { ran, run, pass } = turnsOf();
    run(quiet, "q", 0);
    run(flood, "long", 4, "body");
    run(flood, "next", 0.1, "body");
    const rounds = async (): Promise<void> => {
      for (let round = 0; round < 100; round++) await nextRound();
    };
    await rounds();
    pass(20); // others used the loop, or it was idle
    await rounds();
    run(flood, "request", 0.1);
    expect(ran).toEqual(["q", "long", "request"]);
    pass(10);
    await rounds();
    expect(ran.slice(3)).toEqual(["next"]);
  });

  it("bound the debt of one large body", async () => {
    const { ran, run, pass } = turnsOf();
    run(quiet, "q", 0);
    run(flood, "preempted", 5_000, "body");
    run(flood, "next", 0.1, "body");
    pass(500);
    for (let round = 0; round < 100; round++) await nextRound();
    expect(ran).toEqual(["q", "preempted", "next"]);
  });

  it("make an owner pay for a large body with rounds while no other is active", async () => {
    const { ran, run } = turnsOf();
    run(flood, "long", 10, "body");
    run(flood, "next", 0.1, "body");
    for (let round = 0; round < 50; round++) await nextRound();
    expect(ran).toEqual(["long", "next"]);
  });

  it("let an owner that uses less than half of the time run at once", async () => {
    const { ran, run, pass, ledger } = turnsOf();
    run(quiet, "q", 0);
    for (let i = 0; i < 20; i++) {
      run(flood, `f${i}`, 0.5);
      expect(ran.length).toBe(i + 2);
      pass(0.6);
      await nextRound();
    }
    expect(ledger.used).toBe(0);
  });

  it("run work that work has started after it, and not inside it", async () => {
    const { turns, ran } = turnsOf();
    turns.run(flood, () => {
      turns.run(flood, () => ran.push("inner"));
      ran.push("outer");
    });
    await nextRound();
    expect(ran).toEqual(["outer", "inner"]);
  });

  it("forget owners that have nothing to run", () => {
    const { run, pass, ran } = turnsOf();
    for (let i = 0; i < 5_000; i++) {
      run(cellOwner(String(i), "live"), String(i), 0.5);
      pass(1);
    }
    expect(ran.length).toBe(5_000);
  });

  it("continue after work that threw", () => {
    const { turns, ran, run } = turnsOf();
    expect(() =>
      turns.run(flood, () => {
        throw new Error("bug");
      }),
    ).toThrow("bug");
    run(flood, "next", 0.1);
    expect(ran).toEqual(["next"]);
  });
});
