// A slug suggested for a name is one that the API accepts.
import { expect, it } from "vitest";
import { slugOf, SLUG_MIN, SLUG_PATTERN } from "../../src/kernel/slugs.ts";

it.each([
  ["Acme", "acme"],
  ["Café & Søn, Ltd.", "cafe-s-n-ltd"],
  ["--Acme--", "acme"],
  [`${"a".repeat(62)} bcd`, "a".repeat(62)],
])("suggests a valid slug for %s", (name, slug) => {
  expect(slugOf(name)).toBe(slug);
  expect(slug).toMatch(new RegExp(SLUG_PATTERN));
});

it("leaves padding a name without enough letters to the caller", () => {
  expect(slugOf("é")).toBe("e");
  expect(slugOf("é").padEnd(SLUG_MIN, "0")).toMatch(new RegExp(SLUG_PATTERN));
});
