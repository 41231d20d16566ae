// Standard output on a full disk.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { BIN, cleanEnv } from "../../harness/processes/server.ts";

const MESSAGE = "keyrack: Cannot write to standard output: ENOSPC.";

/** Starts the program with its standard output on a disk that is always full. */
function startOnFullDisk(args: string[]) {
  const stdout = openSync("/dev/full", "w");
  const child = spawn(BIN, args, { env: cleanEnv(), stdio: ["ignore", stdout, "pipe"] });
  closeSync(stdout);
  return { child, exited: once(child, "exit"), lines: createInterface({ input: child.stderr as Readable }) };
}

it.each([[["version"]], [["config", "example"]], [["openapi"]], [["key", "list", "--help"]]])(
  "%j ends with one line and exit code 1",
  async (args) => {
    const { exited, lines } = startOnFullDisk(args);
    const printed: string[] = [];
    for await (const line of lines) printed.push(line);
    expect(printed).toEqual([MESSAGE]);
    expect((await exited)[0]).toBe(1);
  },
);

it("a server keeps running", async () => {
  using temp = tempDir();
  const { child, exited, lines } = startOnFullDisk(["serve", "--port", "0", "--data-dir", join(temp.dir, "data")]);
  for await (const line of lines) if (line === MESSAGE) child.kill("SIGTERM");
  expect((await exited)[0]).toBe(0);
});
