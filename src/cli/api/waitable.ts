// Commands that change what nodes hold: with --wait they end when every node has acknowledged the change.
import type { Change } from "./change-and-wait.ts";
import type { CommandSpec } from "./command-spec.ts";
import { runApiCommand, type ApiOptions } from "./generated.ts";

export function waitable(change: Change, examples: [string, string]) {
  return {
    run: async (spec: CommandSpec, args: string[], options: ApiOptions): Promise<void> => {
      if (!options.wait) return runApiCommand(spec, args, options);
      const { changeAndWait } = await import("./change-and-wait.ts");
      return changeAndWait(change, spec, args, options);
    },
    examples,
  };
}
