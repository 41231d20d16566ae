// The operator commands, by name. They run in the running instance, called over keyrack.sock, or else on the opened
// database. To add one, add an entry to `operatorCommands`. Each loads its modules when called, to keep starts fast.
// No command asks for a credential: only the operator can open the socket (mode 0600) or the data dir.
import { SYSTEM } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { VERSION } from "../platform/version.ts";
import { describeTarget } from "../store/target.ts";

export type Args = Record<string, unknown>;
/** `onProgress` takes any JSON value while a long command runs. */
export type OperatorCommand = (services: Services, args: Args, onProgress: (step: unknown) => void) => Promise<unknown>;

const operators = () => import("../domain/workspaces/operators.ts");
const outbox = () => import("../domain/mail/outbox.ts");
const metering = () => import("../domain/metering/status.ts");
const signingKeys = () => import("../domain/embed/signing-keys.ts");

/** Arguments come from another process, so their types are checked. */
function text(args: Args, name: string): string {
  const value = args[name];
  if (typeof value !== "string") throw new Error(`${name} is missing`);
  return value;
}

function optional(args: Args, name: string): string | undefined {
  return args[name] === undefined ? undefined : text(args, name);
}

/** Sends at once, also while a failed attempt waits for its next one. */
async function pushAgain(services: Services, hours: number) {
  const { pushUsage } = await import("../domain/metering/push.ts");
  await pushUsage(services, { evenIfWaiting: true });
  return { ...(await (await metering()).showMeter(services)), hours };
}

/** For the CLI, which refuses flags that name another database or backup folder than the instance uses. */
async function placesOf({ store, settings }: Services) {
  const { backupDir } = await import("../backup/files.ts");
  return { database: describeTarget(store.target), backup_dir: backupDir(settings) };
}

const ENVS = ["live", "test"] as const;
const MAIL_STATES = ["queued", "sent", "dead"] as const;

export const operatorCommands = {
  "instance.show": async (services) => ({
    object: "instance",
    ...(await placesOf(services)),
    version: VERSION,
    pid: process.pid,
    public_url: services.publicUrl,
    dialect: services.store.dialect,
    leads: services.worker.leads,
    backlog: services.store.backlog,
    commits: services.store.stats.commits,
  }),
  /** With its secrets, because `keyrack doctor` tries the connections. A caller that can read the data dir has them. */
  "instance.settings": async ({ settings }) => {
    const { withAbsolutePaths } = await import("../config/absolute-paths.ts");
    return { object: "settings", version: VERSION, pid: process.pid, settings: withAbsolutePaths(settings) };
  },
  "shares.top": async (services, args) => {
    const { listLargestOwners, RESOURCES } = await import("../domain/health/top.ts");
    return listLargestOwners(
      services,
      RESOURCES.find((resource) => resource === args.by),
    );
  },
  "checkpoints.run": async (services) => {
    const { runCheckpoints } = await import("../domain/audit/checkpoints.ts");
    return { object: "checkpoints", made: await runCheckpoints(services) };
  },
  "audit.list": async (services, args) => {
    const { listDeploymentAudit } = await import("../domain/audit/audit.ts");
    return listDeploymentAudit(services, { after_seq: Number(args.after_seq ?? 0), limit: Number(args.limit ?? 50) });
  },
  "setup.link": async (services) => {
    const { issueSetupLink } = await import("../domain/workspaces/setup-tokens.ts");
    return issueSetupLink(services);
  },
  "user.list": async (services) => (await operators()).listUsers(services),
  "user.create": async (services, args) => (await operators()).createUser(services, text(args, "email")),
  "user.unlock": async (services, args) => (await operators()).unlockUser(services, text(args, "email")),
  "user.reset-link": async (services, args) => (await operators()).createResetLink(services, text(args, "email")),
  "secret-key.create": async (services, args) => {
    const env = ENVS.find((each) => each === args.env);
    if (!env) throw new Error("env is missing");
    return (await operators()).createOwnerKey(services, text(args, "workspace_id"), env);
  },
  "mail.list": async (services, args) =>
    (await outbox()).listMail(services, { state: MAIL_STATES.find((state) => state === args.state) }),
  "mail.show": async (services, args) => (await outbox()).showMail(services, text(args, "id"), args.body === true),
  "mail.retry": async (services, args) => {
    const { deliverDue, retryMail, showMail } = await outbox();
    await retryMail(services, text(args, "id"));
    await deliverDue(services);
    return showMail(services, text(args, "id"), false);
  },
  "meter.status": async (services) => (await metering()).showMeter(services),
  "meter.replay": async (services, args) =>
    pushAgain(services, await (await metering()).replayMeter(services, Number(args.from), Number(args.to))),
  "meter.retry": async (services) => pushAgain(services, await (await metering()).retryMeter(services)),
  "backup.create": async (services, _args, onProgress) => {
    const { createBackup } = await import("../backup/create.ts");
    return createBackup(services, onProgress);
  },
  "backup.list": async ({ settings }) => {
    const { viewBackups } = await import("../backup/list.ts");
    return viewBackups(settings);
  },
  "backup.verify": async ({ settings }, args, onProgress) => {
    const { verifyBackup } = await import("../backup/verify.ts");
    return verifyBackup(settings, optional(args, "id"), onProgress);
  },
  "backup.prune": async (services, args) => {
    const [{ pruneBackups }, { ownDeploymentId }] = [
      await import("../backup/retention.ts"),
      await import("../backup/owner.ts"),
    ];
    const deploymentId = await ownDeploymentId(services);
    return pruneBackups(services.settings, { deploymentId, dryRun: args.dry_run === true });
  },
  "backup.test": async (services, args, onProgress) => {
    const { testBackup } = await import("../backup/restore-test.ts");
    return testBackup(services, optional(args, "id"), onProgress);
  },
  "signing-key.list": async (services) => (await signingKeys()).listSigningKeys(services),
  "signing-key.rotate": async (services, args) => {
    const { ensureEmbedKeys, rotateSigningKey } = await signingKeys();
    await ensureEmbedKeys(services);
    return rotateSigningKey({ services, actor: SYSTEM }, { compromised: args.compromised === true });
  },
} satisfies Record<string, OperatorCommand>;

export type OperatorCommandName = keyof typeof operatorCommands;
export type Result<N extends OperatorCommandName> = Awaited<ReturnType<(typeof operatorCommands)[N]>>;
