// Key management by a tenant's browser. Project, tenant and environment come from the token alone. Responses have
// `meta: {}`: the vendor's metadata is not for the customer's browser.
import { fail, Failure } from "../../kernel/errors.ts";
import { normalizeOrigin } from "../../kernel/origins.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { findEmbedOrigin } from "../../store/queries/embed-origins.ts";
import { keyById } from "../../store/queries/keys.ts";
import type { EmbedActor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { positionAfter } from "../core/env-access.ts";
import { usualTtlDays } from "../key-policy/key-policy.ts";
import type { CatalogueScope } from "../keys/scope-catalogue.ts";
import { ownsKey, requireGrantable } from "./rules.ts";
import { listKeyPage } from "../keys/key-list.ts";
import { rotateKey } from "../keys/key-rotation.ts";
import { createKey, revokeKey } from "../keys/keys.ts";
import { planOfKey } from "../plans/plans.ts";
import { keyPolicyOf, splitScopes } from "../plans/resolution.ts";
import { tenantBalances } from "../quotas/balances.ts";
import { liveProject } from "../workspaces/projects.ts";
import { liveTenant } from "../workspaces/tenants.ts";
import { usageOf } from "../usage/usage.ts";
import { forCustomer, viewKey } from "../core/views.ts";

/** Whether any workspace registers this origin: a CORS preflight carries no token. */
export async function isRegisteredOrigin(services: Services, origin: string | undefined): Promise<boolean> {
  const normal = origin === undefined ? null : normalizeOrigin(origin);
  return normal !== null && (await findEmbedOrigin.first(services.store.read, { origin: normal })) !== undefined;
}

export async function embedSession(ctx: Ctx<EmbedActor>) {
  const { services, actor } = ctx;
  const { read } = services.store;
  const [project, tenant] = await orInvalidToken(() =>
    Promise.all([
      liveProject(read, actor.workspace_id, actor.project_id),
      liveTenant(read, actor.workspace_id, actor.tenant_id),
    ]),
  );
  const plan = tenant.plan_id === null ? null : await planOfKey(read, actor);
  const scopes = grantedScopes(actor, plan?.scopes ?? null);
  return {
    object: "embed_session" as const,
    project: { id: project.id, name: project.name, slug: project.slug },
    env: actor.env,
    test_mode: actor.env === "test",
    tenant: { id: tenant.id, external_id: tenant.external_id, name: tenant.name },
    scopes,
    default_ttl_days: usualTtlDays(keyPolicyOf(project, plan)),
    scope_catalogue: grantedEntries(project.scope_catalogue, scopes),
    expires_at: formatTimestamp(actor.expires_at),
    expires_in: Math.max(0, Math.floor((actor.expires_at - services.clock.now()) / 1000)),
    suspended: tenant.suspended_at !== null,
    accepts_idempotency_key: true,
  };
}

/** Words for the scopes that the token may put on a key. */
function grantedEntries(stored: string, scopes: readonly string[]): CatalogueScope[] {
  const entries = JSON.parse(stored) as CatalogueScope[];
  return entries.filter(({ name }) => scopes.includes(`key_scope:${name}`));
}

const KEY_SCOPE = "key_scope:";

/** The scopes of the token, without those for keys that the tenant's plan does not allow. */
function grantedScopes(actor: EmbedActor, ceiling: string | null): string[] {
  const names = actor.scopes
    .filter((scope) => scope.startsWith(KEY_SCOPE))
    .map((scope) => scope.slice(KEY_SCOPE.length));
  const dropped = new Set(splitScopes(names, ceiling).dropped.map((name) => `${KEY_SCOPE}${name}`));
  return actor.scopes.filter((scope) => !dropped.has(scope));
}

type EmbedKeyQuery = { include_revoked: boolean; limit: number; after?: string | undefined };

export async function listEmbedKeys(ctx: Ctx<EmbedActor>, query: EmbedKeyQuery) {
  const { workspace_id, project_id, tenant_id, env } = ctx.actor;
  const named = query.after && (await keyById.first(ctx.services.store.read, { workspace_id, id: query.after }));
  const after = query.after ? positionAfter(ctx.actor, named && ownsKey(ctx.actor, named) ? named : undefined) : null;
  const filter = { ...query, workspace_id, project_id, tenant_id, env, after };
  return listKeyPage(ctx, filter, () => (row) => forCustomer(viewKey(row)));
}

type NewEmbedKey = { name?: string | undefined; scopes?: string[] | undefined };

/**
 * The expiry that the project's policy gives, the default limits of the project, and at most the scopes that the token
 * grants.
 */
export async function createEmbedKey(ctx: Ctx<EmbedActor>, input: NewEmbedKey) {
  const { project_id, tenant_id, env } = ctx.actor;
  requireGrantable(ctx.actor, input.scopes ?? []);
  return forCustomer(await orInvalidToken(() => createKey(ctx, { ...input, project_id, tenant_id, env })));
}

export async function rotateEmbedKey(ctx: Ctx<EmbedActor>, id: string, overlap_hours: number) {
  const rotated = await rotateKey(ctx, id, overlap_hours);
  return { ...forCustomer(rotated), previous_key: forCustomer(rotated.previous_key) };
}

export async function revokeEmbedKey(ctx: Ctx<EmbedActor>, id: string, reason: string | undefined) {
  return forCustomer((await revokeKey(ctx, id, reason)).key);
}

export async function embedKeyUsage(ctx: Ctx<EmbedActor>, id: string, days: number) {
  const row = await keyById.first(ctx.services.store.read, { workspace_id: ctx.actor.workspace_id, id });
  if (!row || !ownsKey(ctx.actor, row)) throw fail("key_not_found");
  return usageOf(ctx, id, days);
}

/** The balances of the tenant, as far as they are for the customer's eyes. */
export async function embedQuotas(ctx: Ctx<EmbedActor>) {
  const { tenant_id, env } = ctx.actor;
  const { object, data } = await orInvalidToken(() => tenantBalances(ctx, tenant_id, env));
  const shown = data.map(({ object, id, amount, refill, resets_at, remaining, exceeded }) => {
    return { object, id, amount, refill, resets_at, remaining, exceeded };
  });
  return { object, data: shown };
}

/** A project or tenant deleted during the request makes the token invalid. */
async function orInvalidToken<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const gone = error instanceof Failure && ["project_not_found", "tenant_not_found"].includes(error.failure);
    throw gone ? fail("invalid_embed_token") : error;
  }
}
