// `keyrack secret-key`: with --workspace-id, `create` is an operator command. It is the way back into a workspace that
// has no members and no working secret key, where no credential could ask for one.
import type { Command } from "commander";
import type { Env } from "../../../kernel/credentials.ts";
import { addApiCommands, buildRequest, runApiCommand, type ApiOptions } from "../../api/generated.ts";
import type { CommandSpec } from "../../api/command-spec.ts";
import { databaseFlags, operate, type OperatorOptions } from "../../operator.ts";
import { printResponse } from "../../ui/format.ts";
import { ExitError } from "../../ui/output.ts";

export function addSecretKeyCommands(program: Command): void {
  addApiCommands(program, "secret-key", {
    create: {
      flags: (command) =>
        databaseFlags(
          command.option("--workspace-id <id>", "as the operator, for this workspace: needs no credential"),
          "with --workspace-id: ",
        ),
      run: (spec, args, options) =>
        options.workspaceId === undefined
          ? runApiCommand("secret-key", "create", spec, args, options)
          : createAsOperator(spec, options),
    },
  });
}

async function createAsOperator(spec: CommandSpec, options: ApiOptions): Promise<void> {
  const { env, ...others } = buildRequest(spec, [], options).body as { env: Env };
  const [refused] = Object.keys({ ...others, ...(options.idempotencyKey && { idempotency_key: true }) });
  if (refused) throw new ExitError(`--workspace-id and --${refused.replaceAll("_", "-")} exclude each other.`, 2);
  const { workspaceId: workspace_id } = options;
  const created = await operate(options as OperatorOptions, "secret-key.create", { workspace_id, env });
  printResponse("secret-key", "create", spec, JSON.stringify(created), options);
}
