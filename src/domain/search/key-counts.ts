// The numbers of keys by state, as `GET /v1/keys?state=…` lists them, up to a bound.
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS } from "../../kernel/durations.ts";
import { mapInTurns } from "../../platform/event-loop.ts";
import {
  countPiece,
  reachesMax,
  suspendedTenant,
  type CountedPiece,
  type CountedState,
  type KeyCount,
} from "../../store/queries/key-counts.ts";
import { runningCascade } from "../../store/queries/key-search.ts";
import type { Reader } from "../../store/engine/tx.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { inThreadSlot, threadReader } from "../core/read-slots.ts";
import type { Overview } from "../workspaces/overview-cache.ts";
import { EXPIRING_DAYS, IDLE_DAYS } from "./keys.ts";

/** Keys of each state that are examined here; another thread counts the others. */
const EXAMINED_HERE = 11_000;
/** What one statement examines on that thread. */
const EXAMINED_THERE = 25_000;
/** The same where more is read of each than the index of its state: on SQLite that holds the event loop for longer. */
const LOOKED_UP_HERE = 2_500;

/** Counts up to `max` keys of each state. `made`: no fewer than the keys that the workspace ever had. */
export async function countKeys(ctx: Ctx<Vendor>, env: Env, max: number, made: number): Promise<Overview["keys"]> {
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
  const mayReach = made >= max;
  const count = (state: CountedState) => countInState(ctx, { ...scope, state }, max, mayReach);
  const [expiring = 0, idle = 0, quarantined = 0] = await mapInTurns(["expiring", "idle", "quarantined"], count);
  // Each of these is active too: where they reach the bound, active keys need no count.
  const active = Math.max(expiring, idle) === max ? max : await count("active");
  return { active, expiring, idle, quarantined };
}

async function countInState(ctx: Ctx<Vendor>, scope: KeyCount, max: number, mayReach: boolean): Promise<number> {
  const { store } = ctx.services;
  const isLookedUp = scope.hasSuspended || scope.isDeleting || scope.projects !== null;
  const first = { ...scope, after: null, examined: isLookedUp ? LOOKED_UP_HERE : EXAMINED_HERE, max };
  // On PostgreSQL it would delay the queries behind it.
  const read = <T>(query: (on: Reader) => Promise<T>): Promise<T> =>
    store.dialect === "sqlite" ? query(store.read) : inThreadSlot(ctx, () => query(threadReader(store)));
  if (mayReach && !isLookedUp && (await read((on) => reachesMax(on, first)))) return max;
  let { n, end }: CountedPiece = await read((on) => countPiece(on, first));
  while (end) {
    const piece = { ...scope, after: end, examined: EXAMINED_THERE, max: max - n };
    const next: CountedPiece = await inThreadSlot(ctx, () => countPiece(threadReader(store), piece));
    n += next.n;
    end = next.end;
  }
  return n;
}
