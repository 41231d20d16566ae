// Which of its results the command palette shows.
import { expect, it } from "vitest";
import { mergeResults } from "../../../src/web/dashboard/palette/results.ts";

const items = (name: string, count: number): string[] => Array.from({ length: count }, (_, i) => `${name} ${i}`);

it("shows records beside any number of pages and workspaces, 20 results at most", () => {
  expect(mergeResults(items("workspace", 30), [])).toEqual(items("workspace", 20));
  expect(mergeResults(items("workspace", 30), items("key", 2))).toEqual([
    ...items("workspace", 18),
    ...items("key", 2),
  ]);
  // Four keys, projects and tenants each, and the way to the whole list of each.
  expect(mergeResults(items("workspace", 30), items("key", 15))).toEqual([
    ...items("workspace", 5),
    ...items("key", 15),
  ]);
  expect(mergeResults(items("page", 1), items("key", 18))).toEqual([...items("page", 1), ...items("key", 18)]);
});
