// The flags of commands that make many things from a CSV file.
import type { Command } from "commander";
import { outputFlags, targetFlags, type OutputOptions, type TargetOptions } from "../../api/target.ts";

export type BulkOptions = TargetOptions & OutputOptions & { restart?: true; out?: string };

export function bulkFlags(command: Command): Command {
  return targetFlags(outputFlags(command, "print only the ids")).option(
    "--restart",
    "forget how far an earlier run came; rows it made are found again for 24 hours",
  );
}
