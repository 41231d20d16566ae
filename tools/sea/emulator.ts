// qemu, which runs programs of another platform.
import { spawnSync } from "node:child_process";
import { commandFor, type Target } from "./targets.ts";

/**
 * What keeps programs of the target from running here, or null. `node`: the target's own Node, which is known to work.
 */
export function emulatorProblem(target: Target, node: string): string | null {
  const [command, ...args] = commandFor(target, node);
  const { status, stderr } = spawnSync(command, [...args, "--version"], { encoding: "utf8" });
  return status === 0 ? null : (stderr ?? "").trim() || `${command} is not installed`;
}
