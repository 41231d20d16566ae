import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { CHECKOUT } from "../../harness/processes/server.ts";
import { commandName, shellQuote } from "../../src/cli/ui/command-name.ts";

const [argv1 = ""] = process.argv.slice(1);
afterEach(() => {
  process.argv[1] = argv1;
});

it("names the command where it is on PATH, and its path where it is not", () => {
  process.argv[1] = CHECKOUT.replace(/keyrack$/, "start.mjs");
  const dir = mkdtempSync(join(tmpdir(), "keyrack-path-"));
  try {
    expect(commandName({ PATH: dir })).toBe("bin/keyrack"); // tests run in the checkout
    writeFileSync(join(dir, "keyrack"), "");
    expect(commandName({ PATH: `:${dir}` })).toBe("bin/keyrack");
    chmodSync(join(dir, "keyrack"), 0o755);
    expect(commandName({ PATH: `:${dir}` })).toBe("keyrack");
  } finally {
    rmSync(dir, { recursive: true });
  }
});

it("quotes an argument for a shell, which reads the same text, and leaves plain ones as they are", () => {
  const words = ["/var/lib/keyrack", "/tmp/my data", "it's", "$HOME", "a;b", "*"];
  for (const word of words) {
    const read = execFileSync("sh", ["-c", `printf %s ${shellQuote(word)}`], { encoding: "utf8" });
    expect(read).toBe(word);
  }
  expect(words.map(shellQuote).slice(0, 2)).toEqual(["/var/lib/keyrack", "'/tmp/my data'"]);
});
