// Operator commands that give access: accounts, unlocked logins, reset links, secret keys. Not reachable through the
// API.
import { randomBytes } from "node:crypto";
import type { Env } from "../../kernel/credentials.ts";
import { normalizeEmail } from "../../kernel/emails.ts";
import { fail } from "../../kernel/errors.ts";
import { isUuid } from "../../kernel/ids.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { clearAllLoginFailures, disabledAddresses } from "../../store/queries/logins.ts";
import { LIST_MAX } from "../../store/queries/page.ts";
import { insertSecretKey } from "../../store/queries/secret-keys.ts";
import type { UserRow } from "../../store/schema/tables.ts";
import { insertUser, listUsers as listUserRows, userByEmailKey } from "../../store/queries/users.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import { SYSTEM, type SystemActor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { throttleKey } from "../limits/throttles.ts";
import { pageLink } from "../mail/templates.ts";
import { CONSECUTIVE_FAILURES_MAX } from "../auth/login-throttle.ts";
import { mutate } from "../core/mutate.ts";
import { mint, onHashConflict, retryOnHashCollision } from "../auth/new-credentials.ts";
import { issueToken, type IssuedToken } from "../auth/one-time-tokens.ts";
import { unknownCaller } from "../auth/password-queue.ts";
import { userCreated } from "../auth/user-events.ts";
import { newUser } from "../auth/users.ts";
import { listOf } from "../core/list.ts";
import { viewSecretKey, viewUser, withKey } from "../core/views.ts";
import { newSecretKeyRow, secretKeyCreated } from "../keys/secret-keys.ts";

const UNLOCKED = "unlocked";

/** Clears the login windows of this process when another process has unlocked an account. */
export function listenForUnlocks({ store, throttles }: Services): void {
  store.onNotice(UNLOCKED, (address_key) => throttles.reset(address_key));
}

const asOperator = (services: Services): Ctx<SystemActor> => ({ services, actor: SYSTEM });

export async function listUsers(services: Services) {
  const { read } = services.store;
  const disabled = await disabledAddresses.all(read, { max: CONSECUTIVE_FAILURES_MAX });
  const keys = new Set(disabled.map(({ address_key }) => address_key));
  return listOf(await listUserRows.all(read, {}), LIST_MAX, (row) => ({
    ...viewUser(row),
    login_disabled: keys.has(throttleKey(services, row.email_key)),
  }));
}

async function findUserByEmail(services: Services, email: string): Promise<UserRow> {
  const row = await userByEmailKey.first(services.store.read, { email_key: normalizeEmail(email) });
  if (!row) throw fail("user_not_found");
  return row;
}

/** Clears the failed logins of an account. */
export async function unlockUser(services: Services, email: string) {
  const user = await findUserByEmail(services, email);
  const address_key = throttleKey(services, user.email_key);
  await mutate(asOperator(services), { workspace_id: null }, async (tx) => {
    const cleared = await clearAllLoginFailures.run(tx, { address_key });
    const payload = { login_unlocked: true, buckets: cleared };
    return { value: null, events: [{ action: "user.updated", target_id: user.id, payload }] };
  });
  services.throttles.reset(address_key);
  // Other processes have windows of their own. One that misses the notification keeps them until they expire.
  await services.store.notify(UNLOCKED, address_key).catch(() => {});
  return { object: "user" as const, id: user.id, email: user.email, unlocked: true as const };
}

/** An account without a usable password, and a link that sets one. */
export async function createUser(services: Services, email: string) {
  const email_key = normalizeEmail(email);
  const password_phc = await services.passwords.hash(unknownCaller({}), randomBytes(32).toString("base64url"));
  return mutate(asOperator(services), { workspace_id: null }, async (tx) => {
    if (await userByEmailKey.first(tx, { email_key })) throw fail("user_exists");
    const user = newUser(services, { email, email_key, password_phc }, false);
    await insertUser.run(tx, user);
    const token = await issueToken(services, tx, user.id, "password_reset");
    return { value: viewResetLink(services, user, token), events: [userCreated(user.id)] };
  });
}

function viewResetLink(services: Services, user: UserRow, token: IssuedToken) {
  return {
    object: "reset_link" as const,
    user_id: user.id,
    email: user.email,
    link: pageLink(services, "reset", token.text),
    expires_at: formatTimestamp(token.expires_at),
  };
}

/** A reset link for a person who gets no mail. It is returned here and stored nowhere. */
export async function createResetLink(services: Services, email: string) {
  const user = await findUserByEmail(services, email);
  return mutate(asOperator(services), { workspace_id: null }, async (tx) => {
    const token = await issueToken(services, tx, user.id, "password_reset");
    return {
      value: viewResetLink(services, user, token),
      events: [{ action: "user.updated", target_id: user.id, payload: { reset_link: { issued: true } } }],
    };
  });
}

/**
 * A secret key with an owner's authority. No limit applies: it is the way back into a workspace that has no other
 * credential.
 */
export function createOwnerKey(services: Services, workspace_id: string, env: Env) {
  const ctx = asOperator(services);
  return retryOnHashCollision(() => {
    const minted = mint("secret_key", env);
    const row = newSecretKeyRow(ctx, { env, workspace_id, owner_scope: true, ...minted.stored });
    return mutate(ctx, { workspace_id, onConflict: onHashConflict }, async (tx) => {
      if (!isUuid(workspace_id) || !(await workspaceById.first(tx, { id: workspace_id })))
        throw fail("workspace_not_found");
      await insertSecretKey.run(tx, row);
      return { value: withKey(viewSecretKey(row), minted.text), events: [secretKeyCreated(row)] };
    });
  });
}
