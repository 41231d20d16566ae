// `keyrack top`: who holds how much of what workspaces share, in a running instance.
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { sharesTable } from "../../fairness/shares.ts";
import type { Result } from "../../server/operator-commands.ts";
import { operatorFlags, operatorSettings, type OperatorOptions } from "../operator.ts";
import { ExitError, printResult, table } from "../ui/output.ts";

type TopOptions = OperatorOptions & { by?: string };
export type Top = Result<"shares.top">;

export function addTo(program: Command): void {
  operatorFlags(program.command("top"), ["keyrack top", "keyrack top --by connections --json"], "print only the owners")
    .description("Show the largest owners of each shared resource of the running instance, and which were refused.")
    .addOption(new Option("--by <resource>", "only this resource").choices(Object.keys(sharesTable)))
    .action((options: TopOptions) => top(options));
}

async function top(options: TopOptions): Promise<void> {
  const json = await readTop(resolve(operatorSettings(options).data_dir), options.by);
  if (!json) throw new ExitError("No instance is running on this data dir.", 3);
  const rows = json.data.flatMap(({ resource, share, owners }) =>
    owners.map(({ owner, used, refused_5m }) => [
      resource,
      owner,
      String(used),
      share === null ? "" : String(share),
      share === null ? "" : `${Math.round((used / share) * 100)} %`,
      String(refused_5m),
    ]),
  );
  printResult(options, {
    json,
    quiet: [...new Set(rows.map(([, owner]) => owner))].join("\n"),
    human:
      rows.length === 0
        ? "No shared resource is in use."
        : table([["RESOURCE", "OWNER", "USED", "SHARE", "PART", "REFUSED (5 MIN)"], ...rows]),
  });
}

/** Undefined when no instance is running. */
export async function readTop(dir: string, by?: string): Promise<Top | undefined> {
  const { callInstance } = await import("../../server/operator-socket/client.ts");
  return (await callInstance(dir, "shares.top", { by }))?.value as Top | undefined;
}
