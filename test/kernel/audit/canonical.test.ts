import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalize, type Json } from "../../../src/kernel/audit/canonical.ts";

const anyJson = fc.jsonValue({ stringUnit: "binary" }) as fc.Arbitrary<Json>;

describe("the examples of RFC 8785", () => {
  it("§3.2.2: numbers, strings and literals", () => {
    const input = String.raw`{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }`;
    const numbers = "[333333333.3333333,1e+30,4.5,0.002,1e-27]";
    const string = String.raw`"€$\u000f\nA'B\"\\\\\"/"`;
    expect(canonicalize(JSON.parse(input))).toBe(
      `{"literals":[null,true,false],"numbers":${numbers},"string":${string}}`,
    );
  });

  it("§3.2.3: keys are sorted by UTF-16 code units", () => {
    const input = String.raw`{
      "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew ReceivedMail Dalet With Dagesh", "1": "One",
      "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small ReceivedMail O With Diaeresis"
    }`;
    expect(canonicalize(JSON.parse(input)).match(/"[A-Z][^"]+"/g)).toEqual([
      '"Carriage Return"',
      '"One"',
      '"Control"',
      '"Latin Small ReceivedMail O With Diaeresis"',
      '"Euro Sign"',
      '"Emoji: Grinning Face"',
      '"Hebrew ReceivedMail Dalet With Dagesh"',
    ]);
  });

  for (const [bits, text] of [
    ["0000000000000000", "0"],
    ["8000000000000000", "0"],
    ["0000000000000001", "5e-324"],
    ["8000000000000001", "-5e-324"],
    ["7fefffffffffffff", "1.7976931348623157e+308"],
    ["ffefffffffffffff", "-1.7976931348623157e+308"],
    ["4340000000000000", "9007199254740992"],
    ["c340000000000000", "-9007199254740992"],
    ["4430000000000000", "295147905179352830000"],
    ["44b52d02c7e14af5", "9.999999999999997e+22"],
    ["44b52d02c7e14af6", "1e+23"],
    ["44b52d02c7e14af7", "1.0000000000000001e+23"],
    ["444b1ae4d6e2ef4e", "999999999999999700000"],
    ["444b1ae4d6e2ef4f", "999999999999999900000"],
    ["444b1ae4d6e2ef50", "1e+21"],
    ["3eb0c6f7a0b5ed8c", "9.999999999999997e-7"],
    ["3eb0c6f7a0b5ed8d", "0.000001"],
    ["41b3de4355555553", "333333333.3333332"],
    ["41b3de4355555554", "333333333.33333325"],
    ["41b3de4355555555", "333333333.3333333"],
    ["41b3de4355555556", "333333333.3333334"],
    ["41b3de4355555557", "333333333.33333343"],
    ["becbf647612f3696", "-0.0000033333333333333333"],
    ["43143ff3c1cb0959", "1424953923781206.2"],
  ] as const) {
    it(`appendix B: ${bits} is ${text}`, () => {
      expect(canonicalize(Buffer.from(bits, "hex").readDoubleBE())).toBe(text);
    });
  }
});

describe("canonicalize", () => {
  it("preserves the value", () => {
    fc.assert(
      fc.property(anyJson, (value) => {
        expect(JSON.parse(canonicalize(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it("does not depend on the order in which keys were set", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: "binary" }), anyJson), (value) => {
        const reversed = Object.fromEntries(Object.entries(value).toReversed());
        expect(canonicalize(reversed)).toBe(canonicalize({ ...value }));
      }),
    );
  });

  it("keeps the order of an array and sorts inside it", () => {
    expect(canonicalize([{ b: 1, a: [] }, "x", {}])).toBe('[{"a":[],"b":1},"x",{}]');
  });

  it("treats __proto__ like any other key", () => {
    expect(canonicalize(JSON.parse('{"b":1,"__proto__":{"a":2}}'))).toBe('{"__proto__":{"a":2},"b":1}');
  });

  for (const [why, value] of [
    ["a lone high surrogate", "a\ud800"],
    ["a lone low surrogate", ["\udc00a"]],
    ["a lone surrogate in a key", { "\ud83d": 1 }],
    ["NaN", Number.NaN],
    ["infinity", { a: [Number.POSITIVE_INFINITY] }],
    ["undefined", { a: undefined }],
    ["a bigint", 1n],
  ] as const) {
    it(`throws on ${why}`, () => {
      expect(() => canonicalize(value as unknown as Json)).toThrow(TypeError);
    });
  }
});
