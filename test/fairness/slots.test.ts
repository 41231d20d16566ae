// Slots for reads: whatever one account reads, another gets its turn; what gets no slot is refused and counted.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { cellOwner, type Owner } from "../../src/fairness/owners.ts";
import { FLEET_READS, guestOf, Slots, THREAD_READS, type SlotLimits } from "../../src/fairness/slots.ts";
import { unboundedLedger } from "../../harness/ledgers.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** Reads that run until they are finished by name, in the order in which they started. */
function readsOf(limits: SlotLimits) {
  const ledger = unboundedLedger();
  const slots = new Slots(limits, ledger);
  const started: string[] = [];
  const finish = new Map<string, () => void>();
  const read = (owner: Owner, name: string): Promise<string> => {
    const reading = slots.run<string>(owner, () => {
      started.push(name);
      return new Promise((resolve) => finish.set(name, () => resolve(name)));
    });
    reading.catch(() => {}); // one that still waits at the end of a test is refused later
    return reading;
  };
  const end = async (name: string, reading: Promise<string>): Promise<void> => {
    finish.get(name)?.();
    await reading;
  };
  const refused = (): number => ledger.refused.get("cell") ?? 0;
  return { slots, started, read, end, refused };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("reads in worker threads", () => {
  it("of one account, in however many workspaces, leave room for another account", async () => {
    const { started, read } = readsOf(THREAD_READS);
    for (let i = 0; i < 25; i++)
      for (const part of ["a", "b"]) void read(cellOwner(`flood-${i}`, "live", "flood"), `${i}${part}`);
    void read(cellOwner("quiet", "live"), "quiet");
    await turn();
    expect(started).toEqual(["0a", "0b", "1a", "1b", "quiet"]);
  });

  it("of an account and its customers' portals have four slots, of which the portals get two", async () => {
    const { started, read, end } = readsOf(THREAD_READS);
    const host = cellOwner("shop", "live", "seller");
    const first = read(guestOf(host, "a"), "a 0");
    for (const customer of ["a", "b", "c"])
      for (let i = 1; i < 3; i++) void read(guestOf(host, customer), `${customer} ${i}`);
    for (let i = 0; i < 6; i++) void read(cellOwner(`shop-${i >> 1}`, "live", "seller"), `shop ${i}`);
    await turn();
    expect(started).toEqual(["a 0", "a 1", "shop 0", "shop 1"]);
    await end("a 0", first);
    expect(started.slice(4)).toEqual(["b 1"]);
    for (const quiet of ["x", "y"]) void read(cellOwner(quiet, "live"), quiet);
    await turn();
    expect(started.slice(5)).toEqual(["x", "y"]);
  });

  it("of customers start as soon as another customer has released a slot, where accounts share none", async () => {
    const { started, read, end } = readsOf(FLEET_READS);
    const host = cellOwner("shop", "live", "seller");
    const first = read(guestOf(host, "a"), "a 0");
    void read(guestOf(host, "a"), "a 1");
    void read(guestOf(host, "b"), "b");
    void read(host, "shop");
    await turn();
    expect(started).toEqual(["a 0", "a 1", "shop"]);
    await end("a 0", first);
    expect(started.slice(3)).toEqual(["b"]);
  });

  it("of a test key leave room for live", async () => {
    const { started, read } = readsOf(THREAD_READS);
    for (let i = 0; i < 10; i++) void read(cellOwner("one", "test"), `test ${i}`);
    void read(cellOwner("one", "live"), "live");
    await turn();
    expect(started).toEqual(["test 0", "test 1", "live"]);
  });

  it("of two accounts that flood leave room for two others", async () => {
    const { started, read } = readsOf(THREAD_READS);
    for (const flood of ["a", "b"])
      for (let i = 0; i < 8; i++) void read(cellOwner(`${flood}${i >> 1}`, "live", flood), `${flood} ${i}`);
    for (const quiet of ["c", "d"]) void read(cellOwner(quiet, "live"), quiet);
    await turn();
    expect(started).toEqual(["a 0", "a 1", "a 2", "a 3", "b 0", "b 1", "c", "d"]);
  });

  it("that wait start before further ones of an account that reads already", async () => {
    const { started, read, end } = readsOf(THREAD_READS);
    const accounts = ["a", "b", "c", "d"].map((name) => cellOwner(name, "live"));
    const first = accounts.flatMap((owner) => [read(owner, `${owner.id} 0`), read(owner, `${owner.id} 1`)]);
    for (const owner of accounts) void read(owner, `${owner.id} 2`);
    void read(cellOwner("late", "live"), "late");
    void read(cellOwner("later", "live"), "later");
    await turn();
    expect([started.length, started.at(-1)]).toEqual([8, "late"]);
    await end("a/live 0", first[0] as Promise<string>);
    await turn();
    expect(started.slice(8)).toEqual(["later"]);
  });

  it("of one environment all run, however many start at once, while they take less than two seconds", async () => {
    const { started, read, end, refused } = readsOf(THREAD_READS);
    const owner = cellOwner("one", "live");
    const reads = Array.from({ length: 100 }, (_, i) => read(owner, `${i}`));
    for (const [i, reading] of reads.entries()) {
      await turn();
      expect(started.length).toBe(Math.min(i + 2, 100));
      await end(`${i}`, reading);
    }
    expect(refused()).toBe(0);
  });

  it("fail at once where 1,000 of their environment wait already", async () => {
    const { started, read, refused } = readsOf(THREAD_READS);
    const owner = cellOwner("flood", "live");
    for (let i = 0; i < 1_002; i++) void read(owner, `${i}`);
    await expect(read(owner, "refused")).rejects.toMatchObject({ failure: "unavailable", status: 503 });
    expect(refused()).toBe(1);
    void read(cellOwner("quiet", "live"), "quiet");
    await turn();
    expect(started).toEqual(["0", "1", "quiet"]);
  });

  it("that wait for two seconds are refused and counted", async () => {
    const { started, read, end, refused } = readsOf(THREAD_READS);
    const owner = cellOwner("one", "live");
    const first = read(owner, "first");
    void read(owner, "second");
    const third = read(owner, "third");
    await vi.advanceTimersByTimeAsync(2_000);
    await expect(third).rejects.toMatchObject({ failure: "unavailable", status: 503 });
    expect(refused()).toBe(1);
    await end("first", first);
    expect(started).toEqual(["first", "second"]);
  });
});

describe("work that ends", () => {
  /** How often an owner is looked at when one of the works ends while many wait. */
  const looksAt = (limits: SlotLimits, owners: readonly Owner[]): number => {
    let looks = 0;
    const ledger = unboundedLedger();
    const slots = new Slots(limits, ledger, () => ++looks > 0);
    const [first] = owners.flatMap((owner) => Array.from({ length: 20 }, () => slots.acquire(owner)));
    void slots.acquire(owners[0]!);
    looks = 0;
    (first as () => void)();
    return looks;
  };

  it("looks at no work of other owners where they share no slots", () => {
    const owners = Array.from({ length: 100 }, (_, i) => cellOwner(`${i}`, "live"));
    expect(looksAt(FLEET_READS, owners)).toBe(1);
  });

  it("looks at one work of each owner where they share slots", () => {
    const owners = Array.from({ length: 10 }, (_, i) => cellOwner(`${i}`, "live"));
    expect(looksAt(THREAD_READS, owners)).toBeLessThanOrEqual(10);
  });
});

describe("reads of fleets", () => {
  it("run two at a time for each owner, however many owners there are", async () => {
    const { started, read } = readsOf(FLEET_READS);
    for (let i = 0; i < 20; i++)
      for (const part of ["a", "b", "c"]) void read(cellOwner(`${i}`, "live", "account"), `${i}${part}`);
    await turn();
    expect(started.length).toBe(40);
    expect(started.filter((name) => name.endsWith("c"))).toEqual([]);
  });

  it("that wait start when another one of their owner has failed", async () => {
    const { started, read, slots } = readsOf(FLEET_READS);
    const owner = cellOwner("one", "live");
    const broken = Promise.withResolvers<void>();
    const failing = slots.run(owner, () => broken.promise);
    for (const name of ["first", "second"]) void read(owner, name);
    await turn();
    expect(started).toEqual(["first"]);
    broken.reject(new Error("no"));
    await expect(failing).rejects.toThrow("no");
    await turn();
    expect(started).toEqual(["first", "second"]);
  });

  it("that wait for two seconds are refused and counted", async () => {
    const { read, refused } = readsOf(FLEET_READS);
    const owner = cellOwner("one", "live");
    for (const name of ["first", "second"]) void read(owner, name);
    const third = read(owner, "third");
    await vi.advanceTimersByTimeAsync(2_000);
    await expect(third).rejects.toMatchObject({ failure: "share_full", status: 503 });
    expect(refused()).toBe(1);
  });
});
