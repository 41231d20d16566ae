// Flags of the commands that create many records from a CSV file.
import type { Command } from "commander";
import { targetFlags, type TargetOptions } from "../../api/target.ts";
import { outputFlags, type OutputOptions } from "../../ui/output.ts";

export type BulkOptions = TargetOptions & OutputOptions & { restart?: true; out?: string };

export function csvFlags(command: Command): Command {
  return targetFlags(outputFlags(command, "print only the ids")).option(
    "--restart",
    "discard the progress of an earlier run; within 24 hours its rows are still not created twice",
  );
}
