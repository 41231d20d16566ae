// Resolves a bearer credential to its actor. A credential with a bad checksum is rejected before any lookup, with the
// same failure as an unknown one.
import { timingSafeEqual } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { fail, type FailureName } from "../../kernel/errors.ts";
import { guessCredentialKind, parseCredential, type CredentialKind } from "../../kernel/credentials.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import { secretKeyByHash, touchSecretKey } from "../../store/queries/secret-keys.ts";
import { sessionByHash, sessionInUse, touchSession } from "../../store/queries/sessions.ts";
import type { Tx } from "../../store/engine/tx.ts";
import {
  ownerOf,
  type Actor,
  type Permission,
  type Restriction,
  type SecretKeyActor,
  type SessionActor,
} from "../core/actor.ts";
import type { Recheck, Services } from "../core/context.ts";
import { looksLikeJwt, rereadEmbedToken, resolveEmbedToken } from "../embed/tokens.ts";
import { record } from "../core/record.ts";
import { holderActor } from "./holders.ts";
import { IDLE_MS } from "./sessions.ts";
import { sha256Hex } from "../../platform/crypto.ts";

const TOUCH_EVERY_MS = MINUTE_MS;

/** The failure for a rejected credential of each kind. Kinds that never authenticate a request are absent. */
const REJECTED_AS: Partial<Record<CredentialKind, FailureName>> = {
  api_key: "invalid_key",
  secret_key: "invalid_key",
  session: "invalid_session",
};

/**
 * Returns without a promise where SQLite has the secret key, so that the handler still runs in the turn of its owner
 * (fairness/turns.ts). `mayHaveExpired`: for a secret key that repeats a request, as that of its own rotation without
 * overlap whose response was lost.
 */
export function resolveBearer(services: Services, bearer: string, mayHaveExpired = false): Actor | Promise<Actor> {
  const kind = guessCredentialKind(bearer);
  if ((kind === null || kind === "bootstrap") && isBootstrap(services, bearer)) return { kind: "bootstrap" };
  if (looksLikeJwt(bearer)) return resolveEmbedToken(services, bearer);
  if (kind === "secret_key" && parseCredential(bearer)) return resolveSecretKey(services, bearer, mayHaveExpired);
  if (kind === "session" && parseCredential(bearer)) return resolveSession(services, bearer);
  const rejected = kind ?? parseCredential(bearer)?.kind; // an API key may have any prefix
  throw fail((rejected && REJECTED_AS[rejected]) ?? "unusable_credential");
}

/** Fails unless the credential behind the actor is still valid in the transaction, with the same rights. */
export function recheckOf(services: Services, bearer: string, actor: Actor): Recheck {
  return async (tx) => {
    const unchanged = isDeepStrictEqual(await rereadActor(services, bearer, actor, tx), actor);
    if (!unchanged) throw fail("credential_changed");
  };
}

/** Memoized: the jobs of a batch share one read, and none of them ends a credential. bench: vendor/mint */
async function rereadActor(services: Services, bearer: string, actor: Actor, tx: Tx): Promise<Actor | null> {
  const now = services.clock.now();
  if (actor.kind === "embed_token") return rereadEmbedToken(services, bearer, tx);
  if (actor.kind === "api_key") return holderActor(services, bearer, actor.address, tx);
  if (actor.kind === "bootstrap") return isBootstrap(services, bearer) ? actor : null;
  const lookup_hash = sha256Hex(bearer);
  if (actor.kind === "secret_key")
    return secretKeyActor(await secretKeyByHash.firstMemoized(tx, { lookup_hash }), now, actor.hasExpired);
  return sessionActor(await sessionInUse.firstMemoized(tx, { lookup_hash }), now);
}

/** `resolveBearer` with the credential cache in front, for machine endpoints only. bench: ratelimit/check */
export function resolveCached(services: Services, bearer: string, hash = sha256Hex(bearer)): Actor | Promise<Actor> {
  const { credentialCache } = services;
  return credentialCache.get(hash) ?? credentialCache.load(hash, () => resolveBearer(services, bearer));
}

