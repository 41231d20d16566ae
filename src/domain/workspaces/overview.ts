// The figures of a workspace's first page. Counts look at no more than ten thousand records.
import type { Env } from "../../kernel/credentials.ts";
import { GENESIS_HASH } from "../../kernel/audit/chain.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { headOf } from "../../store/queries/audit.ts";
import { countProjects } from "../../store/queries/projects.ts";
import { firstAllowedAt } from "../../store/queries/usage.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import { confinedTo, projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { requireEnvAccess } from "../core/env-access.ts";
import { countKeys } from "../keys/search.ts";
import { countNodes } from "../policy/nodes.ts";

const COUNT_MAX = 10_000;

/** The numbers of keys that `GET /v1/keys?state=…` lists. */
export async function showOverview(ctx: Ctx<Vendor>, requested: Env | undefined) {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const { read } = services.store;
  const env = requested ?? confinedTo(actor) ?? "live";
  requireEnvAccess(actor, env);
  const now = services.clock.now();
  const projects = projectsOf(actor);
  const count = (state: "active" | "expiring" | "quarantined") => countKeys(ctx, env, state, COUNT_MAX);
  const keys = {
    active: await count("active"),
    expiring: await count("expiring"),
    quarantined: await count("quarantined"),
  };
  const workspace = await workspaceById.first(read, { id: workspace_id });
  const counted = await countProjects.first(read, { workspace_id });
  const first = await firstAllowedAt(read, { workspace_id, env, projects });
  const head = await headOf.first(read, { workspace_id });
  return {
    object: "overview" as const,
    env,
    generated_at: formatTimestamp(now),
    keys,
    tenants: Math.min(workspace ? workspace.tenant_count + workspace.test_tenant_count : 0, COUNT_MAX),
    projects: projects?.length ?? counted?.n ?? 0,
    nodes: await countNodes(ctx, { env }),
    first_verified_at: first === null ? null : formatTimestamp(first),
    audit: { head_seq: head?.seq ?? 0, head_hash: head?.hash ?? GENESIS_HASH },
  };
}
