// The policy feed of one project under test: one instance per describe, one workspace per test, and a node's calls; and
// projects with nodes that report without HTTP.
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { Backend } from "../databases/backends.ts";
import type { SecretKeyActor } from "../../src/domain/core/actor.ts";
import type { Ctx } from "../../src/domain/core/context.ts";
import { NEVER_DISCONNECTS } from "../../src/domain/core/subscription.ts";
import { awaitPropagation } from "../../src/domain/nodes/propagation.ts";
import type { Head } from "../../src/domain/policy/head.ts";
import { createKey } from "../../src/domain/keys/keys.ts";
import { createProject } from "../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../src/domain/workspaces/tenants.ts";
import { cellOwner } from "../../src/fairness/owners.ts";
import type { Env } from "../../src/kernel/credentials.ts";
import { vendorOf, type TestServices } from "./services.ts";
import { testInstance, type Reply, type TestInstance, type Workspace } from "./test-instance.ts";

export type Body = Record<string, unknown>;
export type Entry = { key_id: string; change?: string } & Body;

/** Call it in a describe; `now()` returns the current test's. */
export function policyFeed(backend: Backend) {
  let instance: TestInstance;
  let workspace: Workspace;
  beforeAll(async () => {
    instance = await testInstance(backend, { flags: { snapshot_max_keys: "4" } });
  });
  afterAll(() => instance[Symbol.asyncDispose]());
  beforeEach(async () => {
    workspace = await instance.workspace();
  });

  const snapshot = (more = "", headers: Record<string, string> = {}): Promise<Reply> =>
    workspace.call("sk_owner", `GET /v1/policy/snapshot?project_id=${workspace.project_id}${more}`, undefined, {
      headers,
    });
  const delta = (since: number, more = "", headers: Record<string, string> = {}): Promise<Reply> =>
    workspace.call(
      "sk_owner",
      `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${since}${more}`,
      undefined,
      {
        headers,
      },
    );
  const version = async (): Promise<number> =>
    (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`)).body.policy_version as number;
  const ids = (reply: Reply): string[] =>
    ((reply.body.keys ?? reply.body.changes) as Entry[]).map(({ key_id }) => key_id);
  const revoke = (id: string, more = ""): Promise<Reply> =>
    workspace.call("sk_owner", `POST /v1/keys/${id}/revoke${more}`, {});
  const nodes = (): Promise<Body[]> =>
    instance.app.services.nodes
      .flushed()
      .then(() => instance.sql("select * from policy_nodes where project_id = $1", [workspace.project_id]));
  return { now: () => ({ instance, workspace }), snapshot, delta, version, ids, revoke, nodes };
}

/** Reads a receipt without waiting. */
export const ONCE = { waitMs: 0, onDisconnect: NEVER_DISCONNECTS };

export const policyNode = (node_id: string, env_scope: Env | "all" = "live") => ({
  node_id,
  env_scope,
  caps: 0,
  full_power: true,
  sdk: null,
});

let slugs = 0;

export async function newPolicyProject(ctx: Ctx<SecretKeyActor>) {
  const { id: project_id } = await createProject(ctx, { name: "P", slug: `p${++slugs}` });
  const head = { project_id, workspace_id: ctx.actor.workspace_id, version: 1 } as Head;
  const { services } = ctx;
  const receipt = () => awaitPropagation(ctx, { project_id, version: 1, env: "live", needs: 0 }, ONCE);
  return { ctx, services, project_id, head, receipt };
}

/** A project, a key of which is created by each call of `change`. */
export async function changingProject({ services }: TestServices) {
  const ctx = await vendorOf(services);
  const { id: project_id } = await createProject(ctx, { name: "P", slug: "ppp" });
  const { id: tenant_id } = await createTenant(ctx, { external_id: "t" });
  const change = async (): Promise<void> => void (await createKey(ctx, { project_id, tenant_id, env: "live" }));
  const { workspace_id } = ctx.actor;
  return { project_id, workspace_id, owner: cellOwner(workspace_id, "live"), change };
}
