// Rate limits as lines of text: which lines are rules, and what is said about the others.
import { expect, it } from "vitest";
import { Problem } from "../../../src/web/dashboard/api/problems.ts";
import { rulesOf, ruleText } from "../../../src/web/dashboard/keys/limits.ts";

function mistakeIn(text: string): string | undefined {
  try {
    rulesOf(text, "rules");
  } catch (error) {
    if (error instanceof Problem) return error.details[0]?.message;
    throw error;
  }
  return undefined;
}

it("reads rules as people write them", () => {
  const rules = rulesOf("100 / minute\n\nburst: 20 per 10 s per tenant fixed\n5 / 31 days", "rules");
  expect(rules.map((rule) => [rule.id, ruleText(rule)])).toEqual([
    ["rule-1", "100 / minute"],
    ["burst", "20 / 10 seconds per tenant fixed"],
    ["rule-3", "5 / 31 days"],
  ]);
});

it("names the line with a mistake, and what is wrong with it", () => {
  expect(
    ["100 / minute\n100 a minute", "0 / minute", "5 / 32 days", "5 / 10 ms", "a: 1 / s\na: 2 / s"].map(mistakeIn),
  ).toEqual([
    ": this line is not a rule: 100 a minute",
    ": a limit is at least 1: 0 / minute",
    ": a window is at most 31 days: 5 / 32 days",
    ": a window is at least 1 second: 5 / 10 ms",
    ": two rules are named a: a: 2 / s",
  ]);
});
