// Setup: the first person claims an instance and gets a workspace to start with, all in one transaction: a session, a
// project, a tenant, and a secret key and an API key of the test environment. No live credential is made, no mail is
// sent.
import { normalizeEmail } from "../../kernel/emails.ts";
import { fail, failField } from "../../kernel/errors.ts";
import { insertKey } from "../../store/queries/keys.ts";
import { clearAllLoginFailures } from "../../store/queries/logins.ts";
import { insertMembership } from "../../store/queries/memberships.ts";
import { endTokens } from "../../store/queries/one-time-tokens.ts";
import { insertProject } from "../../store/queries/projects.ts";
import { insertSecretKey } from "../../store/queries/secret-keys.ts";
import { insertSession, revokeSessionsOf } from "../../store/queries/sessions.ts";
import { indexTenant } from "../search/changes.ts";
import { insertTenant } from "../../store/queries/tenants.ts";
import { insertUser, recordLogin, setPassword, userByEmailKey } from "../../store/queries/users.ts";
import { insertWorkspace } from "../../store/queries/workspaces.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { ApiKeyRow, UserRow } from "../../store/schema/tables.ts";
import { verifyAddress } from "../auth/email-verifications.ts";
import { mint, onHashConflict, retryOnHashCollision } from "../auth/new-credentials.ts";
import { checkNewPassword } from "../auth/password-policy.ts";
import { unknownCaller } from "../auth/password-queue.ts";
import { newSession, sessionCreated, viewLogin } from "../auth/sessions.ts";
import { throttleKey } from "../limits/throttles.ts";
import { emailVerified, userCreated } from "../auth/user-events.ts";
import { newUser } from "../auth/users.ts";
import type { AnonymousActor, WorkspaceSession } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import type { Event } from "../core/events.ts";
import { mutate } from "../core/mutate.ts";
import { viewKey, viewProject, viewSecretKey, viewTenant, viewWorkspace, withKey } from "../core/views.ts";
import { keyCreated, newKeyRow } from "../keys/keys.ts";
import { newSecretKeyRow, secretKeyCreated } from "../keys/secret-keys.ts";
import { newProjectRow, projectCreated } from "./projects.ts";
import { endSetupLinks, hasOwner, isClaimed, isSetupOpen, requireSetupToken } from "./setup-tokens.ts";
import { newTenantRow, reserveSlot, tenantCreated } from "./tenants.ts";
import { newWorkspaceRow, ownerJoined, workspaceCreated } from "./workspaces.ts";

export async function showSetup(services: Services) {
  const { password_min, sign_up, unverified_login, mail_url } = services.settings;
  const open = await isSetupOpen(services);
  return { object: "setup" as const, open, password_min, sign_up, unverified_login, mail: mail_url.kind };
}

type Setup = {
  token: string;
  email: string;
  password: string;
  name?: string | undefined;
  workspace_name: string;
  workspace_slug: string;
  project_name: string;
  project_slug: string;
};

/** A refusal never uses the token up. */
export async function completeSetup(ctx: Ctx<AnonymousActor>, input: Setup) {
  const { services, from } = ctx;
  if (await isClaimed(services)) throw fail("setup_done");
  await requireSetupToken(services, services.store.read, input.token).catch(async (error: unknown) => {
    // Where another process was claimed within the last second, the token ended with that.
    throw (await hasOwner(services.store.read)) ? fail("setup_done") : error;
  });
  const words = [input.workspace_name, input.workspace_slug];
  checkNewPassword(services, input.password, { email: input.email, words });
  // Hashed only now: a caller without a token must not buy the work.
  const password_phc = await services.passwords.hash(unknownCaller(ctx), input.password);
  const email_key = normalizeEmail(input.email);
  // Decides whose audit rows these are; the transaction fails if another request takes the address first.
  const known = await userByEmailKey.first(services.store.read, { email_key });
  const user = known ?? newUser(services, { ...input, email_key, password_phc }, true);
  const made = await retryOnHashCollision(() =>
    claim(services, input, { user, known: known !== undefined, password_phc }, from),
  );
  services.setup.claimed = true;
  services.throttles.reset(throttleKey(services, email_key));
  services.log.info("setup completed", { user_id: user.id, workspace_id: made.workspace.id, ...from });
  return made;
}

const FIRST_VERIFIER = {
  env: "test",
  name: "First verifier",
  owner_scope: false,
  permissions: ["verify"],
} as const;

type FirstOwner = { user: UserRow; known: boolean; password_phc: string };

