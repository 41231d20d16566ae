// The run's temporary folder: in memory where there is room, so that tests do not wait for the disk; removed at the
// end. Each test process has a folder of its own inside it, which every test file leaves empty (leftovers.ts).
import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const MEMORY = "/dev/shm";
const TMPFS = 0x01021994;
const MEMORY_MIN_BYTES = 2 ** 31;
const RUN = /^keyrack-run-(\d+)-/;

export function setup(): () => void {
  const parent = memoryFolder() ?? tmpdir();
  removeKilledRuns(parent);
  const dir = mkdtempSync(join(parent, `keyrack-run-${process.pid}-`));
  chmodSync(dir, 0o755); // programs that tests start as another user reach their files
  process.env.KEYRACK_TEST_RUN = dir; // inherited by the test processes
  process.env.TMPDIR = dir;
  return () => rmSync(dir, { recursive: true, force: true });
}

/** A memory file system with room; PostgreSQL's cluster is there too. */
export function memoryFolder(): string | undefined {
  try {
    const { type, bavail, bsize } = statfsSync(MEMORY);
    return type === TMPFS && bavail * bsize >= MEMORY_MIN_BYTES && runsPrograms(MEMORY) ? MEMORY : undefined;
  } catch {
    return undefined;
  }
}

/** Containers often mount it so that it does not. */
function runsPrograms(parent: string): boolean {
  const dir = mkdtempSync(join(parent, "keyrack-probe-"));
  try {
    const script = join(dir, "script");
    writeFileSync(script, "#!/bin/sh\n", { mode: 0o700 });
    execFileSync(script);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(dir, { recursive: true });
  }
}

function removeKilledRuns(parent: string): void {
  for (const name of readdirSync(parent)) {
    const pid = Number(RUN.exec(name)?.[1] ?? Number.NaN);
    if (pid > 0 && !isRunning(pid)) rmSync(join(parent, name), { recursive: true, force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
