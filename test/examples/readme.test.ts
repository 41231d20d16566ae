// Runs the README as written and compares every output, except for values that change from run to run.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { normalize, runPage } from "../../tools/transcript.ts";

const root = join(import.meta.dirname, "../..");
const page = readFileSync(join(root, "README.md"), "utf8");

describe("README.md", () => {
  it("shows the real output of its commands (npm run transcript -- --write updates it)", async () => {
    const { differences, commands } = await runPage(page);
    expect(differences).toEqual([]);
    expect(commands).toBeGreaterThan(10);
  });

  it("shows no complete credential", () => {
    expect(/kr[a-z]*_(live_|test_)?[\w-]{32,}/.exec(page)?.[0]).toBeUndefined();
  });

  it("links only to existing files", () => {
    const links = [...page.matchAll(/\]\((?!https?:)([^)#]+)/g)].map(([, path = ""]) => path);
    expect(links.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });
});

describe("the transcript", () => {
  it("reports a different output and a failed command", async () => {
    const block = (command: string, output: string) => `\`\`\`console\n$ ${command}\n${output}\n\`\`\`\n`;
    const { differences } = await runPage(
      block("echo one", "one") +
        block("echo two", "three") +
        block("nowhere-to-be-found", "") +
        block("X=4; echo $X", "4"),
    );
    expect(differences.map(({ command }) => command)).toEqual(["echo two", "nowhere-to-be-found"]);
  });

  it("compares values that change by their form, and everything else exactly", () => {
    expect(normalize("01a1ddd1-4ae8-755d-919c-e3a979864f1c at 2026-11-15T06:07:23.368Z, 7 rows")).toBe(
      "UUID at TIME, 7 rows",
    );
    expect(normalize("kr_live_abcdef kr_live_abcdef…")).toBe("PREFIX SECRET");
  });
});
