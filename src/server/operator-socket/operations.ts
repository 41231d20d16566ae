// The operations an operator may ask of an instance, by name: over keyrack.sock while it runs, else on the opened
// database. One table: whoever adds an operator command adds its line here. Loaded late, so each line costs nothing.
// The socket is the operator's own door (0600): nothing here asks for a credential.
import { SYSTEM } from "../../domain/core/actor.ts";
import type { Rack } from "../../domain/core/context.ts";
import { VERSION } from "../../platform/version.ts";

export type Args = Record<string, unknown>;
/** `progress` may be called with anything JSON while a long operation runs. */
export type Operation = (rack: Rack, args: Args, progress: (step: unknown) => void) => Promise<unknown>;

const people = () => import("../../domain/workspaces/operators.ts");
const outbox = () => import("../../domain/mail/outbox.ts");
const backups = () => import("../../backup/create.ts");
const signing = () => import("../../domain/embed/signing-keys.ts");

/** Arguments come from another process, so they are looked at before they are used. */
function text(args: Args, name: string): string {
  const value = args[name];
  if (typeof value !== "string") throw new Error(`${name} is missing`);
  return value;
}

function optional(args: Args, name: string): string | undefined {
  return args[name] === undefined ? undefined : text(args, name);
}

const STATES = ["queued", "sent", "dead"] as const;

export const operations = {
  "instance.show": async (rack) => ({
    object: "instance",
    version: VERSION,
    pid: process.pid,
    public_url: rack.publicUrl,
    dialect: rack.store.dialect,
    leads: rack.worker.leads,
    backlog: rack.store.backlog,
    commits: rack.store.stats.commits,
  }),
  "checkpoints.run": async (rack) => {
    const { runCheckpoints } = await import("../../domain/audit/checkpoints.ts");
    return { object: "checkpoints", made: await runCheckpoints(rack) };
  },
  "audit.list": async (rack, args) => {
    const { listDeploymentAudit } = await import("../../domain/audit/audit.ts");
    return listDeploymentAudit(rack, { after_seq: Number(args.after_seq ?? 0), limit: Number(args.limit ?? 50) });
  },
  "user.list": async (rack) => (await people()).listUsers(rack),
  "user.unlock": async (rack, args) => (await people()).unlockUser(rack, text(args, "email")),
  "user.reset-link": async (rack, args) => (await people()).makeResetLink(rack, text(args, "email")),
  "mail.list": async (rack, args) =>
    (await outbox()).listMail(rack, { state: STATES.find((state) => state === args.state) }),
  "mail.show": async (rack, args) => (await outbox()).showMail(rack, text(args, "id"), args.body === true),
  "mail.retry": async (rack, args) => {
    const { deliverDue, retryMail, showMail } = await outbox();
    await retryMail(rack, text(args, "id"));
    await deliverDue(rack);
    return showMail(rack, text(args, "id"), false);
  },
  "backup.create": async (rack, _args, progress) => (await backups()).createBackup(rack, progress),
  "backup.list": async (rack) => (await backups()).viewBackups(rack),
  "backup.verify": async (rack, args, progress) => (await backups()).verifyBackup(rack, optional(args, "id"), progress),
  "backup.prune": async (rack, args) => (await backups()).pruneBackups(rack, { dryRun: args.dry_run === true }),
  "backup.test": async (rack, args, progress) => {
    const { testBackup } = await import("../../backup/restore-test.ts");
    return testBackup(rack, optional(args, "id"), progress);
  },
  "signing-key.list": async (rack) => (await signing()).listSigningKeys(rack),
  "signing-key.rotate": async (rack, args) => {
    const { ensureEmbedKeys, rotateSigningKey } = await signing();
    await ensureEmbedKeys(rack);
    return rotateSigningKey({ rack, actor: SYSTEM }, { compromised: args.compromised === true });
  },
} satisfies Record<string, Operation>;

export type OperationName = keyof typeof operations;
export type Result<N extends OperationName> = Awaited<ReturnType<(typeof operations)[N]>>;