function claim(services: Services, input: Setup, owner: FirstOwner, from: Ctx["from"]) {
  const records = makeFirstRecords(services, input, owner.user, from);
  const { ctx, session, workspace, project, tenant, secretKey } = records;
  const workspace_id = workspace.id;
  // The deployment's chain is locked first, by every process: of two claims the second sees the first.
  return mutate(ctx, { workspace_id, deployment: true, onConflict }, async (tx) => {
    if (await hasOwner(tx)) throw fail("setup_done");
    await requireSetupToken(services, tx, input.token);
    const now = services.clock.now();
    await endSetupLinks(services, tx);
    const ownerEvents = await writeOwner(services, tx, owner, now);
    const apiKey = await writeFirstRecords(tx, records, owner, now);
    return {
      value: viewFirstRecords(records, apiKey, owner.user, now),
      events: [
        workspaceCreated(workspace),
        ownerJoined(owner.user),
        secretKeyCreated(secretKey),
        projectCreated(project),
        tenantCreated(tenant),
        keyCreated(apiKey, []),
        ...ownerEvents,
        sessionCreated(session),
        { action: "setup.completed", target_id: null, payload: { workspace_id } },
      ],
    };
  });
}

type FirstRecords = ReturnType<typeof makeFirstRecords>;

/** All but the API key, which gets the project's policy version when it is written. */
function makeFirstRecords(services: Services, input: Setup, user: UserRow, from: Ctx["from"]) {
  const minted = { session: mint("session"), secret_key: mint("secret_key", "test"), api_key: mint("api_key", "test") };
  const session = newSession(services, user.id, minted.session.stored);
  const workspace = newWorkspaceRow(services, { name: input.workspace_name, slug: input.workspace_slug }, user.id);
  const workspace_id = workspace.id;
  const actor: WorkspaceSession = { kind: "session", id: session.id, user_id: user.id, workspace_id, role: "owner" };
  const ctx: Ctx<WorkspaceSession> = { services, actor, from };
  const project = newProjectRow(ctx, { name: input.project_name, slug: input.project_slug });
  const tenant = newTenantRow(ctx, { external_id: "example-customer", name: "Example customer" });
  const secretKey = newSecretKeyRow(ctx, { ...FIRST_VERIFIER, workspace_id, ...minted.secret_key.stored });
  session.active_workspace_id = workspace_id;
  return { ctx, minted, session, workspace, project, tenant, secretKey };
}

async function writeFirstRecords(tx: Tx, records: FirstRecords, owner: FirstOwner, now: number): Promise<ApiKeyRow> {
  const { ctx, minted, session, workspace, project, tenant, secretKey } = records;
  const { user, password_phc } = owner;
  const workspace_id = workspace.id;
  await insertWorkspace.run(tx, workspace);
  await insertMembership.run(tx, { workspace_id, user_id: user.id, role: "owner", created_at: now, updated_at: now });
  await insertSession.run(tx, session);
  await recordLogin.run(tx, { id: user.id, last_workspace_id: workspace_id, password_phc, last_login_at: now });
  await insertSecretKey.run(tx, secretKey);
  await insertProject.run(tx, project);
  await reserveSlot(ctx, tx, tenant);
  await insertTenant.run(tx, tenant);
  await indexTenant(tx, tenant);
  const policy_version = await tx.bump(project.id);
  const want = { project_id: project.id, tenant_id: tenant.id, env: "test" as const, name: "First key" };
  const apiKey = newKeyRow(ctx, want, minted.api_key.stored, { project, tenant, plan: null, policy_version });
  await insertKey.run(tx, apiKey);
  return apiKey;
}

function viewFirstRecords(records: FirstRecords, apiKey: ApiKeyRow, user: UserRow, now: number) {
  const { ctx, minted, session, workspace, project, tenant, secretKey } = records;
  const person = { ...user, email_verified_at: user.email_verified_at ?? now, last_login_at: now };
  const { id: workspace_id, name, slug } = workspace;
  return {
    object: "setup" as const,
    session: viewLogin(session, minted.session.text, person, [{ workspace_id, role: "owner", name, slug }]),
    workspace: viewWorkspace(workspace),
    project: viewProject({ ...project, policy_version: apiKey.policy_version }),
    tenant: viewTenant(tenant),
    secret_key: withKey(viewSecretKey(secretKey), minted.secret_key.text),
    api_key: withKey(viewKey(apiKey), minted.api_key.text),
    command: ctx.services.command,
  };
}

function onConflict(target: string) {
  if (target.includes("slug")) return failField("slug_taken", "workspace_slug", "is already in use");
  return target.includes("email_key") ? fail("user_exists") : onHashConflict(target);
}

/** An account that exists gets the new password and loses its sessions: the token proves control of the instance. */
async function writeOwner(
  services: Services,
  tx: Tx,
  { user, known, password_phc }: FirstOwner,
  now: number,
): Promise<Event[]> {
  const { id: user_id } = user;
  if (!known) {
    await insertUser.run(tx, user);
    return [userCreated(user_id), emailVerified(user_id)];
  }
  await setPassword.run(tx, { id: user_id, password_phc, updated_at: now });
  await endTokens.run(tx, { user_id, purpose: "password_reset", now });
  await clearAllLoginFailures.run(tx, { address_key: throttleKey(services, user.email_key) });
  const verified = await verifyAddress(tx, user_id, now);
  const revoked_sessions = await revokeSessionsOf.run(tx, { user_id, except: "", now });
  const reset: Event = { action: "user.password_reset", target_id: user_id, payload: { revoked_sessions } };
  return verified ? [reset, emailVerified(user_id)] : [reset];
}
