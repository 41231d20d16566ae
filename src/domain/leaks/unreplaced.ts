// Leaked keys of an environment, secret keys included, that still work and have not been replaced.
import type { Env } from "../../kernel/credentials.ts";
import { LAST_ID } from "../../kernel/ids.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { unreplacedSecretKeys, walkLeakedKeys } from "../../store/queries/unreplaced-leaks.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import type { Overview } from "../workspaces/overview-cache.ts";
import { QUARANTINE_MS } from "./quarantine.ts";

const UNREPLACED_MAX = 1_000;
/** Keys that are read in one turn of the event loop, and in all: more than that are not counted. */
const PIECE_KEYS = 250;
const EXAMINED_MAX = 10_000;

/** A credential of some projects sees API keys of those projects alone. */
export async function countUnreplaced(ctx: Ctx<Vendor>, env: Env): Promise<Overview["leaks"]> {
  const { services, actor } = ctx;
  const scope = { workspace_id: actor.workspace_id, env, now: services.clock.now(), max: UNREPLACED_MAX };
  const ends = await endsOfKeys(ctx, scope);
  const secretKeys = projectsOf(actor) ? undefined : await unreplacedSecretKeys.first(services.store.read, scope);
  const first = Math.min(...ends, secretKeys?.stops_at ?? Infinity);
  return {
    unreplaced: Math.min(ends.length + (secretKeys?.n ?? 0), UNREPLACED_MAX),
    stops_at: first === Infinity ? null : formatTimestamp(first),
  };
}

type LeakScope = { workspace_id: string; env: Env; now: number };

/** When each unreplaced API key stops working. */
async function endsOfKeys({ services, actor }: Ctx<Vendor>, scope: LeakScope): Promise<number[]> {
  const ends: number[] = [];
  const projects = projectsOf(actor);
  // Quarantined earlier, a key has ended.
  let after = { quarantined_at: scope.now - QUARANTINE_MS, id: LAST_ID };
  for (let examined = 0; examined < EXAMINED_MAX && ends.length < UNREPLACED_MAX; examined += PIECE_KEYS) {
    const keys = await walkLeakedKeys(services.store.read, { ...scope, projects, after, max: PIECE_KEYS });
    for (const { isUnreplaced, expires_at } of keys) if (isUnreplaced) ends.push(expires_at ?? Infinity);
    const last = keys.at(-1);
    if (!last || keys.length < PIECE_KEYS) break;
    after = last;
    await yieldToEventLoop();
  }
  return ends.slice(0, UNREPLACED_MAX);
}
