// The generated commands and the help texts are up to date, and every API route is mapped.
// After an intended change: npm run docs
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { firstDifference } from "../../harness/texts.ts";
import { endpoints } from "../../src/api/index.ts";
import { commandMap } from "../../tools/commands-map.ts";
import { commandsFile, unmappedRoutes } from "../../tools/commands.ts";
import { helpPage, leafCommands } from "../../tools/help.ts";

const read = (path: string): string => readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");

describe("commands.gen.json", () => {
  it("is up to date (npm run docs)", () => {
    expect(firstDifference(commandsFile(endpoints), read("src/cli/api/commands.gen.json"))).toBeNull();
  });

  it("every route is a command or has another named caller", () => {
    expect(unmappedRoutes(endpoints)).toEqual([]);
  });

  it("names no unknown route", () => {
    const routes = endpoints.map(({ name }) => name);
    expect(Object.keys(commandMap).filter((route) => !routes.includes(route))).toEqual([]);
  });
});

describe("help", () => {
  it("matches the golden file (npm run docs)", async () => {
    expect(firstDifference(await helpPage(), read("test/golden/help.txt"))).toBeNull();
  });

  it("has two examples, --json and --quiet for every command", async () => {
    const pages = (await helpPage()).split(/^\$ /m).slice(1);
    const leaves = new Set((await leafCommands()).map(({ words }) => `keyrack ${words.join(" ")}`));
    const without = pages.filter((page) => {
      const path = page.slice(0, page.indexOf(" --help"));
      if (!leaves.has(path)) return false;
      const exempt = /^keyrack (serve|ephemeral|config example)$/.test(path); // their output is a log, another command's or a file
      return (
        !/Examples:\n( {2}.*){1}\n {2}/.test(page) ||
        (!exempt && !(page.includes("--json") && page.includes("--quiet")))
      );
    });
    expect(without.map((page) => page.split("\n")[0])).toEqual([]);
  });
});
