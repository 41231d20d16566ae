// Items within a bound: the largest owner's oldest makes room for a smaller owner's newest.
import { describe, expect, it } from "vitest";
import { FairSet } from "../../src/fairness/fair-set.ts";
import { Ledger } from "../../src/fairness/ledger.ts";
import { cellOwner } from "../../src/fairness/owners.ts";

type Item = { readonly name: string };
const items = new Map<string, Item>();
/** The item of this name. */
function item(name: string): Item {
  const known = items.get(name) ?? { name };
  items.set(name, known);
  return known;
}

const [big, small, other] = ["big", "small", "other"].map((id) => cellOwner(id, "live"));

function fairSet(bound: number) {
  const evicted: string[] = [];
  const ledger = new Ledger({ bound, share: Number.POSITIVE_INFINITY });
  return { set: new FairSet<Item>(ledger, ({ name }) => evicted.push(name)), ledger, evicted };
}

describe("a fair set", () => {
  it("evicts the oldest of the largest owner, and counts it", () => {
    const { set, ledger, evicted } = fairSet(4);
    for (const name of ["b1", "b2", "b3"]) set.add(big!, item(name));
    set.add(small!, item("s1"));
    expect(set.add(other!, item("o1"))).toBe(true);
    expect([evicted, set.size, ledger.used, ledger.refused.get("cell")]).toEqual([["b1"], 4, 4, 1]);
    expect([set.delete(item("b1")), set.delete(item("b2")), set.delete(item("b2"))]).toEqual([false, true, false]);
    expect(ledger.usedBy(big!)).toBe(1);
  });

  it("lets the largest owner give up its own oldest that is not spared, never one that is held", () => {
    const evicted: string[] = [];
    const ledger = new Ledger({ bound: 2, share: Number.POSITIVE_INFINITY });
    const rules = {
      isSpared: ({ name }: Item) => name.startsWith("s"),
      isHeld: ({ name }: Item) => name === "s-held",
      replacesOwn: () => true,
    };
    const set = new FairSet<Item>(ledger, ({ name }) => evicted.push(name), rules);
    for (const name of ["s-held", "idle", "new"]) expect(set.add(big!, item(name))).toBe(true);
    expect(evicted).toEqual(["idle"]);
    set.delete(item("new"));
    set.add(big!, item("s-other"));
    expect(set.add(big!, item("refused"))).toBe(false); // both are spared
    expect(set.add(small!, item("s1"))).toBe(true);
    expect(evicted).toEqual(["idle", "s-other"]);
    expect(set.add(other!, item("o1"))).toBe(true); // all of the largest owner's are held
    expect(evicted.at(-1)).toBe("s1");
    set.move(item("o1"), big!);
    expect([ledger.usedBy(big!), ledger.usedBy(other!), ledger.used]).toEqual([2, 0, 2]);
  });

  it("evicts an item of the next-largest owner where all of the largest are held, until they no longer are", () => {
    const evicted: string[] = [];
    const ledger = new Ledger({ bound: 303, share: Number.POSITIVE_INFINITY });
    const held = new Map<string, () => void>();
    let isHolding = true;
    const isHeld = ({ name }: Item, end: () => void): boolean => {
      if (!isHolding || !name.startsWith("held")) return false;
      held.set(name, end);
      return true;
    };
    const set = new FairSet<Item>(ledger, ({ name }) => evicted.push(name), { isSpared: () => true, isHeld });
    for (let i = 0; i < 300; i++) set.add(big!, item(`held ${i}`));
    for (const name of ["o1", "o2", "o3"]) set.add(other!, item(name));
    expect(set.add(small!, item("s1"))).toBe(true);
    expect([evicted, held.size]).toEqual([["o1"], 300]);
    expect([set.add(big!, item("b1")), evicted.length]).toEqual([false, 1]);
    expect(set.add(cellOwner("fourth", "live"), item("f1"))).toBe(true);
    isHolding = false;
    held.get("held 7")?.();
    expect(set.add(cellOwner("fifth", "live"), item("g1"))).toBe(true);
    expect(evicted).toEqual(["o1", "o2", "held 7"]);
  });

  it("evicts as many items as a large one needs, and refuses it above the owner's share", () => {
    const evicted: string[] = [];
    const ledger = new Ledger({ bound: 12, share: 8 });
    const amountOf = ({ name }: Item): number => name.length;
    const set = new FairSet<Item>(ledger, ({ name }) => evicted.push(name), { amountOf });
    for (const name of ["b", "bb", "bbb"]) set.add(big!, item(name));
    set.add(small!, item("ss"));
    expect([set.add(big!, item("bbbb")), ledger.used]).toEqual([false, 8]);
    expect(set.add(other!, item("ooooo"))).toBe(true);
    expect([evicted, ledger.used, ledger.usedBy(other!)]).toEqual([["b"], 12, 5]);
    set.delete(item("ooooo"));
    expect([ledger.used, ledger.usedBy(other!)]).toEqual([7, 0]);
  });

  it("refuses the largest owner, and evicts nothing of others", () => {
    const { set, ledger, evicted } = fairSet(3);
    for (const name of ["b1", "b2"]) set.add(big!, item(name));
    set.add(small!, item("s1"));
    expect([set.add(big!, item("b3")), evicted, set.size, ledger.refused.get("cell")]).toEqual([false, [], 3, 1]);
  });

  it("makes room by evicting the largest owner's oldest, empty ones included", () => {
    const evicted: string[] = [];
    const ledger = new Ledger({ bound: 10, share: Number.POSITIVE_INFINITY });
    const set = new FairSet<Item>(ledger, ({ name }) => evicted.push(name), { amountOf: ({ name }) => name.length });
    for (const name of ["", "bbbb", "bbb"]) set.insert(big!, item(name));
    set.insert(small!, item("ss"));
    expect([set.makeRoom(other!, 5), evicted, ledger.used]).toEqual([true, ["", "bbbb"], 5]);
    expect([set.makeRoom(big!, 7), evicted.length, ledger.used]).toEqual([false, 2, 5]);
  });

  it("takes the item that was not touched for longest", () => {
    const { set, evicted } = fairSet(2);
    for (const name of ["b1", "b2"]) set.add(big!, item(name));
    set.touch(item("b1"));
    set.add(small!, item("s1"));
    expect(evicted).toEqual(["b2"]);
  });
});
