// The table of top-level commands: name, one-line description, and a lazy loader for the file that defines it.
import { Command, type HelpConfiguration } from "commander";

type AddCommand = (program: Command) => void;
type CommandEntry = { description: string; load: () => Promise<AddCommand> };

/** Entry for a file that exports `addTo`. */
const own = (description: string, load: () => Promise<{ addTo: AddCommand }>): CommandEntry => ({
  description,
  load: async () => (await load()).addTo,
});

/** Entry for a noun whose commands are all generated from the API. */
const generated = (noun: string, description: string): CommandEntry => ({
  description,
  load: async () => {
    const { addApiCommands } = await import("./api/generated.ts");
    return (program) => void addApiCommands(program, noun);
  },
});

export const commandTable: Record<string, CommandEntry> = {
  serve: own("Run the server.", () => import("./commands/serve/serve.ts")),
  ephemeral: own("Run a command against a temporary instance.", () => import("./commands/serve/ephemeral.ts")),
  init: own("Set up an instance interactively.", () => import("./commands/init/init.ts")),
  setup: own("Claim a server that has no owner yet.", () => import("./commands/setup.ts")),
  login: {
    description: "Save a credential in a profile.",
    load: async () => (await import("./commands/login.ts")).addLoginCommand,
  },
  logout: {
    description: "End the session and remove the profile.",
    load: async () => (await import("./commands/login.ts")).addLogoutCommand,
  },
  whoami: {
    description: "Show who the credential belongs to.",
    load: async () => (await import("./commands/login.ts")).addWhoamiCommand,
  },
  profile: own("Manage saved credentials.", () => import("./commands/profile.ts")),
  workspace: own("Manage your workspace.", () => import("./commands/workspace.ts")),
  project: generated("project", "Manage projects: the APIs that keys belong to."),
  plan: generated("plan", "Manage plans: rate limits, quotas and key limits shared by tenants."),
  tenant: own("Manage tenants: your customers.", () => import("./commands/tenant.ts")),
  key: own("Manage your customers' API keys.", () => import("./commands/key/key.ts")),
  quota: own("Show quotas, grant units and take grants back.", () => import("./commands/quota.ts")),
  self: own("Show, rotate or revoke an API key with the key itself.", () => import("./commands/key/self.ts")),
  node: generated("node", "List the nodes that verify keys, and what they have acknowledged."),
  "secret-key": own("Manage the secret keys of your own backend.", () => import("./commands/key/secret-key.ts")),
  environment: generated("environment", "List the environments that keys belong to."),
  member: own("Manage the people in the workspace.", () => import("./commands/member.ts")),
  invite: generated("invite", "Manage invitations to the workspace."),
  session: generated("session", "Manage your own sessions."),
  "embed-token": generated("embed-token", "Create tokens for the embedded portal."),
  usage: own("Show traffic and billing figures.", () => import("./commands/usage/usage.ts")),
  audit: own("Read, verify and export the audit log.", () => import("./commands/audit/audit.ts")),
  "check-key": own("Check a key's format and checksum, offline.", () => import("./commands/key/check-key.ts")),
  scan: own("Find keys in files, offline.", () => import("./commands/scan/scan.ts")),
  gateway: own("Verify keys behind nginx, Caddy, Traefik or Envoy.", () => import("./commands/gateway.ts")),
  "signing-key": own("Manage the keys that sign embed tokens.", () => import("./commands/signing-key.ts")),
  "master-key": own("Rotate the master key, which encrypts secrets at rest.", () => import("./commands/master-key.ts")),
  user: own("Manage user accounts, as the operator.", () => import("./commands/user.ts")),
  mail: own("Inspect and retry outgoing mail, as the operator.", () => import("./commands/mail.ts")),
  meter: own(
    "Inspect, retry and replay the push of usage to a metering system, as the operator.",
    () => import("./commands/usage/meter.ts"),
  ),
  backup: own("Create, verify, test and prune backups.", () => import("./commands/backup/backup.ts")),
  restore: own("Restore a backup.", () => import("./commands/backup/restore.ts")),
  db: own("Migrate, check or copy the database.", () => import("./commands/db.ts")),
  doctor: own(
    "Find risks in settings, files and connections, and how to fix them.",
    () => import("./commands/doctor/doctor.ts"),
  ),
  release: own("Check a downloaded release, offline.", () => import("./commands/release/release.ts")),
  top: own("Show the largest users of each shared resource.", () => import("./commands/top.ts")),
  status: own("Show server health.", () => import("./commands/status.ts")),
  config: own("Show and check settings.", () => import("./commands/config.ts")),
  openapi: own("Print the API as an OpenAPI 3.1 document.", () => import("./commands/openapi.ts")),
  completion: {
    description: "Print a shell completion script.",
    load: async () => {
      const { addCompletionCommand } = await import("./commands/completion.ts");
      return (program) => addCompletionCommand(program, buildFullProgram);
    },
  },
  version: own("Print the version.", () => import("./commands/version.ts")),
};

/** Loads one command into the program. Its own description, if it has a longer one, wins over the table's. */
export async function addCommand(program: Command, { description, load }: CommandEntry): Promise<void> {
  (await load())(program);
  const command = program.commands.at(-1);
  if (command?.description() === "") command.description(description);
}

/** A list of commands has the first sentence of each. */
export const HELP: HelpConfiguration = {
  showGlobalOptions: false,
  subcommandDescription: (command) => /^.*?\.(?= |$)/s.exec(command.description())?.[0] ?? command.description(),
};

/** Loads every command: for completion scripts and the help page. */
export async function buildFullProgram(): Promise<Command> {
  const program = new Command("keyrack").configureHelp(HELP);
  for (const entry of Object.values(commandTable)) await addCommand(program, entry);
  return program;
}
