// `keyrack workspace`: `create` uses the bootstrap token, and --save stores the new secret key in a profile.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import type { RouteOutput } from "../../client.ts";
import type { CommandSpec } from "../api/command-spec.ts";
import { addApiCommands } from "../api/generated.ts";
import { buildRequest, sendRequest, type ApiOptions } from "../api/send.ts";
import { profileToSave, requireReplaceable, saveNewKey } from "../api/profiles.ts";
import { credential, resolveTarget } from "../api/target.ts";
import { readSettings } from "../settings.ts";
import { printResponse } from "../ui/format.ts";
import { ExitError, readTextFile } from "../ui/output.ts";

type CreateOptions = ApiOptions & { bootstrapToken?: string; dataDir?: string; save?: true; force?: true };

export function addTo(program: Command): void {
  addApiCommands(program, "workspace", {
    create: {
      flags: (command) =>
        command
          .option(
            "--bootstrap-token <token>",
            "bootstrap token to use; KEYRACK_BOOTSTRAP_TOKEN keeps it out of process lists",
          )
          .option("--data-dir <dir>", "data dir to read bootstrap.token from (KEYRACK_DATA_DIR)")
          .option("--save", "save the new secret key in a profile (see --profile)")
          .option(
            "--force",
            "with --save: overwrite the profile even if it holds a session or another server's credential",
          ),
      run: (spec, _args, options) => create(spec, options),
    },
  });
}

/** From the flag, the settings or the data dir. Undefined: use the session or profile. */
function findBootstrapToken(options: CreateOptions): string | undefined {
  if (options.bootstrapToken) return options.bootstrapToken;
  if (options.sessionToken) return undefined; // an explicit flag wins over the environment
  const { dataDir } = options;
  const { settings } = readSettings({}, dataDir ? { flags: { data_dir: dataDir } } : {});
  if (settings.bootstrap_token) return settings.bootstrap_token;
  const file = settings.bootstrap_token_file || join(settings.data_dir, "bootstrap.token");
  if (!existsSync(file)) {
    if (dataDir) throw new ExitError(`${file} does not exist. Use KEYRACK_BOOTSTRAP_TOKEN_FILE instead.`, 2);
    return undefined;
  }
  return readTextFile(file).trim();
}

async function create(spec: CommandSpec, options: CreateOptions): Promise<void> {
  const saved = options.save ? profileToSave(options.profile) : undefined;
  const target = resolveTarget(saved && !saved.existing ? { ...options, profile: null } : options);
  if (saved && !options.force) requireReplaceable(saved, target.url);
  const used = { ...target, ...credential(findBootstrapToken(options), "the bootstrap token") };
  if (!used.bearer) {
    throw new ExitError(
      "No bootstrap token. Set KEYRACK_BOOTSTRAP_TOKEN, KEYRACK_BOOTSTRAP_TOKEN_FILE or --data-dir.",
      2,
    );
  }
  const { text } = await sendRequest(buildRequest(spec, [], options), options, used);
  printResponse(spec, text, options);
  if (!saved) return;
  const { workspace, secret_key } = JSON.parse(text) as RouteOutput<"POST /v1/workspaces">;
  saveNewKey(saved.name, { url: target.url, secret_key: secret_key.key, about: `workspace ${workspace.name}` });
}
