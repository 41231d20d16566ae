// Seeds a throwaway instance with a workspace, keys, a project and a tenant, enough to make API calls.
import type { BootstrapActor, SecretKeyActor } from "../domain/core/actor.ts";
import type { Ctx, Services } from "../domain/core/context.ts";
import { createProject } from "../domain/workspaces/projects.ts";
import { createSecretKey } from "../domain/keys/secret-keys.ts";
import { createTenant } from "../domain/workspaces/tenants.ts";
import { createWorkspace } from "../domain/workspaces/workspaces.ts";

export type Seed = {
  workspace_id: string;
  secret_key: string;
  test_secret_key: string;
  /** A live secret key that may only verify: what a node should hold. */
  verify_key: string;
  project_id: string;
  tenant_id: string;
};

export async function seedInstance(services: Services): Promise<Seed> {
  const boot: Ctx<BootstrapActor> = { services, actor: { kind: "bootstrap" } };
  const made = await createWorkspace(boot, { name: "Example", slug: "example", env: "live" });
  const workspace_id = made.workspace.id;
  const actor: SecretKeyActor = {
    kind: "secret_key",
    id: made.secret_key.id,
    workspace_id,
    env: "live",
    owner_scope: true,
    expires_at: null,
    restriction: null,
  };
  const ctx: Ctx<SecretKeyActor> = { services, actor };
  const test = await createSecretKey(ctx, { env: "test" });
  const verifier = await createSecretKey(ctx, { env: "live", name: "verifier", permissions: ["verify"] });
  const project = await createProject(ctx, { name: "Example API", slug: "example-api" });
  const tenant = await createTenant(ctx, { external_id: "customer-1", name: "First customer" });
  return {
    workspace_id,
    secret_key: made.secret_key.key,
    test_secret_key: test.key,
    verify_key: verifier.key,
    project_id: project.id,
    tenant_id: tenant.id,
  };
}
