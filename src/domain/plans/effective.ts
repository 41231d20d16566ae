// What an up-to-date node enforces for a key, and where each part comes from: GET /v1/keys/{id}?include=effective.
import type { Reader } from "../../store/engine/tx.ts";
import { keyById } from "../../store/queries/keys.ts";
import { anyProjectById } from "../../store/queries/projects.ts";
import { anyTenantById } from "../../store/queries/tenants.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { requireReadable } from "../core/env-access.ts";
import { viewKey } from "../core/views.ts";
import { readDefinition } from "../quotas/definitions.ts";
import { planOfKey } from "./plans.ts";
import { resolveLimits, splitScopes } from "./resolution.ts";

/** The project and the tenant may have been deleted. */
export async function resolveKey(read: Reader, row: ApiKeyRow) {
  const { workspace_id } = row;
  const project = await anyProjectById.first(read, { workspace_id, id: row.project_id });
  const tenant = await anyTenantById.first(read, { workspace_id, id: row.tenant_id });
  const plan = tenant?.plan_id ? await planOfKey(read, row) : null;
  const limits = resolveLimits({
    key: row.rate_limits,
    tenant: tenant?.rate_limits ?? null,
    plan: plan?.rate_limits ?? null,
    project: project?.default_rate_limits ?? "[]",
  });
  const { kept: scopes, dropped: dropped_scopes } = splitScopes(
    JSON.parse(row.scopes) as string[],
    plan?.scopes ?? null,
  );
  return { project, tenant, plan, ...limits, scopes, dropped_scopes };
}

export async function showEffectiveKey({ services, actor }: Ctx<Vendor>, id: string) {
  const { read } = services.store;
  const { workspace_id } = actor;
  const row = requireReadable(actor, await keyById.first(read, { workspace_id, id }), "key_not_found");
  const { project, tenant: _, plan, ...resolved } = await resolveKey(read, row);
  const key = viewKey(row);
  const { expires_at } = key;
  const definition = await readDefinition(read, { workspace_id, key_id: id, tenant_id: row.tenant_id, env: row.env });
  const quotas = (definition?.metered ?? []).map(({ scope, source, quota }) => ({ id: quota.id, scope, source }));
  const project_name = project?.deleted_at === null ? project.name : null;
  const named = { plan_id: plan?.id ?? null, plan_name: plan?.name ?? null, project_name };
  return { ...key, effective: { ...resolved, quotas, ...named, expires_at } };
}
