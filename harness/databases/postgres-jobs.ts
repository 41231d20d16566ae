// Jobs and server-side actions for tests of the PostgreSQL driver.
import type { SecretKeyActor } from "../../src/domain/core/actor.ts";
import type { Ctx } from "../../src/domain/core/context.ts";
import type { Tx } from "../../src/store/engine/statement.ts";
import { insertTenant } from "../../src/store/queries/tenants.ts";
import type { TestServices } from "../instances/test-services.ts";

/** The external ids of all tenants, sorted. */
export async function tenantIds(lite: TestServices): Promise<unknown[]> {
  const rows = await lite.sql("select external_id from tenants order by external_id");
  return rows.map(({ external_id }) => external_id);
}

export async function backendPid(tx: Tx): Promise<number> {
  const [row] = await tx.all<{ pid: number }>({ sql: "select pg_backend_pid() as pid", values: [] });
  return row?.pid ?? 0;
}

/** Ends a connection on the server and waits until it is gone. */
export async function terminateBackend(lite: TestServices, pid: number): Promise<void> {
  await lite.sql("select pg_terminate_backend($1, 5000)", [pid]);
}

export function insertOneTenant(ctx: Ctx<SecretKeyActor>, tx: Tx, external_id: string): Promise<number> {
  const { workspace_id } = ctx.actor;
  const row = { id: ctx.services.newId(), workspace_id, external_id, name: null, meta: "{}", embed_epoch: 1 };
  return insertTenant.run(tx, { ...row, created_at: 1, updated_at: 1, deleted_at: null });
}
