import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createIdGenerator, parseUuid } from "../../src/kernel/ids.ts";

const FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const anyMs = fc.integer({ min: 0, max: 2 ** 48 - 1 });
const any10 = fc.uint8Array({ minLength: 10, maxLength: 10 });

/** The first id of a process. */
const uuidv7 = (ms: number, random: Uint8Array): string => createIdGenerator(() => random)(ms);

describe("uuidv7", () => {
  it("gives the example of RFC 9562 appendix A.6", () => {
    // rand_a 0xCC3, rand_b 0x18C4DC0C0C07398F
    const random = Uint8Array.from([0x0c, 0xc3, 0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f]);
    expect(uuidv7(0x017f22e279b0, random)).toBe("017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  });

  it("is always a version 7 UUID that contains its millisecond", () => {
    fc.assert(
      fc.property(anyMs, any10, (ms, random) => {
        const id = uuidv7(ms, random);
        expect(id).toMatch(FORM);
        expect(Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16)).toBe(ms);
        expect(parseUuid(id)).toBe(id);
      }),
    );
  });

  it("uses all 74 random bits", () => {
    const zero = uuidv7(0, new Uint8Array(10));
    const changed = Array.from({ length: 80 }, (_, bit) => {
      const random = new Uint8Array(10);
      random[bit >> 3] = 0x80 >> (bit & 7);
      return uuidv7(0, random) !== zero;
    });
    expect(changed.filter(Boolean)).toHaveLength(74);
  });

  it("rejects a time out of range and the wrong number of bytes", () => {
    for (const ms of [-1, 2 ** 48, Number.NaN]) expect(() => uuidv7(ms, new Uint8Array(10))).toThrow(RangeError);
    expect(() => uuidv7(0, new Uint8Array(9))).toThrow(RangeError);
  });
});

describe("createIdGenerator", () => {
  it("strictly increases for any clock and any random bytes", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 3 })), fc.array(any10, { minLength: 1 }), (clock, randoms) => {
        let drawn = 0;
        const next = createIdGenerator(() => randoms[drawn++ % randoms.length] as Uint8Array);
        const ids = clock.map((ms) => next(ms));
        for (const id of ids) expect(id).toMatch(FORM);
        expect([...new Set(ids)].toSorted()).toEqual(ids);
      }),
    );
  });

  it("uses the next millisecond when the random bits of this one overflow", () => {
    const next = createIdGenerator(() => new Uint8Array(10).fill(0xff));
    const [first, second] = [next(1000.9), next(1000)];
    expect(first).toBe("00000000-03e8-7fff-bfff-ffffffffffff");
    expect(second).toBe("00000000-03e9-7fff-bfff-ffffffffffff");
  });

  it("carries from one part of the random bits into the next", () => {
    const draws = [
      [0x00, 0x00, 0x3f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
      [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
      [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    const next = createIdGenerator(() => Uint8Array.from(draws.shift() as number[]));
    expect(next(5)).toBe("00000000-0005-7000-bfff-ffffffffffff");
    expect(next(5)).toBe("00000000-0005-7001-8000-000000000000");
    expect(next(5)).toBe("00000000-0005-7001-8000-000000000001"); // carried once, not again
  });

  it("generates 100 000 different ids within one millisecond", () => {
    const next = createIdGenerator((n) => randomBytes(n));
    const ids = Array.from({ length: 100_000 }, () => next(1_700_000_000_000));
    expect(new Set(ids).size).toBe(100_000);
    expect(ids.toSorted()).toEqual(ids);
    expect(ids.at(-1)?.slice(0, 13)).toBe(ids[0]?.slice(0, 13));
  });
});

describe("parseUuid", () => {
  for (const text of [
    "c232ab00-9414-11ec-b3c8-9f6bdeced846",
    "5df41881-3aed-3515-88a7-2f4a814cf09e",
    "919108f7-52d1-4320-9bac-f847db4148a8",
    "2ed6657d-e927-568b-95e1-2665a8aea6a2",
    "1ec9414c-232a-6b00-b3c8-9f6bdeced846",
    "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    "2489e9ad-2ee2-8e00-8ec9-32d5f69181c0",
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
  ]) {
    it(`parses ${text} in either case as lower case`, () => {
      expect(parseUuid(text)).toBe(text);
      expect(parseUuid(text.toUpperCase())).toBe(text);
    });
  }

  for (const text of [
    "",
    "919108f752d143209bacf847db4148a8",
    "{919108f7-52d1-4320-9bac-f847db4148a8}",
    "urn:uuid:919108f7-52d1-4320-9bac-f847db4148a8",
    " 919108f7-52d1-4320-9bac-f847db4148a8",
    "919108f7-52d1-4320-9bac-f847db4148a8\n",
    "919108f7-52d1-0320-9bac-f847db4148a8",
    "919108f7-52d1-9320-9bac-f847db4148a8",
    "919108f7-52d1-4320-cbac-f847db4148a8",
    "919108f7-52d1-4320-9bac-f847db4148ag",
  ]) {
    it(`rejects ${JSON.stringify(text)}`, () => {
      expect(parseUuid(text)).toBeNull();
    });
  }
});
