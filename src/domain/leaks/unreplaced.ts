// Leaked keys of an environment, secret keys included, that still work and have not been replaced.
import type { Env } from "../../kernel/credentials.ts";
import { LAST_ID } from "../../kernel/ids.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { WalkPosition } from "../../store/queries/page.ts";
import {
  countLeakedKeys,
  unreplacedSecretKeys,
  type LeakedKeys,
  type LeakScope,
} from "../../store/queries/unreplaced-leaks.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import type { Overview } from "../workspaces/overview-cache.ts";
import { QUARANTINE_MS } from "./quarantine.ts";

const UNREPLACED_MAX = 1_000;
/** Keys that are read in one turn of the event loop, and in all: more than that are not counted. */
const PIECE_KEYS = 1_000;
const EXAMINED_MAX = 10_000;

/** A credential of some projects sees API keys of those projects alone. */
export async function countUnreplaced(ctx: Ctx<Vendor>, env: Env): Promise<Overview["leaks"]> {
  const { services, actor } = ctx;
  const scope = { workspace_id: actor.workspace_id, env, now: services.clock.now() };
  const keys = await countLeaked(ctx, scope);
  const secretKeys = projectsOf(actor)
    ? undefined
    : await unreplacedSecretKeys.first(services.store.read, { ...scope, max: UNREPLACED_MAX });
  const first = Math.min(keys.stops_at, secretKeys?.stops_at ?? Infinity);
  return {
    unreplaced: Math.min(keys.unreplaced + (secretKeys?.n ?? 0), UNREPLACED_MAX),
    stops_at: first === Infinity ? null : formatTimestamp(first),
  };
}

async function countLeaked({ services, actor }: Ctx<Vendor>, scope: LeakScope) {
  const projects = projectsOf(actor);
  let [unreplaced, stops_at] = [0, Infinity];
  // Quarantined earlier, a key has ended.
  let after: WalkPosition | undefined = { at: scope.now - QUARANTINE_MS, id: LAST_ID };
  for (let examined = 0; after && examined < EXAMINED_MAX; examined += PIECE_KEYS) {
    const max = UNREPLACED_MAX - unreplaced;
    const query: LeakedKeys = { ...scope, projects, after, examined: PIECE_KEYS, max };
    const piece = await countLeakedKeys(services.store.read, query);
    unreplaced += piece.unreplaced;
    stops_at = Math.min(stops_at, piece.stops_at ?? Infinity);
    after = piece.end;
    await yieldToEventLoop();
  }
  return { unreplaced, stops_at };
}
