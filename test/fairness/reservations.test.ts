// Reserved room: an owner waits at its share and continues in order, and a smaller owner takes room from the largest.
import { expect, it } from "vitest";
import { Ledger } from "../../src/fairness/ledger.ts";
import { cellOwner, type Owner } from "../../src/fairness/owners.ts";
import { Reservations, type OnGone, type Release } from "../../src/fairness/reservations.ts";
import { turns } from "../../harness/waiting.ts";

const [big, small] = ["big", "small"].map((id) => cellOwner(id, "live"));
const none = (): void => {};
/** Reservations of clients that stay, unless a test says so. */
const roomOf = (ledger: Ledger) => {
  const room = new Reservations(ledger);
  return {
    reserve: (owner: Owner, amount: number, cut: () => void, onGone: OnGone = () => none) =>
      room.reserve(owner, amount, cut, onGone),
  };
};

it("an owner waits at its share and continues in order; another owner does not wait", async () => {
  const ledger = new Ledger({ bound: 40, share: 10 });
  const room = roomOf(ledger);
  const first = room.reserve(big!, 8, none) as Release;
  const order: string[] = [];
  const waiting = [5, 2].map(async (amount) => {
    const release = await room.reserve(big!, amount, none);
    order.push(`${amount}`);
    return release;
  });
  expect(room.reserve(small!, 8, none)).not.toBeInstanceOf(Promise);
  expect(ledger.usedBy(big!)).toBe(8);
  first();
  first(); // counts once
  await Promise.all(waiting);
  expect([order, ledger.usedBy(big!)]).toEqual([["5", "2"], 7]);
  expect(ledger.refused).toEqual(new Map()); // a wait is no refusal
});

it("an owner that holds nothing gets more than its share, once", () => {
  const room = roomOf(new Ledger({ bound: 40, share: 10 }));
  expect(room.reserve(big!, 30, none)).not.toBeInstanceOf(Promise);
  expect(room.reserve(big!, 1, none)).toBeInstanceOf(Promise);
});

it("at the bound an owner cuts neither its own nor an equal owner's", () => {
  const ledger = new Ledger({ bound: 20, share: 20 });
  const room = roomOf(ledger);
  const cut: string[] = [];
  void room.reserve(big!, 10, () => cut.push("big"));
  void room.reserve(small!, 10, () => cut.push("small"));
  for (const owner of [big!, small!]) expect(room.reserve(owner, 5, none)).toBeInstanceOf(Promise);
  expect([cut, ledger.used]).toEqual([[], 20]);
});

it("forgets what waits when its client goes, and continues with the next", async () => {
  const ledger = new Ledger({ bound: 40, share: 10 });
  const room = roomOf(ledger);
  void room.reserve(big!, 5, none);
  let drop = none;
  const gone = room.reserve(big!, 9, none, (dropIt) => ((drop = dropIt), none));
  const next = room.reserve(big!, 5, none);
  drop();
  drop(); // counts once
  await expect(gone).rejects.toMatchObject({ status: 400 });
  await next;
  expect(ledger.usedBy(big!)).toBe(10);
});

it("at the bound the largest owner's oldest is cut for a smaller owner's", () => {
  const ledger = new Ledger({ bound: 20, share: 20 });
  const room = roomOf(ledger);
  const cut: string[] = [];
  for (const name of ["b1", "b2"]) void room.reserve(big!, 10, () => cut.push(name));
  expect(room.reserve(small!, 5, () => cut.push("s1"))).not.toBeInstanceOf(Promise);
  expect([cut, ledger.used]).toEqual([["b1"], 15]);
});

it("few wait for an owner and in all; at the bound the largest owner's oldest is refused for a smaller owner's", async () => {
  const ledger = new Ledger({ bound: 1_000, share: 1 });
  const room = roomOf(ledger);
  const refused: string[] = [];
  /** Fills the share of the owner, and waits this often. */
  const wait = (name: string, count: number): void => {
    const owner = cellOwner(name, "live");
    for (let i = 0; i <= count; i++) {
      const reserved = Promise.resolve(room.reserve(owner, 1, none));
      reserved.catch(({ status }: { status: number }) => refused.push(`${name} ${i}: ${status}`));
    }
  };
  wait("flood", 33);
  await turns();
  expect(refused).toEqual(["flood 33: 503"]);
  for (let i = 0; i < 14; i++) wait(`w${i}`, 16); // 256 wait in all
  await turns();
  expect(refused).toHaveLength(1);
  wait("late", 1);
  await turns();
  expect(refused).toEqual(["flood 33: 503", "flood 1: 503"]);
  expect(ledger.refused).toEqual(new Map([["cell", 2]]));
});
