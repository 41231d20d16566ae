// Runs before each test file, in its process: gives it a temporary folder, and fails the file when it leaves something
// in there, a process that it started, or a database.
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll } from "vitest";
import { openDatabases } from "../databases/open-databases.ts";
import { until } from "../waiting.ts";

const { KEYRACK_TEST_RUN: run = "" } = process.env;
const own = join(run, String(process.pid));
process.umask(0o022); // an instance of the file before has tightened it
rmSync(own, { recursive: true, force: true }); // the hooks of a file whose tests are all skipped do not run
mkdirSync(own, { recursive: true });
process.env.TMPDIR = own;

afterAll(async () => {
  await until(() => leftovers().length === 0).catch(() => {
    const found = leftovers();
    for (const name of readdirSync(own)) rmSync(join(own, name), { recursive: true, force: true });
    openDatabases.clear();
    throw new Error(`The test file leaves behind: ${found.join(", ")}`);
  });
});

function leftovers(): string[] {
  return [...readdirSync(own).map((name) => join(own, name)), ...processes(), ...openDatabases];
}

/** Ends with the process that it serves. */
const SERVICE = /\/esbuild\0--service=/;

/** Processes whose environment names the folder, on Linux. */
function processes(): string[] {
  if (process.platform !== "linux") return [];
  const mine = `\0TMPDIR=${own}\0`;
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid) || !`\0${read(pid, "environ")}`.includes(mine)) return [];
    const command = read(pid, "cmdline");
    return SERVICE.test(command) ? [] : [`process ${pid} (${command.replaceAll("\0", " ").slice(0, 200)})`];
  });
}

function read(pid: string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1");
  } catch {
    return ""; // it has ended, or belongs to another user
  }
}
