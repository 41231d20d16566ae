// The numbers of keys by state, as `GET /v1/keys?state=…` lists them, up to a bound.
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS } from "../../kernel/durations.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import {
  countPiece,
  suspendedTenant,
  type CountedPiece,
  type CountedState,
  type KeyCount,
} from "../../store/queries/key-counts.ts";
import { runningCascade } from "../../store/queries/key-search.ts";
import type { WalkPosition } from "../../store/queries/page.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { inThreadSlot, threadReader } from "../core/read-slots.ts";
import type { Overview } from "../workspaces/overview-cache.ts";
import { EXPIRING_DAYS, IDLE_DAYS } from "./keys.ts";

/**
 * Keys that one statement examines on this thread, in an index alone or with their rows, and all of them. Beyond that
 * another thread counts.
 */
const EXAMINED = { index: { once: 11_000, here: 22_000 }, rows: { once: 1_000, here: 4_000 } };
const EXAMINED_ON_THREAD = 25_000;

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
  const { once, here } = EXAMINED[readsRows(scope) ? "rows" : "index"];
  let count = 0;
  let after: WalkPosition | null = null;
  for (let examined = 0; ; examined += once) {
    const isHere = examined < here;
    const piece = { ...scope, after, examined: isHere ? once : EXAMINED_ON_THREAD, max: max - count };
    const counted: CountedPiece = await (isHere
      ? countPiece(store.read, piece)
      : inThreadSlot(ctx, () => countPiece(threadReader(store), piece)));
    await yieldToEventLoop();
    count += counted.n;
    if (!counted.end) return count;
    after = counted.end;
  }
}

/** Rows of keys, or of their tenants. */
const readsRows = ({ state, hasSuspended, isDeleting }: KeyCount): boolean =>
  state === "active" || state === "idle" || hasSuspended || isDeleting;
