// The table of top-level commands: name, one-line description, and a lazy loader for the file that defines it.
import { Command } from "commander";

type AddCommand = (program: Command) => void;
type CommandEntry = { description: string; load: () => Promise<AddCommand> };

/** Entry for a noun whose commands are all generated from the API. */
const generated = (noun: string, description: string): CommandEntry => ({
  description,
  load: async () => {
    const { addApiCommands } = await import("./api/generated.ts");
    return (program) => void addApiCommands(program, noun);
  },
});

export const commandTable: Record<string, CommandEntry> = {
  serve: {
    description: "Run the server.",
    load: async () => (await import("./commands/serve/serve.ts")).addServeCommand,
  },
  ephemeral: {
    description: "Run a command against a temporary instance.",
    load: async () => (await import("./commands/serve/ephemeral.ts")).addEphemeralCommand,
  },
  init: {
    description: "Set up an instance interactively.",
    load: async () => (await import("./commands/init/init.ts")).addInitCommand,
  },
  setup: {
    description: "Claim a server that has no owner yet.",
    load: async () => (await import("./commands/setup.ts")).addSetupCommands,
  },
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
  profile: {
    description: "Manage saved credentials.",
    load: async () => (await import("./commands/profile.ts")).addProfileCommands,
  },
  workspace: {
    description: "Manage your workspace.",
    load: async () => (await import("./commands/workspace.ts")).addWorkspaceCommands,
  },
  project: generated("project", "Manage projects: the APIs that keys belong to."),
  plan: {
    description: "Manage plans: rate limits, quotas and key limits shared by tenants.",
    load: async () => (await import("./commands/plan.ts")).addPlanCommands,
  },
  tenant: {
    description: "Manage tenants: your customers.",
    load: async () => (await import("./commands/tenant.ts")).addTenantCommands,
  },
  key: {
    description: "Manage your customers' API keys.",
    load: async () => (await import("./commands/key/key.ts")).addKeyCommands,
  },
  quota: {
    description: "Show quotas, grant units and take grants back.",
    load: async () => (await import("./commands/quota.ts")).addQuotaCommands,
  },
  self: {
    description: "Show, rotate or revoke an API key with the key itself.",
    load: async () => (await import("./commands/key/self.ts")).addSelfCommands,
  },
  node: generated("node", "List the nodes that verify keys, and what they have acknowledged."),
  "secret-key": {
    description: "Manage the secret keys of your own backend.",
    load: async () => (await import("./commands/key/secret-key.ts")).addSecretKeyCommands,
  },
  environment: generated("environment", "List the environments that keys belong to."),
  member: {
    description: "Manage the people in the workspace.",
    load: async () => (await import("./commands/member.ts")).addMemberCommands,
  },
  invite: generated("invite", "Manage invitations to the workspace."),
  session: generated("session", "Manage your own sessions."),
  "embed-token": generated("embed-token", "Create tokens for the embedded portal."),
  usage: {
    description: "Show traffic and billing figures.",
    load: async () => (await import("./commands/usage/usage.ts")).addUsageCommands,
  },
  audit: {
    description: "Read, verify and export the audit log.",
    load: async () => (await import("./commands/audit/audit.ts")).addAuditCommands,
  },
  "check-key": {
    description: "Check a key's format and checksum, offline.",
    load: async () => (await import("./commands/key/check-key.ts")).addCheckKeyCommand,
  },
  scan: {
    description: "Find keys in files, offline.",
    load: async () => (await import("./commands/scan/scan.ts")).addScanCommand,
  },
  gateway: {
    description: "Verify keys behind nginx, Caddy, Traefik or Envoy.",
    load: async () => (await import("./commands/gateway.ts")).addGatewayCommand,
  },
  "signing-key": {
    description: "Manage the keys that sign embed tokens.",
    load: async () => (await import("./commands/signing-key.ts")).addSigningKeyCommands,
  },
  "master-key": {
    description: "Rotate the master key, which encrypts secrets at rest.",
    load: async () => (await import("./commands/master-key.ts")).addMasterKeyCommands,
  },
  user: {
    description: "Manage user accounts, as the operator.",
    load: async () => (await import("./commands/user.ts")).addUserCommands,
  },
  mail: {
    description: "Inspect and retry outgoing mail, as the operator.",
    load: async () => (await import("./commands/mail.ts")).addMailCommands,
  },
  meter: {
    description: "Inspect, retry and replay the push of usage to a metering system, as the operator.",
    load: async () => (await import("./commands/usage/meter.ts")).addMeterCommands,
  },
  backup: {
    description: "Create, verify, test and prune backups.",
    load: async () => (await import("./commands/backup/backup.ts")).addBackupCommands,
  },
  restore: {
    description: "Restore a backup.",
    load: async () => (await import("./commands/backup/restore.ts")).addRestoreCommand,
  },
  db: {
    description: "Migrate, check or copy the database.",
    load: async () => (await import("./commands/db.ts")).addDbCommands,
  },
  doctor: {
    description: "Find risks in settings, files and connections, and how to fix them.",
    load: async () => (await import("./commands/doctor/doctor.ts")).addDoctorCommand,
  },
  release: {
    description: "Check a downloaded release, offline.",
    load: async () => (await import("./commands/release/release.ts")).addReleaseCommands,
  },
  top: {
    description: "Show the largest users of each shared resource.",
    load: async () => (await import("./commands/top.ts")).addTopCommand,
  },
  status: {
    description: "Show server health.",
    load: async () => (await import("./commands/status.ts")).addStatusCommand,
  },
  config: {
    description: "Show and check settings.",
    load: async () => (await import("./commands/config.ts")).addConfigCommands,
  },
  openapi: {
    description: "Print the API as an OpenAPI 3.1 document.",
    load: async () => (await import("./commands/openapi.ts")).addOpenapiCommand,
  },
  completion: {
    description: "Print a shell completion script.",
    load: async () => {
      const { addCompletionCommand } = await import("./commands/completion.ts");
      return (program) => addCompletionCommand(program, buildFullProgram);
    },
  },
  version: {
    description: "Print the version.",
    load: async () => (await import("./commands/version.ts")).addVersionCommand,
  },
};

/** Loads one command into the program. Its own description, if it has a longer one, wins over the table's. */
export async function addCommand(program: Command, { description, load }: CommandEntry): Promise<void> {
  (await load())(program);
  const command = program.commands.at(-1);
  if (command?.description() === "") command.description(description);
}

/** Loads every command: for completion scripts and the help page. */
export async function buildFullProgram(): Promise<Command> {
  const program = new Command("keyrack");
  for (const entry of Object.values(commandTable)) await addCommand(program, entry);
  return program;
}
