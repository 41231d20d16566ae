// Workspaces: the vendor's account in an instance, with its registered embed origins.
import { isDeepStrictEqual } from "node:util";
import { fail, failField } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import { insertMembership } from "../../store/queries/memberships.ts";
import { isInsecureRemote, normalizeOrigin } from "../../kernel/origins.ts";
import { dropEmbedOrigins, insertEmbedOrigin } from "../../store/queries/embed-origins.ts";
import { insertSecretKey } from "../../store/queries/secret-keys.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { UserRow, WorkspaceRow } from "../../store/schema/tables.ts";
import { insertWorkspace, updateWorkspace, workspaceById } from "../../store/queries/workspaces.ts";
import type { BootstrapActor, SessionActor, Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { changes, type Event } from "../core/events.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { newSecretKeyRow, secretKeyCreated } from "../keys/secret-keys.ts";
import { onHashConflict, mint, retryOnHashCollision } from "../auth/new-credentials.ts";
import { enterWorkspace } from "../auth/sessions.ts";
import { liveUser } from "../auth/users.ts";
import { viewSecretKey, viewWorkspace, withKey } from "../core/views.ts";
import { requireMayCreate } from "./ownership.ts";
import { endSetupLinks } from "./setup-tokens.ts";

type NewWorkspace = { name: string; slug: string; billing_email?: string | undefined; env: Env };

export function newWorkspaceRow(
  services: Services,
  input: Omit<NewWorkspace, "env">,
  created_by: string | null,
): WorkspaceRow {
  const now = services.clock.now();
  return {
    id: services.newId(),
    name: input.name,
    slug: input.slug,
    billing_email: input.billing_email ?? null,
    embed_origins: "[]",
    tenant_count: 0,
    test_tenant_count: 0,
    created_at: now,
    updated_at: now,
    created_by,
  };
}

export function workspaceCreated({ id, slug }: WorkspaceRow): Event {
  return { action: "workspace.created", target_id: id, payload: { slug } };
}

export function ownerJoined({ id, email }: Pick<UserRow, "id" | "email">): Event {
  return { action: "workspace_member.joined", target_id: id, payload: { role: "owner", email } };
}

/** Creates a workspace and its first secret key. Created with the bootstrap token, it has no members. */
export function createWorkspace(ctx: Ctx<BootstrapActor | SessionActor>, input: NewWorkspace) {
  return retryOnHashCollision(async () => {
    const minted = mint("secret_key", input.env);
    const row = newWorkspaceRow(ctx.services, input, ctx.actor.kind === "session" ? ctx.actor.user_id : null);
    const { id } = row;
    return mutate(ctx, { workspace_id: id, onConflict: onSlugConflict }, async (tx) => {
      const creator = ctx.actor.kind === "session" ? await liveUser(tx, ctx.actor.user_id) : null;
      if (creator) await requireMayCreate(ctx.services, tx, creator, id);
      await insertWorkspace.run(tx, row);
      const key = newSecretKeyRow(ctx, { workspace_id: id, env: input.env, owner_scope: true, ...minted.stored });
      await insertSecretKey.run(tx, key);
      const owner = creator && (await joinAsOwner(tx, ctx.actor as SessionActor, creator, row));
      if (owner) await endSetupLinks(ctx.services, tx);
      return {
        value: {
          workspace: viewWorkspace(row),
          secret_key: withKey(viewSecretKey(key), minted.text),
          membership: owner?.membership ?? null,
        },
        events: [workspaceCreated(row), ...(owner ? [owner.event] : []), secretKeyCreated(key)],
      };
    });
  });
}

/** The creator becomes owner. It becomes their active workspace only if they had none. */
async function joinAsOwner(
  tx: Tx,
  actor: SessionActor,
  { id: user_id, email }: UserRow,
  { id: workspace_id, created_at }: WorkspaceRow,
) {
  const role = "owner" as const;
  await insertMembership.run(tx, { workspace_id, user_id, role, created_at, updated_at: created_at });
  if (actor.workspace_id === null) await enterWorkspace(tx, actor, workspace_id);
  return { membership: { user_id, role }, event: ownerJoined({ id: user_id, email }) };
}

function onSlugConflict(target: string) {
  return target.includes("slug") ? failField("slug_taken", "slug", "is already in use") : onHashConflict(target);
}

export async function showWorkspace(ctx: Ctx<Vendor>) {
  const row = await workspaceById.first(ctx.services.store.read, { id: ctx.actor.workspace_id });
  if (!row) throw fail("workspace_not_found");
  return viewWorkspace(row);
}

type WorkspaceEdit = {
  name?: string | undefined;
  billing_email?: string | null | undefined;
  embed_origins?: string[] | undefined;
};

export function editWorkspace(ctx: Ctx<Vendor>, edit: WorkspaceEdit) {
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = await workspaceById.first(tx, { id: workspace_id });
    if (!row) throw fail("workspace_not_found");
    const after: WorkspaceRow = {
      ...row,
      name: edit.name ?? row.name,
      billing_email: edit.billing_email === undefined ? row.billing_email : edit.billing_email,
      embed_origins: edit.embed_origins ? JSON.stringify(edit.embed_origins) : row.embed_origins,
      updated_at: ctx.services.clock.now(),
    };
    // Another spelling of the same origins is no change.
    if (isDeepStrictEqual(originsOf(row), originsOf(after))) after.embed_origins = row.embed_origins;
    const differing = changes(auditable(row), auditable(after));
    const emailChanged = row.billing_email !== after.billing_email;
    if (!differing && !emailChanged) return unchanged(viewWorkspace(row));
    await updateWorkspace.run(tx, after);
    if (row.embed_origins !== after.embed_origins) {
      await registerOrigins(tx, workspace_id, originsOf(after));
      const known = new Set(originsOf(row));
      for (const origin of originsOf(after).filter((each) => isInsecureRemote(each) && !known.has(each)))
        ctx.services.log.warn("an embed origin uses plain http: anyone on its network can read embed tokens", {
          origin,
        });
    }
    // An address in the audit chain could never be erased, so only the fact of the change is recorded.
    const payload = { ...differing, ...(emailChanged && { billing_email: { changed: true } }) };
    return { value: viewWorkspace(after), events: [{ action: "workspace.updated", target_id: row.id, payload }] };
  });
}

function auditable(row: WorkspaceRow) {
  return { name: row.name, embed_origins: JSON.parse(row.embed_origins) as string[] };
}

/** The registered origins, as browsers send them. */
export function originsOf(row: Pick<WorkspaceRow, "embed_origins">): string[] {
  const listed = JSON.parse(row.embed_origins) as string[];
  return listed.map((origin) => normalizeOrigin(origin)).filter((origin) => origin !== null);
}

async function registerOrigins(tx: Tx, workspace_id: string, origins: readonly string[]): Promise<void> {
  await dropEmbedOrigins.run(tx, { workspace_id });
  for (const origin of origins) await insertEmbedOrigin.run(tx, { origin, workspace_id });
}
