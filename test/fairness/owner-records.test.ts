import { describe, expect, it } from "vitest";
import { FairQueue } from "../../src/fairness/fair-queue.ts";
import { OwnerRecords } from "../../src/fairness/owner-records.ts";
import { soleOwner } from "../../src/fairness/owners.ts";
import { Ledger } from "../../src/fairness/ledger.ts";

describe("records of owners", () => {
  it("stay while they are idle, as long as there are few", () => {
    const records = new OwnerRecords<number>();
    for (let id = 0; id < 1_024; id++) records.add(String(id), id);
    records.retire("0");
    expect(records.get("0")).toBe(0);
    records.add("1024", 1_024);
    records.retire("1");
    expect([records.size, records.get("0"), records.get("1")]).toEqual([1_024, 0, undefined]);
  });

  it("are used again after they were idle, however many owners there have been", () => {
    const ledger = new Ledger({ bound: 10, share: 4, shareOf: "account" });
    const queue = new FairQueue<number>({ ledger });
    for (let round = 0; round < 2; round++)
      for (let i = 0; i < 3_000; i++) {
        const owner = soleOwner("network", `n${i}`);
        for (let item = 0; item < 4; item++) expect(queue.push(owner, item)).toBe(true);
        expect(queue.push(owner, 4)).toBe(true); // in place of the oldest
        expect([ledger.used, ledger.usedBy(owner), ledger.usedByGroup(owner)]).toEqual([4, 4, 4]);
        if (i % 1_000 === 0) expect(ledger.owners()[0]).toMatchObject({ owner, used: 4 });
        for (let item = 1; item <= 4; item++) expect(queue.shiftOf(owner)).toBe(item);
        expect([ledger.used, ledger.usedBy(owner), queue.length]).toEqual([0, 0, 0]);
      }
  });
});
