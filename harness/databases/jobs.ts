// Jobs, and looks at what they wrote, for tests of the group commit and the drivers.
import type { SecretKeyActor } from "../../src/domain/core/actor.ts";
import type { Ctx } from "../../src/domain/core/context.ts";
import { mutate, unchanged } from "../../src/domain/core/mutate.ts";
import { createProject } from "../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../src/domain/workspaces/tenants.ts";
import type { Tx } from "../../src/store/engine/tx.ts";
import { insertTenant } from "../../src/store/queries/tenants.ts";
import type { TenantRow } from "../../src/store/schema/tables.ts";
import { vendorOf, type TestServices } from "../instances/test-services.ts";

const TABLES = ["workspaces", "projects", "tenants", "api_keys", "secret_keys", "policy_versions", "audit_log"];

/** A vendor with one project and one tenant, and the arguments of a key for them. */
export async function vendorWithTenant(fixture: TestServices) {
  const ctx = await vendorOf(fixture.services);
  const project = await createProject(ctx, { name: "Api", slug: "api" });
  const tenant = await createTenant(ctx, { external_id: "first" });
  const want = { project_id: project.id, tenant_id: tenant.id, env: "live" as const };
  return { ctx, project, tenant, want };
}

export function tenantRow(ctx: Ctx<SecretKeyActor>, external_id: string): TenantRow {
  const { workspace_id } = ctx.actor;
  const times = { created_at: 1, updated_at: 1, deleted_at: null, resumed_at: null };
  const suspension = { suspended_at: null, suspended_reason: null };
  const rules = { plan_id: null, rate_limits: null, quotas: null, allowed_cidrs: "[]", ip_mode: "enforce" as const };
  const made = { created_env: "live" as const, ...times, ...suspension, ...rules };
  return { id: ctx.services.newId(), workspace_id, external_id, name: null, meta: "{}", embed_epoch: 1, ...made };
}

export function insertOneTenant(ctx: Ctx<SecretKeyActor>, tx: Tx, external_id: string): Promise<number> {
  return insertTenant.run(tx, tenantRow(ctx, external_id));
}

/** A mutation that inserts a tenant and then calls `then`, which may throw or return "unchanged". */
export function insertTenantThen(ctx: Ctx<SecretKeyActor>, external_id: string, batch: boolean, then: () => unknown) {
  return mutate(ctx, { workspace_id: ctx.actor.workspace_id, batch }, async (tx) => {
    const row = tenantRow(ctx, external_id);
    await insertTenant.run(tx, row);
    if (then() === "unchanged") return unchanged(row.id);
    return { value: row.id, events: [{ action: "tenant.created", target_id: row.id, payload: {} }] };
  });
}

/** Row counts, audit heads and policy versions: everything a mutation could change. */
export async function storedState(fixture: TestServices) {
  const counts = TABLES.map(async (table) => [table, (await fixture.sql(`select * from ${table}`)).length] as const);
  const heads = await fixture.sql("select * from audit_heads order by workspace_id");
  const versions = await fixture.sql("select id, policy_version, min_delta_version from projects order by id");
  return { ...Object.fromEntries(await Promise.all(counts)), heads, versions };
}

/** The external ids of all tenants, sorted. */
export async function tenantIds(fixture: TestServices): Promise<unknown[]> {
  const rows = await fixture.sql("select external_id from tenants order by external_id");
  return rows.map(({ external_id }) => external_id);
}

export async function policyVersions(fixture: TestServices, project_id: string): Promise<unknown[]> {
  const sql = "select version from policy_versions where project_id = $1 order by version";
  return (await fixture.sql(sql, [project_id])).map(({ version }) => version);
}

/** The PostgreSQL process that serves the transaction. */
export async function backendPid(tx: Tx): Promise<number> {
  const [row] = await tx.all<{ pid: number }>({ sql: "select pg_backend_pid() as pid", values: [] });
  return row?.pid ?? 0;
}

/** Ends a PostgreSQL connection on the server and waits until it is gone. */
export async function terminateBackend(fixture: TestServices, pid: number): Promise<void> {
  await fixture.sql("select pg_terminate_backend($1, 5000)", [pid]);
}
