// The capabilities that a node announces.
import { describe, expect, it } from "vitest";
import { CAP, capabilitiesIn, missingFrom, parseCaps } from "../../../src/kernel/policy/capabilities.ts";

describe("announced capabilities", () => {
  it("are the known names in any order; names of a later release are ignored", () => {
    expect(parseCaps("disabled")).toBe(CAP.disabled);
    expect(parseCaps("formats,cidr,from_the_future")).toBe(CAP.cidr | CAP.formats);
    expect(parseCaps("toString,x".toLowerCase())).toBe(0);
    const many = Array.from({ length: 32 }, (_, i) => `c${i}`);
    expect(parseCaps(many.join(","))).toBe(0);
  });

  it("are refused when empty, repeated, too many, too long or misspelt", () => {
    const many = Array.from({ length: 33 }, (_, i) => `c${i}`);
    const long = Array.from({ length: 17 }, (_, i) => `c${i}`.padEnd(32, "x")).join(",");
    const wrong = ["", ",", "cidr,", "cidr,cidr", "x1,x1", "Cidr", "cidr disabled", "9a", "_a", "a".repeat(33)];
    for (const text of [...wrong, many.join(","), long]) expect(parseCaps(text), text).toBeNull();
  });

  it("are listed in sorted order, and compared with what is needed", () => {
    expect(capabilitiesIn(CAP.formats | CAP.cidr | CAP.disabled)).toEqual(["cidr", "disabled", "formats"]);
    expect(missingFrom("disabled", CAP.formats | CAP.disabled)).toEqual(["formats"]);
    expect(missingFrom("", CAP.cidr)).toEqual(["cidr"]);
    expect(missingFrom("", 0)).toEqual([]);
  });
});
