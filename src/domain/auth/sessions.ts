// Sessions: signed-in people (docs/design/0010-sessions-without-cookies.md). The token is returned by the login and
// never again. The active workspace belongs to the session; requests do not name one.
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { normalizeEmail } from "../../kernel/emails.ts";
import { fail } from "../../kernel/errors.ts";
import { membershipsOfUser, membershipOf } from "../../store/queries/memberships.ts";
import {
  insertSession,
  liveSessionById,
  liveSessions,
  revokeSessionRow,
  setActiveWorkspace,
  trimEndedSessions,
} from "../../store/queries/sessions.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { SessionRow, UserRow } from "../../store/schema/tables.ts";
import { recordLogin, setLastWorkspace, userByEmailKey, userById } from "../../store/queries/users.ts";
import { ownerOf, type AnonymousActor, type SessionActor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import type { Event } from "../core/events.ts";
import { mailVerification } from "./email-verifications.ts";
import { checkPasswordThrottled, type LoginAttempt } from "./login-throttle.ts";
import { onHashConflict, mint, retryOnHashCollision } from "./new-credentials.ts";
import { mutate } from "../core/mutate.ts";
import { record } from "../core/record.ts";
import { listOf } from "../core/list.ts";
import { viewSession, viewUserFields, type Membership } from "../core/views.ts";

export const IDLE_MS = 12 * HOUR_MS;
const ABSOLUTE_MS = 30 * DAY_MS;
export const SESSIONS_MAX = 50;
const RESEND_PAUSE_MS = 2 * MINUTE_MS;
/** Ended sessions to keep per person, and to delete at most at one login. */
const ENDED_SESSIONS = { keep: 100, limit: 1_000 };

type LogIn = { email: string; password: string; workspace_id?: string | undefined };

/** The stored hash changed between the check and the commit: by a reset, or because another login rehashed it. */
class PasswordChanged extends Error {}

export async function logIn(ctx: Ctx<AnonymousActor>, input: LogIn) {
  const { services, from } = ctx;
  const email_key = normalizeEmail(input.email);
  for (let tries = 1; ; tries++) {
    const user = await userByEmailKey.first(services.store.read, { email_key });
    const refuse = user && refusesUnverified(services, user);
    const subject = { email_key, phc: user?.password_phc ?? null, password: input.password, from, refuse };
    const attempt = await checkPasswordThrottled(services, subject, "invalid_credentials");
    if (!user) throw fail("invalid_credentials");
    try {
      return await openSession(ctx, user, input, attempt);
    } catch (error) {
      if (!(error instanceof PasswordChanged) || tries > 1) throw error;
    }
  }
}

/**
 * With KEYRACK_UNVERIFIED_LOGIN=refuse an unverified account looks like a wrong password. Otherwise a stranger who
 * signs up with an address and then logs in learns whether it had an account. The owner gets another link by mail, but
 * not right after the last: clients log in as soon as they have signed up, and a new link ends the one before.
 */
function refusesUnverified(services: Services, user: UserRow): (() => void) | undefined {
  if (user.email_verified_at !== null || services.settings.unverified_login === "allow") return undefined;
  // Not awaited, so that it takes no longer than a wrong password: both writes are in one commit.
  return () => {
    mailVerification(services, user, RESEND_PAUSE_MS).catch((error: unknown) =>
      services.log.error("verification mail failed", { user_id: user.id, error: (error as Error).message }),
    );
  };
}

async function openSession(ctx: Ctx<AnonymousActor>, user: UserRow, input: LogIn, attempt: LoginAttempt) {
  const { services, from } = ctx;
  const password_phc = await rehashIfStale(services, attempt, user.password_phc, input.password);
  return retryOnHashCollision(async () => {
    const minted = mint("session");
    const row = newSession(services, user.id, minted.stored);
    const asUser: Ctx = { services, actor: { kind: "user", user_id: user.id }, from };
    const value = await mutate(asUser, { workspace_id: null, onConflict: onHashConflict }, async (tx) => {
      const current = await userById.first(tx, { id: user.id });
      if (!current || current.password_phc !== user.password_phc) throw new PasswordChanged();
      const memberships = await membershipsOfUser.all(tx, { user_id: user.id });
      row.active_workspace_id = chooseWorkspace(memberships, input.workspace_id, current.last_workspace_id);
      const ended = await endOldestSessions(tx, user.id, row.created_at);
      await insertSession.run(tx, row);
      await trimEndedSessions.run(tx, { user_id: user.id, now: row.created_at, ...ENDED_SESSIONS });
      const last_workspace_id = row.active_workspace_id ?? current.last_workspace_id;
      await recordLogin.run(tx, { id: user.id, last_workspace_id, password_phc, last_login_at: row.created_at });
      await attempt.succeeded(tx);
      const person = { ...current, last_login_at: row.created_at };
      return { value: viewLogin(row, minted.text, person, memberships), events: [sessionCreated(row), ...ended] };
    });
    services.log.info("login", { user_id: user.id, session: row.display_prefix, ...from });
    return value;
  });
}

/** The session as the login returns it, with its token. */
export function viewLogin(row: SessionRow, token: string, user: UserRow, memberships: Membership[]) {
  return { object: "session" as const, token, ...viewSession(row), user: viewUserFields(user), memberships };
}

export function sessionCreated({ id, display_prefix }: SessionRow): Event {
  return { action: "session.created", target_id: id, payload: { display_prefix } };
}

/** Upgrades a hash with outdated parameters. At the concurrency limit the login continues with the old hash. */
async function rehashIfStale(
  services: Services,
  { caller }: LoginAttempt,
  phc: string,
  password: string,
): Promise<string> {
  if (!services.passwords.isStale(phc)) return phc;
  return services.passwords.hash(caller, password).catch(() => phc);
}

export function newSession(
  services: Services,
  user_id: string,
  stored: { lookup_hash: string; display_prefix: string },
): SessionRow {
  const now = services.clock.now();
  return {
    id: services.newId(),
    user_id,
    ...stored,
    active_workspace_id: null,
    created_at: now,
    last_seen_at: now,
    expires_at: now + IDLE_MS,
    absolute_expires_at: now + ABSOLUTE_MS,
    revoked_at: null,
  };
}

/** The requested one; else the last active one if still a member; else the only one. */
function chooseWorkspace(memberships: Membership[], requested: string | undefined, last: string | null): string | null {
  const isMember = (id: string | null): boolean => memberships.some(({ workspace_id }) => workspace_id === id);
  if (requested !== undefined) {
    if (!isMember(requested)) throw fail("not_a_member");
    return requested;
  }
  if (last !== null && isMember(last)) return last;
  return memberships.length === 1 ? (memberships[0]?.workspace_id ?? null) : null;
}

/** Ends the oldest sessions so that one more fits: at most fifty live sessions per person. */
async function endOldestSessions(tx: Tx, user_id: string, now: number): Promise<Event[]> {
  const live = await liveSessions.all(tx, { user_id, now });
  const surplus = live.slice(SESSIONS_MAX - 1);
  for (const { id } of surplus) await revokeSessionRow.run(tx, { id, revoked_at: now });
  return surplus.map((session) => sessionRevoked(session, "too many sessions"));
}

export function sessionRevoked(
  { id, display_prefix }: Pick<SessionRow, "id" | "display_prefix">,
  reason: string,
): Event {
  return { action: "session.revoked", target_id: id, payload: { display_prefix, reason } };
}

export async function listSessions(ctx: Ctx<SessionActor>) {
  const { services, actor } = ctx;
  const rows = await liveSessions.all(services.store.read, { user_id: actor.user_id, now: services.clock.now() });
  return listOf(rows, rows.length, (row) => ({ ...viewSession(row), current: row.id === actor.id }));
}

export async function revokeSession(ctx: Ctx<SessionActor>, id: string) {
  const { services, actor } = ctx;
  const ended = await mutate(ctx, { workspace_id: null }, async (tx) => {
    const now = services.clock.now();
    const row = await liveSessionById.first(tx, { id, user_id: actor.user_id, now });
    if (!row) throw fail("session_not_found");
    await revokeSessionRow.run(tx, { id, revoked_at: now });
    return { value: row, events: [sessionRevoked(row, id === actor.id ? "logged out" : "ended by its person")] };
  });
  services.log.info("session ended", { user_id: actor.user_id, session: ended.display_prefix, ...ctx.from });
  return { object: "session" as const, id, revoked: true as const };
}

/** Switches the active workspace. One the person is not a member of does not exist for them. */
export async function switchWorkspace(ctx: Ctx<SessionActor>, workspace_id: string) {
  const { id, user_id } = ctx.actor;
  return record(
    ctx.services,
    async (tx) => {
      await ctx.recheck?.(tx);
      if (!(await membershipOf.first(tx, { workspace_id, user_id }))) throw fail("workspace_not_found");
      await enterWorkspace(tx, ctx.actor, workspace_id);
      return { object: "session" as const, id, active_workspace_id: workspace_id };
    },
    { owner: ownerOf(ctx.actor) },
  );
}

/** Makes a workspace active in this session, and the default of the next login. */
export async function enterWorkspace(tx: Tx, actor: SessionActor, workspace_id: string): Promise<void> {
  await setActiveWorkspace.run(tx, { id: actor.id, active_workspace_id: workspace_id });
  await setLastWorkspace.run(tx, { id: actor.user_id, last_workspace_id: workspace_id });
}
