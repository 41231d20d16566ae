// What a project's key policy, or another one, means for the keys that exist. Writes nothing.
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS } from "../../kernel/durations.ts";
import { failField } from "../../kernel/errors.ts";
import { formatTimestamp, formatTimestampOrNull } from "../../kernel/timestamps.ts";
import type { Reader } from "../../store/engine/tx.ts";
import type { KeysOf, KeyUse } from "../../store/queries/idle-keys.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { requireProjectAccess, visibleEnv } from "../core/env-access.ts";
import { parseKeyPolicy, type KeyPolicy } from "./key-policy.ts";
import { inFleetSlot } from "../core/read-slots.ts";
import { liveProject } from "../workspaces/projects.ts";
import { blockedBy, isIdle, type BlockedBy } from "./idle.ts";
import { lastUseOf, walkKeyUses } from "./key-uses.ts";

const LISTED_MAX = 100;

export type PolicyOverrides = Partial<Pick<KeyPolicy, "default_ttl_days" | "max_ttl_days" | "idle_revoke_days">>;

type Affected = { key: KeyUse; endsAt: number };

/** The soonest to end of any number of keys. */
type Soonest = { count: number; first: Affected[] };

function withMore({ count, first }: Soonest, more: readonly Affected[]): Soonest {
  const sorted = [...first, ...more].toSorted((a, b) => a.endsAt - b.endsAt);
  return { count: count + more.length, first: sorted.slice(0, LISTED_MAX) };
}

function viewSoonest({ count, first }: Soonest) {
  return { count, keys: first.map(viewAffected) };
}

function viewAffected({ key, endsAt }: Affected) {
  return {
    id: key.id,
    tenant_id: key.tenant_id,
    env: key.env,
    display_prefix: key.display_prefix,
    name: key.name,
    created_at: formatTimestamp(key.created_at),
    expires_at: formatTimestampOrNull(key.expires_at),
    last_used_at: formatTimestampOrNull(key.last_used_at),
    would_end_at: formatTimestamp(endsAt),
  };
}

const NO_BLOCKS: BlockedBy = { live: null, test: null };

export async function reportKeyPolicy(ctx: Ctx<Vendor>, id: string, overrides: PolicyOverrides) {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const { read } = services.store;
  requireProjectAccess(actor, id);
  const env: Env | undefined = visibleEnv(actor, undefined);
  const project = await liveProject(read, workspace_id, id);
  const stored = parseKeyPolicy(project.key_policy);
  const policy = { ...stored, ...overrides };
  requireSavable(policy, overrides);
  const { idle_revoke_days } = policy;
  const now = services.clock.now();
  const keysOf = { workspace_id, project_id: id, env, now };
  const { active_keys, affected_tenants, overMax, idle } = await inFleetSlot(ctx, () =>
    findAffected(read, keysOf, policy),
  );
  // Another period would begin when it is stored.
  const idle_changed_at = idle_revoke_days === stored.idle_revoke_days ? project.idle_changed_at : now;
  const ruled = { ...project, idle_changed_at };
  const blocks = idle_revoke_days === null ? NO_BLOCKS : await blockedBy(read, ruled, policy, now);
  const blocked_by = env === undefined ? blocks : { ...NO_BLOCKS, [env]: blocks[env] };
  return {
    object: "key_policy_report" as const,
    project_id: id,
    policy,
    generated_at: formatTimestamp(now),
    active_keys,
    affected_tenants,
    over_max_ttl: viewSoonest(overMax),
    idle: { ...viewSoonest(idle), blocked_by },
  };
}

/** As the project's PATCH, which names the one field that the query may leave out. */
function requireSavable({ default_ttl_days, max_ttl_days }: KeyPolicy, overrides: PolicyOverrides): void {
  if (default_ttl_days === null || max_ttl_days === null || default_ttl_days <= max_ttl_days) return;
  if (overrides.default_ttl_days !== undefined)
    throw failField("invalid_query", "default_ttl_days", `must not be above max_ttl_days, which is ${max_ttl_days}`);
  const message = `must not be below default_ttl_days, which is ${default_ttl_days}`;
  throw failField("invalid_query", "max_ttl_days", message);
}

async function findAffected(on: Reader, keysOf: KeysOf, { max_ttl_days, idle_revoke_days }: KeyPolicy) {
  const { now } = keysOf;
  const tenants = new Set<string>();
  let overMax: Soonest = { count: 0, first: [] };
  let idle = overMax;
  let active_keys = 0;
  for await (const piece of walkKeyUses(on, keysOf)) {
    active_keys += piece.length;
    const over = max_ttl_days === null ? [] : piece.flatMap((key) => outliving(key, max_ttl_days, now));
    const unused = idle_revoke_days === null ? [] : piece.flatMap((key) => unusedFor(key, idle_revoke_days, now));
    overMax = withMore(overMax, over);
    idle = withMore(idle, unused);
    for (const { key } of [...over, ...unused]) tenants.add(key.tenant_id);
  }
  return { active_keys, affected_tenants: tenants.size, overMax, idle };
}

function outliving(key: KeyUse, max_ttl_days: number, now: number): Affected[] {
  const end = key.created_at + max_ttl_days * DAY_MS;
  return key.expires_at === null || key.expires_at > end ? [{ key, endsAt: Math.max(end, now) }] : [];
}

function unusedFor(key: KeyUse, idle_days: number, now: number): Affected[] {
  if (!isIdle(key, idle_days, now)) return [];
  return [{ key, endsAt: Math.max(lastUseOf(key) + idle_days * DAY_MS, now) }];
}
