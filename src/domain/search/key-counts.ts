// The numbers of keys by state, as `GET /v1/keys?state=…` lists them, up to a bound.
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS } from "../../kernel/durations.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { Reader } from "../../store/engine/tx.ts";
import {
  countPiece,
  hasMoreKeys,
  suspendedTenant,
  type CountedState,
  type KeyCount,
} from "../../store/queries/key-counts.ts";
import { runningCascade } from "../../store/queries/key-search.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { inThreadSlot, threadReader } from "../core/read-slots.ts";
import type { Overview } from "../workspaces/overview-cache.ts";
import { EXPIRING_DAYS, IDLE_DAYS } from "./keys.ts";

/** Keys that one statement examines: it holds the event loop, longer where each key's tenant is looked up. */
const PIECE_KEYS = { plain: 11_000, withTenants: 2_500 };
/** Beyond this many another thread counts, in larger pieces. */
const EXAMINED_HERE = 22_000;
const PIECE_OF_THREAD = 100_000;

/** Counts up to `max` keys of each state. */
export async function countKeys(ctx: Ctx<Vendor>, env: Env, max: number): Promise<Overview["keys"]> {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const { read } = services.store;
  const now = services.clock.now();
  const scope = {
    workspace_id,
    env,
    now,
    until: now + EXPIRING_DAYS * DAY_MS,
    usedBefore: now - IDLE_DAYS * DAY_MS,
    projects: projectsOf(actor),
    isDeleting: (await runningCascade.first(read, { workspace_id })) !== undefined,
    hasSuspended: (await suspendedTenant.first(read, { workspace_id })) !== undefined,
  };
  const count = (state: CountedState) => countInState(ctx, { ...scope, state }, max);
  const expiring = await count("expiring");
  const idle = await count("idle");
  // Each of these is active too: where they reach the bound, active keys need no count.
  const active = Math.max(expiring, idle) === max ? max : await count("active");
  return { active, expiring, idle, quarantined: await count("quarantined") };
}

async function countInState(ctx: Ctx<Vendor>, scope: KeyCount, max: number): Promise<number> {
  const { store } = ctx.services;
  const size = scope.hasSuspended || scope.isDeleting ? PIECE_KEYS.withTenants : PIECE_KEYS.plain;
  let [count, skipped, isMore] = [0, 0, true];
  while (count < max && isMore) {
    const isHere = skipped < EXAMINED_HERE;
    const piece = { ...scope, skipped, examined: isHere ? size : PIECE_OF_THREAD };
    const read = (on: Reader) => countPiece(on, { ...piece, max: max - count });
    count += await (isHere ? read(store.read) : inThreadSlot(ctx, () => read(threadReader(store))));
    isMore = count < max && (await hasMoreKeys(store.read, piece));
    skipped += piece.examined;
    await yieldToEventLoop();
  }
  return count;
}
