// `keyrack workspace`: `create` goes through the bootstrap door, and --save keeps the new secret key in a profile.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { present } from "../ui/format.ts";
import { saveProfile } from "../api/profiles.ts";
import { ExitError } from "../ui/output.ts";
import { resolveTarget } from "../api/target.ts";
import type { Verb } from "../api/command-spec.ts";
import { addVerbs, askOf, sendVerb, type VerbOptions } from "../api/generated.ts";

type CreateOptions = VerbOptions & { bootstrapToken?: string; dataDir?: string; save?: true };

export function addWorkspaceCommands(program: Command): void {
  addVerbs(program, "workspace", {
    create: {
      flags: (command) =>
        command
          .option("--bootstrap-token <token>", "the bootstrap token (KEYRACK_BOOTSTRAP_TOKEN)")
          .option("--data-dir <dir>", "data dir whose bootstrap.token to use (KEYRACK_DATA_DIR)")
          .option("--save", "keep the new secret key in the profile"),
      run: (verb, _args, options) => create(verb, options),
      examples: [
        'keyrack workspace create --name "Acme" --slug acme --save',
        'keyrack workspace create --name "Acme" --slug acme --data-dir /var/lib/keyrack --quiet',
      ],
    },
  });
}

/** Flag, environment, the data dir's file; last a person's session. */
function bootstrapToken(options: CreateOptions): string | undefined {
  const { KEYRACK_BOOTSTRAP_TOKEN: fromEnv, KEYRACK_BOOTSTRAP_TOKEN_FILE: named, KEYRACK_DATA_DIR: dir } = process.env;
  if (options.bootstrapToken) return options.bootstrapToken;
  if (options.sessionToken) return undefined; // asked for by name
  if (fromEnv) return fromEnv;
  const file = named || join(options.dataDir ?? dir ?? "keyrack-data", "bootstrap.token");
  if (!existsSync(file)) {
    if (options.dataDir) throw new ExitError(`There is no ${file}. Give --bootstrap-token instead.`, 2);
    return undefined;
  }
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new ExitError(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}.`, 2);
  }
}

async function create(verb: Verb, options: CreateOptions): Promise<void> {
  const target = resolveTarget(options);
  const bearer = bootstrapToken(options) ?? target.bearer;
  if (!bearer) {
    throw new ExitError("No bootstrap token. Give --bootstrap-token, KEYRACK_BOOTSTRAP_TOKEN or --data-dir.", 2);
  }
  const answer = await sendVerb(askOf(verb, [], options), options, { ...target, bearer });
  if (options.save) {
    const { workspace, secret_key } = JSON.parse(answer.text) as {
      workspace: { name: string };
      secret_key: { key: string };
    };
    const profile = { url: target.url, secret_key: secret_key.key, about: `workspace ${workspace.name}` };
    saveProfile(options.profile ?? "default", profile);
  }
  present("workspace", "create", verb, answer.text, options);
}
