// A refusal must stay cheap in a flood of refused requests, and an unexpected error must show where it happened.
import { describe, expect, it } from "vitest";
import { fail, Failure } from "../../src/kernel/errors.ts";

const FRAME = /\n\s+at /;

describe("a failure", () => {
  it("captures no stack", () => {
    const failure = fail("unauthenticated");
    expect(failure).toBeInstanceOf(Error);
    expect(failure.stack).not.toMatch(FRAME);
    expect(String(failure)).toBe(`Failure: ${failure.message}`);
  });

  it("leaves errors that are made after it their stacks", () => {
    const limit = Error.stackTraceLimit;
    expect(new Failure("rate_limited").status).toBe(429);
    expect(Error.stackTraceLimit).toBe(limit);
    expect(new Error("unexpected").stack).toMatch(FRAME);
  });

  it("leaves the stack limit as it is where it cannot be made", () => {
    const limit = Error.stackTraceLimit;
    expect(() => fail("no such failure" as "rate_limited")).toThrow(TypeError);
    expect(Error.stackTraceLimit).toBe(limit);
  });
});
