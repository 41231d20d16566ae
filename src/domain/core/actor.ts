// Who is asking, as a value. It is an argument of everything that may happen, never ambient.
import type { Env } from "../../kernel/credentials.ts";

export const ROLES = ["owner", "admin", "member"] as const;
export type Role = (typeof ROLES)[number];

export type SecretKeyActor = {
  readonly kind: "secret_key";
  readonly id: string;
  readonly workspace_id: string;
  readonly env: Env;
  /** Whether the key carries an owner's authority (decision 53). */
  readonly owner_scope: boolean;
  readonly expires_at: number | null;
};

export type SessionActor = {
  readonly kind: "session";
  readonly id: string;
  readonly user_id: string;
  readonly workspace_id: string | null;
  readonly role: Role | null;
};

/** A person without a session: known by a password just given, or by a token from their mailbox. */
export type UserActor = { readonly kind: "user"; readonly user_id: string };

/** A person acting in a workspace. */
export type WorkspaceSession = SessionActor & { readonly workspace_id: string; readonly role: Role };

export type EmbedActor = {
  readonly kind: "embed_token";
  readonly workspace_id: string;
  readonly project_id: string;
  readonly tenant_id: string;
  readonly env: Env;
  readonly scopes: readonly string[];
  /** Where it may be used from: its audience, as far as the workspace still registers it. */
  readonly origins: readonly string[];
  readonly jti: string;
  readonly expires_at: number;
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
  | BootstrapActor
  | ScannerActor
  | SystemActor
  | AnonymousActor;

export const ANONYMOUS: AnonymousActor = { kind: "anonymous" };
export const SYSTEM: SystemActor = { kind: "system" };

/** How an actor stands in an audit row (decision 97). */
export function actorColumns(actor: Actor): { actor_type: AuditActorType; actor_id: string | null } {
  if (actor.kind === "secret_key") return { actor_type: "secret_key", actor_id: actor.id };
  if (actor.kind === "session" || actor.kind === "user") return { actor_type: "user", actor_id: actor.user_id };
  if (actor.kind === "embed_token") return { actor_type: "embed_token", actor_id: actor.tenant_id };
  if (actor.kind === "anonymous") return { actor_type: "system", actor_id: null };
  return { actor_type: actor.kind, actor_id: null };
}

type AuditActorType = "user" | "secret_key" | "embed_token" | "bootstrap" | "scanner" | "system";

/** The environment an actor is confined to, or null for both. */
export function confinedTo(actor: Actor): Env | null {
  return actor.kind === "secret_key" && actor.env === "test" ? "test" : null;
}

/** Whether the actor may hand on an owner's authority by minting a secret key. */
export function hasOwnerScope(actor: Actor): boolean {
  if (actor.kind === "secret_key") return actor.owner_scope;
  if (actor.kind === "session") return actor.role === "owner";
  return actor.kind === "bootstrap" || actor.kind === "system";
}
