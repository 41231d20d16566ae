// The fields for the portal's colours, compared with the portal's own style sheets.
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { COLOURS } from "../../../src/web/dashboard/portal/colours.ts";

it("offers every colour of the portal, with the values of both themes", () => {
  const read = (name: string) => readFileSync(new URL(`../../../src/web/portal/${name}`, import.meta.url), "utf8");
  const css = read("styles.css") + read("dark.css");
  const values = new Map<string, string[]>();
  for (const [, name = "", short = ""] of css.matchAll(/var\(--keyrack-([a-z-]+), (#[0-9a-f]+)\)/g)) {
    const value = short.length === 4 ? short.replace(/[0-9a-f]/g, "$&$&") : short;
    values.set(name, [...new Set([...(values.get(name) ?? []), value])]);
  }
  expect(new Map(COLOURS.map(([name, , light, dark]) => [name, [light, dark]]))).toEqual(values);
});
