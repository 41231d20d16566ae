// `keyrack secret-key`: with --workspace-id, `create` is an operator command. It is the way back into a workspace that
// has no members and no working secret key, where no credential could ask for one.
import type { Command } from "commander";
import type { Env } from "../../../kernel/credentials.ts";
import { addApiCommands } from "../../api/generated.ts";
import { buildRequest, runApiCommand, type ApiOptions } from "../../api/send.ts";
import type { CommandSpec } from "../../api/command-spec.ts";
import { databaseFlags, operate, type OperatorOptions } from "../../operator.ts";
import { printResponse } from "../../ui/format.ts";
import { ExitError, toFlag } from "../../ui/output.ts";

const DATABASE_OPTIONS = ["dataDir", "databaseUrl", "config", "allowNetworkFs"];
const API_OPTIONS = ["url", "secretKey", "sessionToken", "profile", "idempotencyKey"];

const firstGiven = (options: ApiOptions, names: readonly string[]): string | undefined =>
  names.find((name) => options[name] !== undefined);

export function addTo(program: Command): void {
  addApiCommands(program, "secret-key", {
    create: {
      flags: (command) =>
        databaseFlags(
          command.option("--workspace-id <id>", "as the operator, for this workspace: needs no credential"),
          "with --workspace-id: ",
        ),
      run: (spec, args, options) => {
        if (options.workspaceId !== undefined) return createAsOperator(spec, options);
        const ignored = firstGiven(options, DATABASE_OPTIONS);
        if (ignored) throw new ExitError(`${toFlag(ignored)} needs --workspace-id.`, 2);
        return runApiCommand(spec, args, options);
      },
    },
  });
}

async function createAsOperator(spec: CommandSpec, options: ApiOptions): Promise<void> {
  const { env, ...others } = buildRequest(spec, [], options).body as { env: Env };
  const [field] = Object.keys(others).map((name) => `--${name.replaceAll("_", "-")}`);
  const option = firstGiven(options, API_OPTIONS);
  const refused = field ?? (option && toFlag(option));
  if (refused) throw new ExitError(`--workspace-id and ${refused} cannot be used together.`, 2);
  const { workspaceId: workspace_id } = options;
  const created = await operate(options as OperatorOptions, "secret-key.create", { workspace_id, env });
  printResponse(spec, JSON.stringify(created), options);
}
