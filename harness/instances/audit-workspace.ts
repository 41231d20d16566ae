// A workspace with eleven audit rows of several kinds, for tests of the audit log.
import type { SecretKeyActor } from "../../src/domain/core/actor.ts";
import type { Ctx } from "../../src/domain/core/context.ts";
import type { Event } from "../../src/domain/core/events.ts";
import { mutate } from "../../src/domain/core/mutate.ts";
import { createKey } from "../../src/domain/keys/keys.ts";
import { createSecretKey } from "../../src/domain/keys/secret-keys.ts";
import { createProject } from "../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../src/domain/workspaces/tenants.ts";
import { keyActor, vendorOf, type TestServices } from "./services.ts";

/** Appends one audit row and changes nothing else. */
function recordEvent(ctx: Ctx<SecretKeyActor>, event: Event): Promise<number> {
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async () => ({ value: 0, events: [event] }));
}

/** Returns the contexts of a live and of a test secret key of the workspace. */
export async function auditedWorkspace(fixture: TestServices) {
  const ctx = await vendorOf(fixture.services); // seq 1 and 2: workspace.created, a live secret_key.created
  const project = await createProject(ctx, { name: "p", slug: "p" }); // 3
  const tenant = await createTenant(ctx, { external_id: "t" }); // 4
  const want = { project_id: project.id, tenant_id: tenant.id };
  await createKey(ctx, { ...want, env: "live" }); // 5
  await createKey(ctx, { ...want, env: "test" }); // 6
  const testKey = await createSecretKey(ctx, { env: "test" }); // 7
  await createSecretKey(ctx, { env: "live" }); // 8
  const member = { action: "workspace_member.joined", target_id: fixture.services.newId() } as const;
  await recordEvent(ctx, { ...member, payload: { role: "owner", email: "ada@example.com" } }); // 9
  await recordEvent(ctx, {
    action: "api_key.revoked",
    target_id: fixture.services.newId(),
    payload: { reason: '"env":"test"' }, // names no environment, whatever the reason says
  }); // 10
  await createKey(ctx, { ...want, env: "test" }); // 11
  return { ctx, test: { services: fixture.services, actor: keyActor(ctx.actor.workspace_id, testKey) } };
}
