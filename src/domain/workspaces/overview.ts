// The figures of a workspace's first page. Counts stop at ten thousand.
import type { Env } from "../../kernel/credentials.ts";
import { GENESIS_HASH } from "../../kernel/audit/chain.ts";
import { formatTimestamp, formatTimestampOrNull } from "../../kernel/timestamps.ts";
import type { Reader } from "../../store/engine/tx.ts";
import { headOf } from "../../store/queries/audit.ts";
import { countProjects, liveProjectById } from "../../store/queries/projects.ts";
import { firstAllowedAt } from "../../store/queries/usage.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import { confinedTo, projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { requireEnvAccess } from "../core/env-access.ts";
import { inFleetSlot, inThreadSlot, threadReader } from "../core/read-slots.ts";
import { countUnreplaced } from "../leaks/unreplaced.ts";
import { countKeys } from "../search/key-counts.ts";
import { countNodes } from "../nodes/nodes.ts";
import type { Overview } from "./overview-cache.ts";

const COUNT_MAX = 10_000;

export async function showOverview(ctx: Ctx<Vendor>, requested: Env | undefined): Promise<Overview> {
  const { services, actor } = ctx;
  const env = requested ?? confinedTo(actor) ?? "live";
  requireEnvAccess(actor, env);
  // What a restricted key sees is its own, and not kept.
  const seesAll = projectsOf(actor) === null && confinedTo(actor) === null;
  // Without the checks of this request, whose credential may end: others may share the result.
  const shared = { services, actor };
  const compute = (): Promise<Overview> => inFleetSlot(shared, () => computeOverview(shared, env));
  const overview = seesAll ? await services.overviews.get(actor, env, compute) : await compute();
  await ctx.requireStillValid?.();
  return overview;
}

/** The numbers of keys that `GET /v1/keys?state=…` lists. */
async function computeOverview(ctx: Ctx<Vendor>, env: Env): Promise<Overview> {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const { read } = services.store;
  const now = services.clock.now();
  const projects = projectsOf(actor);
  const head = await headOf.first(read, { workspace_id });
  const keys = await countKeys(ctx, env, COUNT_MAX, head?.seq ?? 0);
  const workspace = await workspaceById.first(read, { id: workspace_id });
  const firstAllowed = (on: Reader) => firstAllowedAt(on, { workspace_id, env, projects });
  // For some projects alone it examines every row.
  const first = await (projects
    ? inThreadSlot(ctx, () => firstAllowed(threadReader(services.store)))
    : firstAllowed(read));
  return {
    object: "overview",
    env,
    generated_at: formatTimestamp(now),
    keys,
    leaks: await countUnreplaced(ctx, env),
    tenants: Math.min(workspace ? workspace.tenant_count + workspace.test_tenant_count : 0, COUNT_MAX),
    projects: await countLiveProjects(read, workspace_id, projects),
    nodes: await countNodes(ctx, { env }),
    first_verified_at: formatTimestampOrNull(first),
    audit: { head_seq: head?.seq ?? 0, head_hash: head?.hash ?? GENESIS_HASH },
  };
}

/** `projects`: those that a secret key is confined to, which may have been deleted since; null: all. */
async function countLiveProjects(
  read: Reader,
  workspace_id: string,
  projects: readonly string[] | null,
): Promise<number> {
  if (projects === null) return countProjects.count(read, { workspace_id });
  const found = await Promise.all(projects.map((id) => liveProjectById.first(read, { workspace_id, id })));
  return found.filter((project) => project !== undefined).length;
}
