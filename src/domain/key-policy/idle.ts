// Revokes keys that are not used, where a project's policy says so. A key that looks idle may only look so: because
// nodes do not report, sample blindly, or because a clock jumped. Then nothing is revoked. And only a few keys a day
// are, each after owners who want notices got one.
import { chunked } from "../../kernel/chunks.ts";
import { ENVS, type Env } from "../../kernel/credentials.ts";
import { DAY_MS, utcDay } from "../../kernel/durations.ts";
import { changeKeys } from "../../store/queries/key-bulk.ts";
import {
  idleRevocationsSince,
  insertIdleRevocation,
  keyUses,
  telemetryDays,
  type KeyUse,
} from "../../store/queries/idle-keys.ts";
import { noticesOf } from "../../store/queries/key-notices.ts";
import type { Reader } from "../../store/engine/tx.ts";
import type { ProjectRow } from "../../store/schema/tables.ts";
import { SYSTEM } from "../core/actor.ts";
import type { Services } from "../core/context.ts";
import type { Event } from "../core/events.ts";
import { leadDays, parseKeyPolicy, type KeyPolicy } from "./key-policy.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { liveProject } from "../workspaces/projects.ts";
import { lastUseOf, mayBeIdle, walkKeyUses } from "./key-uses.ts";

const SILENCE_MS = 2 * DAY_MS;
const KEYS_A_COMMIT = 200;
const KEYS_A_RUN = 50_000;
const DAILY_MIN = 10;
const DAILY_PART = 0.05;

export const BLOCKS = ["too_recent", "no_telemetry", "sampled_telemetry"] as const;
type Block = (typeof BLOCKS)[number];
export type BlockedBy = Record<Env, Block | null>;

type RuledProject = Pick<ProjectRow, "id" | "workspace_id" | "key_policy" | "idle_changed_at">;

/** Why no idle key of the project is revoked now, by environment. */
export async function blockedBy(on: Reader, project: RuledProject, policy: KeyPolicy, now: number): Promise<BlockedBy> {
  if (now < startsAt(project, policy, now)) return { live: "too_recent", test: "too_recent" };
  return lackOfTelemetry(on, project.id, policy, now);
}

/** When revocation may begin: before that, owners could not have been notified. */
function startsAt({ idle_changed_at }: RuledProject, policy: KeyPolicy, now: number): number {
  return (idle_changed_at ?? now) + leadDays(policy) * DAY_MS;
}

/** Why it is not known which keys are idle, by environment. */
export async function lackOfTelemetry(on: Reader, project_id: string, policy: KeyPolicy, now: number) {
  const lacks: BlockedBy = { live: null, test: null };
  for (const env of ENVS) lacks[env] = await lackIn(on, project_id, env, policy, now);
  return lacks;
}

async function lackIn(on: Reader, project_id: string, env: Env, policy: KeyPolicy, now: number) {
  const idle_days = policy.idle_revoke_days ?? 0;
  // The window touches one UTC day more than it is long, in part. A use may have been sampled out on that day too.
  const from = utcDay(now) - idle_days;
  const days = await telemetryDays.all(on, { project_id, env, from });
  const newest = Math.max(0, ...days.map(({ last_at }) => last_at));
  const reported = days.filter(({ day }) => day > from).length;
  if (reported < idle_days / 2 || newest < now - SILENCE_MS) return "no_telemetry";
  return days.some(({ sampled }) => sampled > 0) ? "sampled_telemetry" : null;
}

/** When the key is due to be revoked as idle, unless something blocks it. */
export function idleDueAt(key: KeyUse, project: RuledProject, policy: KeyPolicy, now: number): number {
  return Math.max(lastUseOf(key) + (policy.idle_revoke_days ?? 0) * DAY_MS, startsAt(project, policy, now));
}

/**
 * Keys whose announced date has passed; all of them if the policy has no notices. A date may have passed without a
 * notice: while nodes did not report, or the server was down. A use after the notice makes it void.
 */
async function announcedOf(on: Reader, project: RuledProject, policy: KeyPolicy, keys: KeyUse[], now: number) {
  if (policy.notice_days.length === 0) return keys;
  const ids = keys.map(({ id }) => id);
  const notices = Map.groupBy(await noticesOf(on, ids), ({ key_id }) => key_id);
  return keys.filter((key) => {
    const dueAt = idleDueAt(key, project, policy, now);
    return notices.get(key.id)?.some(({ kind, due_at }) => kind === "idle" && due_at >= dueAt && due_at <= now);
  });
}

