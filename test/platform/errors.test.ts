// What is read from an error of unknown type.
import { expect, it } from "vitest";
import { fail } from "../../src/kernel/errors.ts";
import { codeOf, errorFields } from "../../src/platform/errors.ts";

it("reads the code of an error, and none from anything else", () => {
  const busy = Object.assign(new Error("locked"), { code: "SQLITE_BUSY" });
  expect([busy, new Error("plain"), { code: 7 }, null, undefined, "text"].map(codeOf)).toEqual([
    "SQLITE_BUSY",
    "",
    "",
    "",
    "",
    "",
  ]);
});

it("logs where a bug happened, and a failure without a stack", () => {
  const bug = new TypeError("not a function");
  expect(errorFields(bug)).toEqual({ error: "TypeError: not a function", stack: bug.stack });
  expect(errorFields(fail("unavailable")).stack).toBeUndefined();
  expect(errorFields("text")).toEqual({ error: "text", stack: undefined });
});