/** Both sides are hashed first, so the comparison takes the same time for any input. */
function isBootstrap(services: Services, bearer: string): boolean {
  const expected = services.bootstrapHash();
  if (!expected) return false;
  return timingSafeEqual(Buffer.from(expected, "hex"), Buffer.from(sha256Hex(bearer), "hex"));
}

function resolveSecretKey(
  services: Services,
  bearer: string,
  mayHaveExpired: boolean,
): SecretKeyActor | Promise<SecretKeyActor> {
  const found = secretKeyByHash.firstMemoized(services.store.read, { lookup_hash: sha256Hex(bearer) });
  const toActor = (row: FoundSecretKey): SecretKeyActor => {
    const now = services.clock.now();
    const actor = secretKeyActor(row, now, mayHaveExpired);
    if (!row || !actor) throw fail("invalid_key");
    if (actor.hasExpired) return actor;
    const { id, workspace_id } = actor;
    touch(services, actor, row.last_used_at ?? 0, (tx) =>
      touchSecretKey.run(tx, { workspace_id, id, last_used_at: now }),
    );
    return actor;
  };
  return found instanceof Promise ? found.then(toActor) : toActor(found);
}

type FoundSecretKey = Awaited<ReturnType<typeof secretKeyByHash.first>>;

function secretKeyActor(row: FoundSecretKey, now: number, mayHaveExpired = false): SecretKeyActor | null {
  if (!row || row.revoked_at !== null) return null;
  const hasExpired = row.expires_at !== null && row.expires_at <= now;
  if (hasExpired && !mayHaveExpired) return null;
  const { id, workspace_id, account_id, env, expires_at } = row;
  const owner_scope = row.owner_scope === 1;
  const restriction = parseRestriction(row);
  const actor = {
    kind: "secret_key",
    id,
    workspace_id,
    account_id,
    env,
    owner_scope,
    expires_at,
    restriction,
  } as const;
  return hasExpired ? { ...actor, hasExpired } : actor;
}

function parseRestriction({ permissions, project_ids }: NonNullable<FoundSecretKey>): Restriction | null {
  if (permissions === null) return null;
  return {
    permissions: JSON.parse(permissions) as Permission[],
    project_ids: project_ids === null ? null : (JSON.parse(project_ids) as string[]),
  };
}

async function resolveSession(services: Services, bearer: string): Promise<SessionActor> {
  const row = await sessionByHash.first(services.store.read, { lookup_hash: sha256Hex(bearer) });
  const now = services.clock.now();
  const actor = sessionActor(row, now);
  if (!row || !actor) throw fail("invalid_session");
  const { id } = actor;
  const expires_at = Math.min(now + IDLE_MS, row.absolute_expires_at);
  touch(services, actor, row.last_seen_at, (tx) => touchSession.run(tx, { id, last_seen_at: now, expires_at }));
  return actor;
}

type FoundSession = Awaited<ReturnType<typeof sessionByHash.first>>;

/** The membership was read with the session, so removing a member takes effect at once. */
function sessionActor(row: FoundSession, now: number): SessionActor | null {
  if (!row || row.revoked_at !== null || Math.min(row.expires_at, row.absolute_expires_at) <= now) return null;
  const { id, user_id, workspace_id, account_id, role } = row;
  return { kind: "session", id, user_id, workspace_id, account_id, role };
}

/** Records the last use at most once a minute, off the request path: reads must not cost a write. */
function touch(
  services: Services,
  actor: SecretKeyActor | SessionActor,
  stored: number,
  write: (tx: Tx) => Promise<unknown>,
): void {
  const { touched, clock } = services;
  const { id } = actor;
  const now = clock.now();
  if (now - Math.max(stored, touched.get(id) ?? 0) < TOUCH_EVERY_MS) return;
  const owner = ownerOf(actor);
  touched.set(owner, id, now);
  record(services, write, { owner }).catch(() => touched.delete(id));
}
