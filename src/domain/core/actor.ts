// The authenticated caller as a value: always an argument of an operation, never ambient.
import { cellOwner, soleOwner, type Owner } from "../../fairness/owners.ts";
import type { Env } from "../../kernel/credentials.ts";
import type { FailureName } from "../../kernel/errors.ts";
import type { ActorType } from "../../store/schema/tables.ts";

export const ROLES = ["owner", "admin", "member"] as const;
export type Role = (typeof ROLES)[number];

/** What a restricted secret key may do. `manage` includes `read`. */
export const PERMISSIONS = ["verify", "portal", "read", "manage"] as const;
export type Permission = (typeof PERMISSIONS)[number];

/** `project_ids` null: every project of the workspace. */
export type Restriction = {
  readonly permissions: readonly Permission[];
  readonly project_ids: readonly string[] | null;
};

/**
 * Who created the actor's workspace; null if the bootstrap token did. Absent if no shared resource is charged.
 */
type Account = string | null;

export type SecretKeyActor = {
  readonly kind: "secret_key";
  readonly id: string;
  readonly workspace_id: string;
  readonly account_id?: Account;
  readonly env: Env;
  /** True when an owner or the bootstrap token minted it: an admin must not become an owner by minting a key. */
  readonly owner_scope: boolean;
  readonly expires_at: number | null;
  /** It has ended, and may only get the stored response to an earlier request of its own again. */
  readonly hasExpired?: true;
  /** Null: unrestricted within its role. */
  readonly restriction: Restriction | null;
};

export type SessionActor = {
  readonly kind: "session";
  readonly id: string;
  readonly user_id: string;
  readonly workspace_id: string | null;
  readonly account_id?: Account;
  readonly role: Role | null;
};

/** A person without a session, authenticated by a password or by a one-time token. */
type UserActor = { readonly kind: "user"; readonly user_id: string };

/** A person acting in a workspace. */
export type WorkspaceSession = SessionActor & { readonly workspace_id: string; readonly role: Role };

export type EmbedActor = {
  readonly kind: "embed_token";
  readonly workspace_id: string;
  readonly account_id?: Account;
  readonly project_id: string;
  readonly tenant_id: string;
  readonly env: Env;
  readonly scopes: readonly string[];
  /** Browser origins it may be used from: its audience, minus those the workspace no longer registers. */
  readonly origins: readonly string[];
  readonly jti: string;
  /** The tenant's epoch when it was issued. */
  readonly epoch: number;
  readonly expires_at: number;
};

/** The holder of an API key, which is the credential itself. */
export type ApiKeyActor = {
  readonly kind: "api_key";
  readonly id: string;
  readonly workspace_id: string;
  readonly account_id?: Account;
  readonly project_id: string;
  readonly tenant_id: string;
  readonly env: Env;
  /** The client's, which the key's list of networks judges; null when unknown. */
  readonly address: string | null;
  /** Why a node would refuse the key; null when it works. */
  readonly refused: FailureName | null;
};

export type BootstrapActor = { readonly kind: "bootstrap" };
export type ScannerActor = { readonly kind: "scanner" };
export type SystemActor = { readonly kind: "system" };
export type AnonymousActor = { readonly kind: "anonymous" };

export type Vendor = SecretKeyActor | WorkspaceSession;
export type Actor =
  | SecretKeyActor
  | SessionActor
  | UserActor
  | EmbedActor
  | ApiKeyActor
  | BootstrapActor
  | ScannerActor
  | SystemActor
  | AnonymousActor;

export const ANONYMOUS: AnonymousActor = { kind: "anonymous" };
export const SYSTEM: SystemActor = { kind: "system" };

/** The actor as recorded in an audit row. Requests without a credential are recorded as the system. */
export function actorColumns(actor: Actor): { actor_type: ActorType; actor_id: string | null } {
  if (actor.kind === "secret_key" || actor.kind === "api_key") return { actor_type: actor.kind, actor_id: actor.id };
  if (actor.kind === "session" || actor.kind === "user") return { actor_type: "user", actor_id: actor.user_id };
  if (actor.kind === "embed_token") return { actor_type: "embed_token", actor_id: actor.tenant_id };
  if (actor.kind === "anonymous") return { actor_type: "system", actor_id: null };
  return { actor_type: actor.kind, actor_id: null };
}

/** The environment an actor is confined to, or null when it may use both. */
export function confinedTo(actor: Actor): Env | null {
  return actor.kind === "secret_key" && actor.env === "test" ? "test" : null;
}

/** The environment whose limits and shares an actor uses: a session acts in live. */
export function chargedEnvOf(actor: Actor): Env {
  return "env" in actor ? actor.env : "live";
}

export function restrictionOf(actor: Actor): Restriction | null {
  return actor.kind === "secret_key" ? actor.restriction : null;
}

/** The only projects that exist for the actor, or null when it sees all of its workspace. */
export function projectsOf(actor: Actor): readonly string[] | null {
  return restrictionOf(actor)?.project_ids ?? null;
}

/** One per cached secret key: thousands of polls of a fleet wait with the same. */
const ownersOfKeys = new WeakMap<SecretKeyActor, Owner>();

/** Who is charged for what the actor holds of a shared resource. A session acts in the live environment. */
export function ownerOf(actor: Actor): Owner {
  if (actor.kind === "secret_key") {
    const known = ownersOfKeys.get(actor);
    if (known) return known;
    const owner = cellOwner(actor.workspace_id, actor.env, actor.account_id);
    ownersOfKeys.set(actor, owner);
    return owner;
  }
  if (actor.kind === "embed_token" || actor.kind === "api_key")
    return cellOwner(actor.workspace_id, actor.env, actor.account_id);
  if (actor.kind === "session" && actor.workspace_id !== null)
    return cellOwner(actor.workspace_id, "live", actor.account_id);
  if (actor.kind === "session" || actor.kind === "user") return soleOwner("person", actor.user_id);
  return soleOwner("account", actor.kind);
}

/** Whether secret keys minted by this actor get an owner's authority. */
export function hasOwnerScope(actor: Actor): boolean {
  if (actor.kind === "secret_key") return actor.owner_scope;
  if (actor.kind === "session") return actor.role === "owner";
  return actor.kind === "bootstrap" || actor.kind === "system";
}
