// The portal's texts for conflicts, compared with those that its endpoints report.
import { expect, it } from "vitest";
import * as endpoints from "../../../src/api/embed/keys.ts";
import { failures } from "../../../src/kernel/errors.ts";
import { conflictText } from "../../../src/web/portal/conflicts.ts";

it("has a text of its own for every conflict of its endpoints", () => {
  const names = Object.values(endpoints).flatMap((endpoint) => ("failures" in endpoint ? endpoint.failures : []));
  const messages = names.map((name) => failures[name]).flatMap(([status, , text]) => (status === 409 ? [text] : []));
  expect(messages.length).toBeGreaterThan(5);
  expect(messages.filter((text) => conflictText(text) === "errConflict")).toEqual([]);
});