export function isIdle(key: KeyUse, idle_days: number, now: number): boolean {
  return mayBeIdle(key) && lastUseOf(key) < now - idle_days * DAY_MS;
}

/** `waiting`: idle keys above what is revoked within a day. */
type IdleState = { isBlocked: boolean; waiting: number };

export async function revokeIdle(services: Services, project: RuledProject, idle_days: number): Promise<IdleState> {
  const { read } = services.store;
  const now = services.clock.now();
  const { id: project_id, workspace_id } = project;
  const policy = parseKeyPolicy(project.key_policy);
  const blocks = await blockedBy(read, project, policy, now);
  if (ENVS.every((env) => blocks[env] !== null)) return { isBlocked: true, waiting: 0 };
  const active: Record<Env, number> = { live: 0, test: 0 };
  const idle: Record<Env, KeyUse[]> = { live: [], test: [] };
  for await (const piece of walkKeyUses(read, { workspace_id, project_id, now })) {
    for (const { env } of piece) active[env]++;
    const unused = piece.filter((key) => blocks[key.env] === null && isIdle(key, idle_days, now));
    for (const key of await announcedOf(read, project, policy, unused, now))
      if (idle[key.env].length < KEYS_A_RUN) idle[key.env].push(key);
  }
  // Also by environment: the number of test keys must not raise what is revoked of live. Live comes first.
  const daily = dailyOf(active.live + active.test);
  let waiting = 0;
  for (const env of ENVS) {
    const limit = { env, idle_days, daily, ofEnv: dailyOf(active[env]) };
    waiting += await revokeInPieces(services, project, limit, idle[env].toSorted(byLastUse));
  }
  return { isBlocked: ENVS.some((env) => blocks[env] !== null), waiting };
}

/** How many of these keys may be revoked within a day. */
function dailyOf(active: number): number {
  return Math.max(DAILY_MIN, Math.floor(active * DAILY_PART));
}

function byLastUse(a: KeyUse, b: KeyUse): number {
  return lastUseOf(a) - lastUseOf(b);
}

/** `daily`: of the project, of which `ofEnv` in this environment. */
type Limit = { env: Env; idle_days: number; daily: number; ofEnv: number };

/** Returns how many keys wait. */
async function revokeInPieces(services: Services, project: RuledProject, limit: Limit, idle: KeyUse[]) {
  let waiting = 0;
  for (const some of chunked(idle, KEYS_A_COMMIT)) {
    if (services.shutdown.signal.aborted) break;
    waiting += waiting > 0 ? some.length : await revokeKeys(services, project, limit, some);
  }
  return waiting;
}

/** Looks at keys, policy and the day's revocations again: they may have changed since. Returns how many keys wait. */
async function revokeKeys(services: Services, project: RuledProject, limit: Limit, due: KeyUse[]) {
  const { id: project_id, workspace_id } = project;
  const { env, idle_days, daily, ofEnv } = limit;
  const ids = due.map(({ id }) => id);
  return mutate({ services, actor: SYSTEM }, { workspace_id }, async (tx) => {
    const now = services.clock.now();
    const policy: KeyPolicy = parseKeyPolicy((await liveProject(tx, workspace_id, project_id)).key_policy);
    if (policy.idle_revoke_days !== idle_days) return unchanged(0);
    const revoked = (await idleRevocationsSince.first(tx, { project_id, since: now - DAY_MS })) ?? { live: 0, test: 0 };
    const room = Math.min(daily - revoked.live - revoked.test, ofEnv - revoked[env]);
    const found = await keyUses(tx, { workspace_id, project_id, now }, ids);
    const idle = found.filter((key) => isIdle(key, idle_days, now)).toSorted(byLastUse);
    const [first, ...rest] = idle.slice(0, Math.max(0, room));
    if (!first) return unchanged(idle.length);
    const reason = `unused for ${idle_days} days`;
    const keys = [first, ...rest];
    const change = { revoked_at: now, revoked_reason: reason, revoked_cause: "revoked" as const };
    const policy_version = await tx.bump(project_id);
    const changed = { workspace_id, project_id, ids: keys.map(({ id }) => id) };
    await changeKeys(tx, changed, { ...change, policy_version });
    const test_keys = env === "test" ? keys.length : 0;
    await insertIdleRevocation.run(tx, { project_id, revoked_at: now, keys: keys.length, test_keys });
    const eventOf = ({ id }: KeyUse): Event => {
      return { action: "api_key.revoked", target_id: id, payload: { env, reason, policy: "idle_revoke" } };
    };
    return { value: idle.length - keys.length, events: [eventOf(first), ...rest.map(eventOf)] };
  });
}
