// Every first word of the command line, what it is for, and the one file it loads.
import type { Command } from "commander";

export type NounEntry = { about: string; load: () => Promise<(program: Command) => void> };

/** A noun whose verbs are all one call. */
const plain = (noun: string, about: string): [string, NounEntry] => [
  noun,
  {
    about,
    load: async () => {
      const { addVerbs } = await import("./api/generated.ts");
      return (program) => void addVerbs(program, noun);
    },
  },
];

export const nouns: Record<string, NounEntry> = Object.fromEntries([
  ["serve", { about: "Run the server.", load: async () => (await import("./commands/serve.ts")).addServeCommand }],
  [
    "ephemeral",
    {
      about: "Run a command against a throwaway instance.",
      load: async () => (await import("./commands/serve.ts")).addEphemeralCommand,
    },
  ],
  [
    "init",
    {
      about: "Set up an instance, step by step.",
      load: async () => (await import("./commands/setup/init.ts")).addInitCommand,
    },
  ],
  [
    "login",
    {
      about: "Keep a credential in a profile.",
      load: async () => (await import("./commands/login.ts")).addLoginCommand,
    },
  ],
  [
    "logout",
    {
      about: "End the session and forget it.",
      load: async () => (await import("./commands/login.ts")).addLogoutCommand,
    },
  ],
  [
    "whoami",
    {
      about: "Whom the credential belongs to.",
      load: async () => (await import("./commands/login.ts")).addWhoamiCommand,
    },
  ],
  [
    "profile",
    { about: "Kept credentials.", load: async () => (await import("./commands/profile.ts")).addProfileCommands },
  ],
  [
    "workspace",
    { about: "Your account.", load: async () => (await import("./commands/workspace.ts")).addWorkspaceCommands },
  ],
  plain("project", "The APIs that keys belong to."),
  ["tenant", { about: "Your customers.", load: async () => (await import("./commands/tenant.ts")).addTenantCommands }],
  [
    "key",
    { about: "API keys of your customers.", load: async () => (await import("./commands/key/key.ts")).addKeyCommands },
  ],
  plain("secret-key", "Keys of your own backend."),
  plain("environment", "The environments keys live in."),
  plain("member", "People in the workspace."),
  plain("invite", "Invitations into the workspace."),
  plain("session", "Your own log-ins."),
  plain("embed-token", "Tokens for the portal in your pages."),
  plain("usage", "Traffic and billing figures."),
  [
    "audit",
    { about: "The audit log.", load: async () => (await import("./commands/audit/audit.ts")).addAuditCommands },
  ],
  [
    "check-key",
    {
      about: "Look at a key, offline.",
      load: async () => (await import("./commands/check-key.ts")).addCheckKeyCommand,
    },
  ],
  [
    "scan",
    { about: "Find keys in files, offline.", load: async () => (await import("./commands/scan.ts")).addScanCommand },
  ],
  [
    "gateway",
    {
      about: "Verify keys behind nginx, Caddy, Traefik or Envoy.",
      load: async () => (await import("./commands/gateway.ts")).addGatewayCommand,
    },
  ],
  [
    "signing-key",
    {
      about: "The keys that sign embed tokens.",
      load: async () => (await import("./commands/signing-key.ts")).addSigningKeyCommands,
    },
  ],
  [
    "master-key",
    {
      about: "The key that seals secrets at rest.",
      load: async () => (await import("./commands/master-key.ts")).addMasterKeyCommands,
    },
  ],
  [
    "user",
    {
      about: "People with an account, for the operator.",
      load: async () => (await import("./commands/user.ts")).addUserCommands,
    },
  ],
  [
    "mail",
    { about: "The outbox, for the operator.", load: async () => (await import("./commands/mail.ts")).addMailCommands },
  ],
  [
    "backup",
    {
      about: "Backups, and whether they are any good.",
      load: async () => (await import("./commands/backup.ts")).addBackupCommands,
    },
  ],
  [
    "restore",
    {
      about: "Put a backup in the place of the database.",
      load: async () => (await import("./commands/restore.ts")).addRestoreCommand,
    },
  ],
  ["db", { about: "The database's schema.", load: async () => (await import("./commands/db.ts")).addDbCommands }],
  [
    "doctor",
    {
      about: "Look for risks and say how to mend them.",
      load: async () => (await import("./commands/setup/doctor.ts")).addDoctorCommand,
    },
  ],
  [
    "status",
    { about: "How the server is.", load: async () => (await import("./commands/status.ts")).addStatusCommand },
  ],
  [
    "config",
    { about: "Show and check settings.", load: async () => (await import("./commands/config.ts")).addConfigCommands },
  ],
  [
    "openapi",
    {
      about: "Print the API as OpenAPI 3.1.",
      load: async () => (await import("./commands/about.ts")).addOpenapiCommand,
    },
  ],
  [
    "completion",
    {
      about: "Print a completion script.",
      load: async () => (await import("./commands/completion.ts")).addCompletionCommand,
    },
  ],
  [
    "version",
    { about: "Print the version.", load: async () => (await import("./commands/about.ts")).addVersionCommand },
  ],
] as [string, NounEntry][]);
