// The operations an operator may ask of an instance, by name: over keyrack.sock while it runs, else on the opened
// database. One table: whoever adds an operator command adds its line here. Loaded late, so each line costs nothing.
// The socket is the operator's own door (0600): nothing here asks for a credential.
import { SYSTEM } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { VERSION } from "../platform/version.ts";

export type Args = Record<string, unknown>;
/** `progress` may be called with anything JSON while a long operation runs. */
export type Operation = (services: Services, args: Args, progress: (step: unknown) => void) => Promise<unknown>;

const people = () => import("../domain/workspaces/operators.ts");
const outbox = () => import("../domain/mail/outbox.ts");
const signing = () => import("../domain/embed/signing-keys.ts");

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
  "instance.show": async (services) => ({
    object: "instance",
    version: VERSION,
    pid: process.pid,
    public_url: services.publicUrl,
    dialect: services.store.dialect,
    leads: services.worker.leads,
    backlog: services.store.backlog,
    commits: services.store.stats.commits,
  }),
  "checkpoints.run": async (services) => {
    const { runCheckpoints } = await import("../domain/audit/checkpoints.ts");
    return { object: "checkpoints", made: await runCheckpoints(services) };
  },
  "audit.list": async (services, args) => {
    const { listDeploymentAudit } = await import("../domain/audit/audit.ts");
    return listDeploymentAudit(services, { after_seq: Number(args.after_seq ?? 0), limit: Number(args.limit ?? 50) });
  },
  "user.list": async (services) => (await people()).listUsers(services),
  "user.unlock": async (services, args) => (await people()).unlockUser(services, text(args, "email")),
  "user.reset-link": async (services, args) => (await people()).createResetLink(services, text(args, "email")),
  "mail.list": async (services, args) =>
    (await outbox()).listMail(services, { state: STATES.find((state) => state === args.state) }),
  "mail.show": async (services, args) => (await outbox()).showMail(services, text(args, "id"), args.body === true),
  "mail.retry": async (services, args) => {
    const { deliverDue, retryMail, showMail } = await outbox();
    await retryMail(services, text(args, "id"));
    await deliverDue(services);
    return showMail(services, text(args, "id"), false);
  },
  "backup.create": async (services, _args, progress) => {
    const { createBackup } = await import("../backup/create.ts");
    return createBackup(services, progress);
  },
  "backup.list": async ({ settings }) => {
    const { viewBackups } = await import("../backup/list.ts");
    return viewBackups(settings);
  },
  "backup.verify": async ({ settings }, args, progress) => {
    const { verifyBackup } = await import("../backup/verify.ts");
    return verifyBackup(settings, optional(args, "id"), progress);
  },
  "backup.prune": async ({ settings }, args) => {
    const { pruneBackups } = await import("../backup/retention.ts");
    return pruneBackups(settings, { dryRun: args.dry_run === true });
  },
  "backup.test": async (services, args, progress) => {
    const { testBackup } = await import("../backup/restore-test.ts");
    return testBackup(services, optional(args, "id"), progress);
  },
  "signing-key.list": async (services) => (await signing()).listSigningKeys(services),
  "signing-key.rotate": async (services, args) => {
    const { ensureEmbedKeys, rotateSigningKey } = await signing();
    await ensureEmbedKeys(services);
    return rotateSigningKey({ services, actor: SYSTEM }, { compromised: args.compromised === true });
  },
} satisfies Record<string, Operation>;

export type OperationName = keyof typeof operations;
export type Result<N extends OperationName> = Awaited<ReturnType<(typeof operations)[N]>>;
