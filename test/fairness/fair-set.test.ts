// Items within a bound: the largest owner's oldest makes room for a smaller owner's newest.
import { describe, expect, it } from "vitest";
import { FairSet } from "../../src/fairness/fair-set.ts";
import { Ledger } from "../../src/fairness/ledger.ts";
import { cellOwner } from "../../src/fairness/owners.ts";

const [big, small, other] = ["big", "small", "other"].map((id) => cellOwner(id, "live"));

function fairSet(bound: number) {
  const evicted: string[] = [];
  const ledger = new Ledger({ bound, share: Number.POSITIVE_INFINITY });
  return { set: new FairSet<string>(ledger, (item) => evicted.push(item)), ledger, evicted };
}

describe("a fair set", () => {
  it("evicts the oldest of the largest owner, and counts it", () => {
    const { set, ledger, evicted } = fairSet(4);
    for (const item of ["b1", "b2", "b3"]) set.add(big!, item);
    set.add(small!, "s1");
    expect(set.add(other!, "o1")).toBe(true);
    expect([evicted, set.size, ledger.used, ledger.refused.get("cell")]).toEqual([["b1"], 4, 4, 1]);
    expect([set.delete("b1"), set.delete("b2"), set.delete("b2")]).toEqual([false, true, false]);
    expect(ledger.usedBy(big!)).toBe(1);
  });

  it("lets the largest owner give up its own oldest that is not spared, never one that is held", () => {
    const evicted: string[] = [];
    const ledger = new Ledger({ bound: 2, share: Number.POSITIVE_INFINITY });
    const rules = {
      isSpared: (item: string) => item.startsWith("s"),
      isHeld: (item: string) => item === "s-held",
      replacesOwn: () => true,
    };
    const set = new FairSet<string>(ledger, (item) => evicted.push(item), rules);
    for (const item of ["s-held", "idle", "new"]) expect(set.add(big!, item)).toBe(true);
    expect(evicted).toEqual(["idle"]);
    set.delete("new");
    set.add(big!, "s-other");
    expect(set.add(big!, "refused")).toBe(false); // both are spared
    expect(set.add(small!, "s1")).toBe(true);
    expect(evicted).toEqual(["idle", "s-other"]);
    expect(set.add(other!, "o1")).toBe(true); // all of the largest owner's are held
    expect(evicted.at(-1)).toBe("s1");
    set.move("o1", big!);
    expect([ledger.usedBy(big!), ledger.usedBy(other!), ledger.used]).toEqual([2, 0, 2]);
  });

  it("evicts an item of the next-largest owner where all of the largest are held, until they no longer are", () => {
    const evicted: string[] = [];
    const ledger = new Ledger({ bound: 303, share: Number.POSITIVE_INFINITY });
    const held = new Map<string, () => void>();
    let isHolding = true;
    const isHeld = (item: string, end: () => void): boolean => {
      if (!isHolding || !item.startsWith("held")) return false;
      held.set(item, end);
      return true;
    };
    const set = new FairSet<string>(ledger, (item) => evicted.push(item), { isSpared: () => true, isHeld });
    for (let i = 0; i < 300; i++) set.add(big!, `held ${i}`);
    for (const item of ["o1", "o2", "o3"]) set.add(other!, item);
    expect(set.add(small!, "s1")).toBe(true);
    expect([evicted, held.size]).toEqual([["o1"], 300]);
    expect([set.add(big!, "b1"), evicted.length]).toEqual([false, 1]);
    expect(set.add(cellOwner("fourth", "live"), "f1")).toBe(true);
    isHolding = false;
    held.get("held 7")?.();
    expect(set.add(cellOwner("fifth", "live"), "g1")).toBe(true);
    expect(evicted).toEqual(["o1", "o2", "held 7"]);
  });

  it("evicts as many items as a large one needs, and refuses it above the owner's share", () => {
    const evicted: string[] = [];
    const ledger = new Ledger({ bound: 12, share: 8 });
    const amountOf = (item: string): number => item.length;
    const set = new FairSet<string>(ledger, (item) => evicted.push(item), { amountOf });
    for (const item of ["b", "bb", "bbb"]) set.add(big!, item);
    set.add(small!, "ss");
    expect([set.add(big!, "bbbb"), ledger.used]).toEqual([false, 8]);
    expect(set.add(other!, "ooooo")).toBe(true);
    expect([evicted, ledger.used, ledger.usedBy(other!)]).toEqual([["b"], 12, 5]);
    set.delete("ooooo");
    expect([ledger.used, ledger.usedBy(other!)]).toEqual([7, 0]);
  });

  it("refuses the largest owner, and evicts nothing of others", () => {
    const { set, ledger, evicted } = fairSet(3);
    for (const item of ["b1", "b2"]) set.add(big!, item);
    set.add(small!, "s1");
    expect([set.add(big!, "b3"), evicted, set.size, ledger.refused.get("cell")]).toEqual([false, [], 3, 1]);
  });

  it("makes room by evicting the largest owner's oldest, empty ones included", () => {
    const evicted: string[] = [];
    const ledger = new Ledger({ bound: 10, share: Number.POSITIVE_INFINITY });
    const set = new FairSet<string>(ledger, (item) => evicted.push(item), { amountOf: (item) => item.length });
    for (const item of ["", "bbbb", "bbb"]) set.insert(big!, item);
    set.insert(small!, "ss");
    expect([set.makeRoom(other!, 5), evicted, ledger.used]).toEqual([true, ["", "bbbb"], 5]);
    expect([set.makeRoom(big!, 7), evicted.length, ledger.used]).toEqual([false, 2, 5]);
  });

  it("takes the item that was not touched for longest", () => {
    const { set, evicted } = fairSet(2);
    for (const item of ["b1", "b2"]) set.add(big!, item);
    set.touch("b1");
    set.add(small!, "s1");
    expect(evicted).toEqual(["b2"]);
  });
});
