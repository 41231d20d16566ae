// CPU time of a process and of the processes it started.
import { readFileSync } from "node:fs";

const TICKS_PER_SECOND = 100;

/** CPU seconds of this process, and (on Linux) of the processes it started that have ended. */
export function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6 + endedChildren();
}

function endedChildren(): number {
  try {
    // The name in parentheses may contain spaces; the fields after it begin with the third.
    const fields = readFileSync("/proc/self/stat", "utf8").split(") ").at(-1)?.split(" ").map(Number) ?? [];
    return ((fields[13] ?? 0) + (fields[14] ?? 0)) / TICKS_PER_SECOND;
  } catch {
    return 0;
  }
}

let counted = 0;

/** CPU seconds since the last call; the first call counts from the start of the process. */
export function cpuSinceLastCall(): number {
  const now = cpuSeconds();
  const used = now - counted;
  counted = now;
  return used;
}
