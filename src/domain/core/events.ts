// The audit actions: a closed list, each with the type of its target. Workspace actions go to the workspace's own
// chain; actions of people and operators go to the deployment's chain, which only the operator can read.
import type { Json } from "../../kernel/audit/canonical.ts";

const workspaceActions = {
  "workspace.created": "workspace",
  "workspace.updated": "workspace",
  "workspace_member.joined": "workspace_member",
  "workspace_member.role_changed": "workspace_member",
  "workspace_member.removed": "workspace_member",
  "workspace_invite.created": "workspace_invite",
  "workspace_invite.revoked": "workspace_invite",
  "workspace_invite.accepted": "workspace_invite",
  "project.created": "project",
  "project.updated": "project",
  "project.deleted": "project",
  "tenant.created": "tenant",
  "tenant.updated": "tenant",
  "tenant.suspended": "tenant",
  "tenant.resumed": "tenant",
  "tenant.deleted": "tenant",
  "tenant.embed_tokens_revoked": "tenant",
  "plan.created": "plan",
  "plan.updated": "plan",
  "plan.deleted": "plan",
  "api_key.created": "api_key",
  "api_key.updated": "api_key",
  "api_key.rotated": "api_key",
  "api_key.disabled": "api_key",
  "api_key.enabled": "api_key",
  "api_key.revoked": "api_key",
  "api_key.quarantined": "api_key",
  "quota_grant.created": "quota_grant",
  "quota_grant.voided": "quota_grant",
  "secret_key.created": "secret_key",
  "secret_key.rotated": "secret_key",
  "secret_key.revoked": "secret_key",
  "secret_key.quarantined": "secret_key",
} as const;

const deploymentActions = {
  "user.created": "user",
  "user.updated": "user",
  "user.password_changed": "user",
  "user.password_reset": "user",
  "user.email_verified": "user",
  "session.created": "session",
  "session.revoked": "session",
  "setup.completed": "setup",
  "signing_key.rotated": "signing_key",
  "backup.created": "backup",
  "backup.restored": "backup",
  "config.changed": "config",
} as const;

export const actions = { ...workspaceActions, ...deploymentActions };
type WorkspaceAction = keyof typeof workspaceActions;
type DeploymentAction = keyof typeof deploymentActions;
export type Action = WorkspaceAction | DeploymentAction;

/** An audit event, before it becomes an audit row. */
export type Event = { action: Action; target_id: string | null; payload: Json };

export function isDeploymentAction(action: Action): action is DeploymentAction {
  return action in deploymentActions;
}

/**
 * Actions that only end something: they need hardly any room, and a caller that may store nothing more may still do
 * them. A new password ends the old one, and sessions; the throttles of logins and emails bound how often.
 */
export const ENDING_ACTIONS: ReadonlySet<Action> = new Set<Action>([
  "workspace_member.removed",
  "workspace_invite.revoked",
  "project.deleted",
  "tenant.suspended",
  "tenant.deleted",
  "tenant.embed_tokens_revoked",
  "plan.deleted",
  "api_key.disabled",
  "api_key.revoked",
  "api_key.quarantined",
  "quota_grant.voided",
  "secret_key.revoked",
  "secret_key.quarantined",
  "session.revoked",
  "user.password_changed",
  "user.password_reset",
]);

/** Target types whose payload a test principal may read; for all others it gets {}. */
export const PRODUCT_STATE: ReadonlySet<string> = new Set([
  "workspace",
  "project",
  "tenant",
  "plan",
  "api_key",
  "quota_grant",
  "secret_key",
]);

/** Actions of such targets whose payload a test principal may not read either: it counts keys of both environments. */
export const COUNTS_LIVE_KEYS: ReadonlySet<string> = new Set<Action>([
  "project.deleted",
  "tenant.suspended",
  "tenant.resumed",
  "tenant.deleted",
]);

/**
 * Target types whose rows belong to an environment: a test principal may list those of its own, and all rows of the
 * others.
 */
export const TARGETS_WITH_ENV: ReadonlySet<string> = new Set(["api_key", "secret_key", "quota_grant"]);

/** `{field: {old, new}}` for the fields that differ; null when none does. */
export function changes<T extends Record<string, Json>>(before: T, after: T): Record<string, Json> | null {
  const differing = Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  if (differing.length === 0) return null;
  return Object.fromEntries(differing.map((name) => [name, { old: before[name] ?? null, new: after[name] ?? null }]));
}

/** The changes of an edit, and its audit payload, without the content of `meta`; null if nothing changes. */
export function editOf<R extends { meta: string }>(row: R, after: R, auditable: (row: R) => Record<string, Json>) {
  const differing = changes(auditable(row), auditable(after));
  const metaChanged = row.meta !== after.meta;
  if (!differing && !metaChanged) return null;
  return { differing, metaChanged, payload: { ...differing, ...(metaChanged && { meta: { changed: true } }) } };
}
