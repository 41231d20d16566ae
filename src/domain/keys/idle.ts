// Revokes keys that are not used, where a project's policy says so. A key that looks idle may only look so: because nodes do
// not report, sample blindly, or because a clock jumped. Then nothing is revoked. And only a few keys a day are.
import { ENVS, type Env } from "../../kernel/credentials.ts";
import { changeKeys } from "../../store/queries/key-bulk.ts";
import {
  idleRevocationsSince,
  insertIdleRevocation,
  keyUses,
  telemetryDays,
  type KeyUse,
} from "../../store/queries/idle-keys.ts";
import type { Reader } from "../../store/engine/statement.ts";
import type { ProjectRow } from "../../store/schema/tables.ts";
import { SYSTEM } from "../core/actor.ts";
import type { Services } from "../core/context.ts";
import type { Event } from "../core/events.ts";
import { DAY_MS, leadDays, parseKeyPolicy, type KeyPolicy } from "../core/key-policy.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { liveProject } from "../workspaces/projects.ts";
import { lastUseOf, mayBeIdle, walkKeyUses } from "./key-uses.ts";

const SILENCE_MS = 2 * DAY_MS;
const KEYS_A_COMMIT = 200;
const KEYS_A_RUN = 50_000;
const DAILY_MIN = 10;
const DAILY_PART = 0.05;

export const BLOCKS = ["too_recent", "no_telemetry", "sampled_telemetry"] as const;
export type Block = (typeof BLOCKS)[number];
export type BlockedBy = Record<Env, Block | null>;

type RuledProject = Pick<ProjectRow, "id" | "workspace_id" | "key_policy" | "idle_changed_at">;

/** Why no idle key of the project is revoked now, by environment. */
export async function blockedBy(on: Reader, project: RuledProject, policy: KeyPolicy, now: number): Promise<BlockedBy> {
  const blocks: BlockedBy = { live: null, test: null };
  for (const env of ENVS) blocks[env] = await blockOf(on, project, env, policy, now);
  return blocks;
}

async function blockOf(on: Reader, project: RuledProject, env: Env, policy: KeyPolicy, now: number) {
  if (now < (project.idle_changed_at ?? now) + leadDays(policy) * DAY_MS) return "too_recent";
  const idle_days = policy.idle_revoke_days ?? 0;
  const from = Math.floor(now / DAY_MS) - idle_days + 1;
  const days = await telemetryDays.all(on, { project_id: project.id, env, from });
  const newest = Math.max(0, ...days.map(({ last_at }) => last_at));
  if (days.length < idle_days / 2 || newest < now - SILENCE_MS) return "no_telemetry";
  return days.some(({ sampled }) => sampled > 0) ? "sampled_telemetry" : null;
}

export function isIdle(key: KeyUse, idle_days: number, now: number): boolean {
  return mayBeIdle(key) && lastUseOf(key) < now - idle_days * DAY_MS;
}

/** True where something keeps the project's idle keys from being revoked. */
export async function revokeIdle(services: Services, project: RuledProject, idle_days: number): Promise<boolean> {
  const { read } = services.store;
  const now = services.clock.now();
  const { id: project_id, workspace_id } = project;
  const blocks = await blockedBy(read, project, parseKeyPolicy(project.key_policy), now);
  if (ENVS.every((env) => blocks[env] !== null)) return true;
  let active = 0;
  const idle: KeyUse[] = [];
  for await (const piece of walkKeyUses(read, { workspace_id, project_id, now })) {
    active += piece.length;
    const found = piece.filter((key) => blocks[key.env] === null && isIdle(key, idle_days, now));
    idle.push(...found.slice(0, KEYS_A_RUN - idle.length));
  }
  const revoked = (await idleRevocationsSince.first(read, { project_id, since: now - DAY_MS }))?.keys ?? 0;
  const allowed = Math.max(0, Math.max(DAILY_MIN, Math.floor(active * DAILY_PART)) - revoked);
  const due = idle.toSorted((a, b) => lastUseOf(a) - lastUseOf(b)).slice(0, allowed);
  for (let at = 0; at < due.length && !services.shutdown.signal.aborted; at += KEYS_A_COMMIT)
    await revokeKeys(services, project, idle_days, due.slice(at, at + KEYS_A_COMMIT));
  if (idle.length > due.length)
    services.log.info("idle keys wait for the next day", { project_id, keys: idle.length - due.length });
  return ENVS.some((env) => blocks[env] !== null);
}

/** Looks at each key and at the policy again: either may have changed since. */
async function revokeKeys(services: Services, project: RuledProject, idle_days: number, due: readonly KeyUse[]) {
  const { id: project_id, workspace_id } = project;
  const ids = due.map(({ id }) => id);
  await mutate({ services, actor: SYSTEM }, { workspace_id }, async (tx) => {
    const now = services.clock.now();
    const policy: KeyPolicy = parseKeyPolicy((await liveProject(tx, workspace_id, project_id)).key_policy);
    if (policy.idle_revoke_days !== idle_days) return unchanged(null);
    const found = await keyUses(tx, { workspace_id, project_id, now, ids }, { after: null, upTo: null });
    const [first, ...rest] = found.filter((key) => isIdle(key, idle_days, now));
    if (!first) return unchanged(null);
    const reason = `unused for ${idle_days} days`;
    const keys = [first, ...rest];
    const change = { revoked_at: now, revoked_reason: reason, revoked_cause: "revoked" as const };
    const policy_version = await tx.bump(project_id);
    const changed = { workspace_id, project_id, ids: keys.map(({ id }) => id) };
    await changeKeys(tx, changed, { ...change, policy_version });
    await insertIdleRevocation.run(tx, { project_id, revoked_at: now, keys: keys.length });
    const eventOf = ({ id, env }: KeyUse): Event => {
      return { action: "api_key.revoked", target_id: id, payload: { env, reason, policy: "idle_revoke" } };
    };
    return { value: null, events: [eventOf(first), ...rest.map(eventOf)] };
  });
}
