// Projects: the APIs that the vendor protects. Every change that nodes must learn of raises policy_version.
import { fail, failField } from "../../kernel/errors.ts";
import { OWN_PREFIX } from "../../kernel/key-prefixes.ts";
import { CAP, NO_CAPS } from "../../kernel/policy/capabilities.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { listLive, type PageKey } from "../../store/queries/page.ts";
import {
  countProjectsCreatedIn,
  insertProject,
  liveProjectById,
  projectPageKey,
  markProjectDeleted,
  updateProject,
} from "../../store/queries/projects.ts";
import type { Reader } from "../../store/engine/tx.ts";
import type { ProjectRow } from "../../store/schema/tables.ts";
import { chargedEnvOf, projectsOf, type Vendor } from "../core/actor.ts";
import { requireProjectAccess } from "../core/env-access.ts";
import type { Ctx } from "../core/context.ts";
import { changes, type Event } from "../core/events.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { recordLimitReached } from "../core/record-limit.ts";
import { listRecords, WIDE_PIECE_ROWS, type ListQuery } from "../core/list.ts";
import { viewProject } from "../core/views.ts";
import type { CatalogueScope } from "../keys/scope-catalogue.ts";
import { versionGate } from "../core/version-gate.ts";
import { parseKeyPolicy, type KeyPolicy } from "../key-policy/key-policy.ts";
import { revokeKeysOf, withDeletionPlan } from "./cascades.ts";
import { claimPrefixFor, prefixTaken, requireUsable, withPrefix } from "./key-prefixes.ts";

/** By the environment of the credentials that create them: those of test must not use up the places of live. */
export const PROJECTS_MAX = { live: 1_000, test: 250 };

/** Memoized within a transaction: the jobs that share one never change projects. bench: vendor/mint */
export async function liveProject(on: Reader, workspace_id: string, id: string): Promise<ProjectRow> {
  const row = await liveProjectById.firstMemoized(on, { workspace_id, id });
  if (!row) throw fail("project_not_found");
  return row;
}

type ProjectFields = {
  default_rate_limits?: RateLimit[] | undefined;
  key_policy?: KeyPolicy | undefined;
  scope_catalogue?: CatalogueScope[] | undefined;
  key_prefix?: string | undefined;
};
type NewProject = ProjectFields & { name: string; slug: string };

export function newProjectRow({ services, actor }: Ctx<Vendor>, input: NewProject): ProjectRow {
  const now = services.clock.now();
  const { key_prefix = OWN_PREFIX } = input;
  return {
    id: services.newId(),
    workspace_id: actor.workspace_id,
    name: input.name,
    slug: input.slug,
    policy_version: 1,
    min_delta_version: 1,
    default_rate_limits: JSON.stringify(input.default_rate_limits ?? []),
    scope_catalogue: JSON.stringify(input.scope_catalogue ?? []),
    key_policy: input.key_policy ? JSON.stringify(input.key_policy) : null,
    idle_changed_at: input.key_policy?.idle_revoke_days ? now : null,
    created_env: chargedEnvOf(actor),
    created_at: now,
    updated_at: now,
    deleted_at: null,
    features: key_prefix === OWN_PREFIX ? NO_CAPS : CAP.formats,
    key_prefix,
    key_prefixes: JSON.stringify([key_prefix]),
  };
}

export function projectCreated({ id, name, slug }: ProjectRow): Event {
  return { action: "project.created", target_id: id, payload: { name, slug } };
}

/** A process of an earlier release would ignore them: mint keys with its own prefix, and keys that live longer. */
async function requireRulesKnown({ services }: Ctx, { key_prefix = OWN_PREFIX, key_policy }: ProjectFields) {
  await versionGate.assertUsesKnown(services, {
    "key prefixes": key_prefix !== OWN_PREFIX,
    "key lifetimes": key_policy && key_policy.max_ttl_days !== null,
  });
}

export async function createProject(ctx: Ctx<Vendor>, input: NewProject) {
  const { workspace_id } = ctx.actor;
  requireUsable(input.key_prefix);
  await requireRulesKnown(ctx, input);
  const row = newProjectRow(ctx, input);
  const onConflict = (target: string) =>
    target.includes("key_prefixes") ? prefixTaken() : failField("slug_taken", "slug", "is already in use");
  return mutate(ctx, { workspace_id, onConflict }, async (tx) => {
    const count = await countProjectsCreatedIn.count(tx, { workspace_id, env: row.created_env });
    if (count >= PROJECTS_MAX[row.created_env]) throw recordLimitReached(ctx);
    await claimPrefixFor(ctx, tx, row.key_prefix);
    await insertProject.run(tx, row);
    return { value: viewProject(row), events: [projectCreated(row)] };
  });
}

