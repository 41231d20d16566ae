// The fields for the portal's colours, compared with the portal's own style sheet.
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { COLOURS } from "../../../src/web/dashboard/portal/colours.ts";

it("offers every colour of the portal, with the values of both themes", () => {
  const css = readFileSync(new URL("../../../src/web/portal/styles.css", import.meta.url), "utf8");
  const values = new Map<string, string[]>();
  for (const [, name = "", short = ""] of css.matchAll(/var\(--keyrack-([a-z-]+), (#[0-9a-f]+)\)/g)) {
    const value = short.length === 4 ? short.replace(/[0-9a-f]/g, "$&$&") : short;
    values.set(name, [...new Set([...(values.get(name) ?? []), value])]);
  }
  expect(new Map(COLOURS.map(([name, , light, dark]) => [name, [light, dark]]))).toEqual(values);
});
