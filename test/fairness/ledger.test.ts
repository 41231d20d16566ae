// Max-min admission: what each owner holds, who is the largest, and who must give way at the bound.
import { describe, expect, it } from "vitest";
import { Ledger } from "../../src/fairness/ledger.ts";
import { cellOwner, networkOwner, type Owner } from "../../src/fairness/owners.ts";
import { seeded } from "../../harness/random.ts";

const NONE = Number.POSITIVE_INFINITY;
const [a, b, c] = ["a", "b", "c"].map((id) => cellOwner(id, "live")) as [Owner, Owner, Owner];
const aTest = cellOwner("a", "test");

function ledger(held: [Owner, number][], { bound = 10, share = NONE } = {}): Ledger {
  const made = new Ledger({ bound, share });
  for (const [owner, amount] of held) made.take(owner, amount);
  return made;
}

describe("below the bound", () => {
  it("any owner may take what is left", () => {
    const made = ledger([[a, 9]]);
    expect([made.hasRoom(a), made.hasRoom(b), made.hasRoom(a, 2)]).toEqual([true, true, false]);
  });

  it("an owner is limited by its share, which makes it no victim's successor either", () => {
    const made = ledger(
      [
        [a, 3],
        [b, 7],
      ],
      { share: 3 },
    );
    expect([made.hasRoom(a), made.victimFor(a)]).toEqual([false, undefined]);
    made.release(b, 5);
    expect([made.hasRoom(a), made.hasRoom(b), made.hasRoom(c, 3), made.hasRoom(c, 4)]).toEqual([
      false,
      true,
      true,
      false,
    ]);
  });

  it("a share of the account counts all of its cells", () => {
    const made = new Ledger({ bound: 10, share: 4, shareOf: "account" });
    made.take(cellOwner("w1", "live", "ann"), 2);
    made.take(cellOwner("w2", "live", "ann"), 2);
    expect(made.hasRoom(cellOwner("w3", "live", "ann"))).toBe(false);
    expect(made.hasRoom(cellOwner("w4", "live", "bob"))).toBe(true);
    expect(made.largestPart).toBe(1);
    expect(made.isOver(cellOwner("w3", "live", "ann"))).toBe(false);
    made.take(cellOwner("w3", "live", "ann"));
    expect(made.isOver(cellOwner("w1", "live", "ann"))).toBe(true);
  });
});

describe("at the bound", () => {
  it("an owner that holds less evicts the largest, and the largest is refused", () => {
    const made = ledger([
      [a, 7],
      [b, 3],
    ]);
    expect([made.hasRoom(b), made.victimFor(b), made.victimFor(c), made.victimFor(a)]).toEqual([
      false,
      a,
      a,
      undefined,
    ]);
  });

  it("an owner that holds as much as the largest is refused", () => {
    const made = ledger([
      [a, 5],
      [b, 5],
    ]);
    expect([made.victimFor(a), made.victimFor(b), made.victimFor(c)?.kind]).toEqual([undefined, undefined, "cell"]);
  });

  it("accounts are compared before cells: many small workspaces are one owner", () => {
    const cells = [1, 2, 3].map((n) => cellOwner(`w${n}`, "live", "ann"));
    const made = ledger([...cells.map((cell): [Owner, number] => [cell, 2]), [b, 4]]);
    expect(cells).toContain(made.victimFor(b));
    expect(made.victimFor(cellOwner("w4", "live", "ann"))).toBe(made.victimFor(b));
    expect(made.victimFor(cells[0] as Owner)).toBeUndefined();
  });

  it("a network is compared with cells", () => {
    const net = networkOwner("203.0.113.9");
    expect(
      ledger([
        [net, 6],
        [a, 4],
      ]).victimFor(a),
    ).toEqual(net);
    expect(
      ledger([
        [net, 4],
        [a, 6],
      ]).victimFor(net),
    ).toEqual(a);
  });

  it("a test cell gives way before the live cell of its workspace, and never evicts it", () => {
    const made = ledger([
      [a, 9],
      [aTest, 1],
    ]);
    expect([made.victimFor(b), made.victimFor(a), made.victimFor(aTest)]).toEqual([aTest, aTest, undefined]);
    made.release(aTest);
    made.take(a);
    expect([made.victimFor(b), made.victimFor(a), made.victimFor(aTest)]).toEqual([a, undefined, undefined]);
  });

  it("a test cell gives way to the live cell of its workspace where another account holds as much", () => {
    const made = ledger([
      [b, 5],
      [aTest, 5],
    ]);
    expect([made.victimFor(a), made.victimFor(aTest), made.victimFor(b)]).toEqual([aTest, undefined, undefined]);
  });
});

describe("the books", () => {
  it("forget an owner that holds nothing, and never go below zero", () => {
    const made = ledger([[a, 2]]);
    made.release(a, 5);
    made.release(b);
    expect([made.used, made.usedBy(a), made.largestPart, made.victimFor(b)]).toEqual([0, 0, 0, undefined]);
  });

  it("count refusals by kind of owner", () => {
    const made = ledger([]);
    for (const owner of [a, b, networkOwner("::1")]) made.countRefusal(owner);
    expect(Object.fromEntries(made.refused)).toEqual({ cell: 2, network: 1 });
  });

  it("agree with a plain model after any history", () => {
    const random = seeded(7);
    const owners = Array.from({ length: 12 }, (_, n) => cellOwner(`w${n}`, n % 3 === 0 ? "test" : "live", `p${n % 4}`));
    const made = new Ledger({ bound: NONE, share: NONE });
    const model = new Map<Owner, number>();
    for (let step = 0; step < 5_000; step++) {
      const owner = random.pick(owners);
      const held = model.get(owner) ?? 0;
      const amount = random.int(1, 20);
      if (random.int(0, 1) === 0) made.take(owner, amount);
      else made.release(owner, amount);
      const now = made.usedBy(owner);
      expect(Math.abs(now - held) === amount || now === 0).toBe(true);
      model.set(owner, now);
      const groups = new Map<string, number>();
      for (const [{ group }, used] of model) groups.set(group, (groups.get(group) ?? 0) + used);
      expect(made.used).toBe([...groups.values()].reduce((sum, used) => sum + used, 0));
      const most = Math.max(...groups.values());
      const victim = made.victimFor(cellOwner("newcomer", "live"));
      if (most === 0) expect(victim).toBeUndefined();
      else {
        expect(groups.get(victim?.group ?? "")).toBe(most);
        const peers = [...model].filter(([peer, used]) => peer.group === victim?.group && used > 0);
        const first = peers.filter(([peer]) => peer.evictedFirst);
        const expected = Math.max(...(first.length > 0 ? first : peers).map(([, used]) => used));
        expect([model.get(victim as Owner), victim?.evictedFirst]).toEqual([expected, first.length > 0]);
      }
    }
  });
});
