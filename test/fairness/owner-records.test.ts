import { expect, it } from "vitest";
import { OwnerRecords } from "../../src/fairness/owner-records.ts";

it("forgets idle records once there are many, and no others", () => {
  type Uses = { id: number; used: number };
  const records = new OwnerRecords<Uses>(({ used }) => used === 0);
  const add = (id: number, used: number): Uses => records.add(String(id), { id, used });
  for (let id = 0; id < 1_024; id++) add(id, id % 4 === 0 ? 1 : 0);
  expect([records.get("1")?.id, records.active().length]).toEqual([1, 256]);
  add(2_000, 0);
  expect([records.get("0")?.id, records.get("1"), records.get("2000")?.id]).toEqual([0, undefined, 2_000]);
  expect(records.active().every(({ used }) => used === 1)).toBe(true);
});