export function listProjects(ctx: Ctx<Vendor>, query: ListQuery) {
  const ids = projectsOf(ctx.actor);
  const ofItself = (named: PageKey | undefined) => named && { ...named, project_id: named.id };
  return listRecords(ctx, query, {
    find: { first: async (on, id) => ofItself(await projectPageKey.first(on, id)) },
    rows: (on, page) => listLive(on, "projects", { ...page, ids }),
    viewer: () => viewProject,
    pieceRows: WIDE_PIECE_ROWS,
  });
}

export async function showProject(ctx: Ctx<Vendor>, id: string) {
  requireProjectAccess(ctx.actor, id);
  return viewProject(await liveProject(ctx.services.store.read, ctx.actor.workspace_id, id));
}

type ProjectEdit = ProjectFields & { name?: string | undefined };

export async function editProject(ctx: Ctx<Vendor>, id: string, edit: ProjectEdit) {
  const { workspace_id } = ctx.actor;
  requireUsable(edit.key_prefix);
  await requireRulesKnown(ctx, edit);
  return mutate(ctx, { workspace_id, onConflict: prefixTaken }, async (tx) => {
    const row = await liveProject(tx, workspace_id, id);
    const limits = edit.default_rate_limits ? JSON.stringify(edit.default_rate_limits) : row.default_rate_limits;
    const after = {
      ...row,
      name: edit.name ?? row.name,
      default_rate_limits: limits,
      scope_catalogue: edit.scope_catalogue ? JSON.stringify(edit.scope_catalogue) : row.scope_catalogue,
      key_policy: edit.key_policy ? JSON.stringify(edit.key_policy) : row.key_policy,
      updated_at: ctx.services.clock.now(),
      ...(edit.key_prefix !== undefined && prefixColumns(row, edit.key_prefix)),
    };
    const payload = changes(auditable(row), auditable(after));
    if (!payload) return unchanged(viewProject(row));
    const isNewPrefix = "key_prefix" in payload;
    if (isNewPrefix) await claimPrefixFor(ctx, tx, after.key_prefix);
    if (parseKeyPolicy(after.key_policy).idle_revoke_days !== parseKeyPolicy(row.key_policy).idle_revoke_days)
      after.idle_changed_at = after.updated_at; // idle keys get time to be noticed
    // New defaults change every key that inherits them, so each node must take a new snapshot.
    const forgetDeltas = "default_rate_limits" in payload;
    if (forgetDeltas || isNewPrefix)
      after.policy_version = await tx.bump(id, { forgetDeltas, uses: isNewPrefix ? CAP.formats : NO_CAPS });
    await updateProject.run(tx, after);
    return { value: viewProject(after), events: [{ action: "project.updated", target_id: id, payload }] };
  });
}

function prefixColumns(row: ProjectRow, key_prefix: string) {
  const before = JSON.parse(row.key_prefixes) as string[];
  return { key_prefix, key_prefixes: JSON.stringify(withPrefix(before, key_prefix)) };
}

function auditable(row: ProjectRow) {
  const { name, default_rate_limits, key_policy, scope_catalogue, key_prefix } = viewProject(row);
  return { name, default_rate_limits, key_policy, scope_catalogue, key_prefix };
}

export async function deleteProject(ctx: Ctx<Vendor>, id: string) {
  const { workspace_id } = ctx.actor;
  const deletion = { id, workspace_id, cause: "project_deleted" } as const;
  const found = await liveProjectById.firstMemoized(ctx.services.store.read, { workspace_id, id });
  return withDeletionPlan(ctx, deletion, found !== undefined, (plan) =>
    mutate(ctx, { workspace_id }, async (tx) => {
      await liveProject(tx, workspace_id, id);
      const now = ctx.services.clock.now();
      const revoked_keys = await revokeKeysOf(tx, { ...deletion, ...plan, now });
      await markProjectDeleted.run(tx, { workspace_id, id, now });
      return {
        value: { object: "project" as const, id, deleted: true as const, revoked_keys },
        events: [{ action: "project.deleted", target_id: id, payload: { revoked_keys } }],
      };
    }),
  );
}
