// The table of one-call commands and all help texts are generated files; every route has a decision.
// After a wanted change: npm run docs
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { endpoints } from "../../src/api/index.ts";
import { commandMap } from "../../tools/commands-map.ts";
import { commandsFile, unmappedRoutes } from "../../tools/commands.ts";
import { helpPage, leafCommands } from "../../tools/help.ts";

const read = (path: string): string => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");

describe("the command table", () => {
  it("is fresh (npm run docs writes it)", () => {
    expect(commandsFile(endpoints)).toBe(read("src/cli/api/commands.gen.json"));
  });

  it("every route is a command, or somebody is named who calls it instead", () => {
    expect(unmappedRoutes(endpoints)).toEqual([]);
  });

  it("names no route that is not there", () => {
    const routes = endpoints.map(({ name }) => name);
    expect(Object.keys(commandMap).filter((route) => !routes.includes(route))).toEqual([]);
  });
});

describe("help", () => {
  it("is the golden file (npm run docs writes it)", async () => {
    expect(await helpPage()).toBe(read("test/golden/help.txt"));
  });

  it("every command has two worked examples, --json and --quiet", async () => {
    const pages = (await helpPage()).split(/^\$ /m).slice(1);
    const leaves = new Set((await leafCommands()).map(({ words }) => `keyrack ${words.join(" ")}`));
    const without = pages.filter((page) => {
      const path = page.slice(0, page.indexOf(" --help"));
      if (!leaves.has(path)) return false;
      const raw = /^keyrack (serve|ephemeral|config example)$/.test(path); // one prints a line, two hand their output on
      return (
        !/Examples:\n( {2}.*){1}\n {2}/.test(page) || (!raw && !(page.includes("--json") && page.includes("--quiet")))
      );
    });
    expect(without.map((page) => page.split("\n")[0])).toEqual([]);
  });
});
