// The numbers of keys by state, as `GET /v1/keys?state=…` lists them, up to a bound.
import type { Env } from "../../kernel/credentials.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { countDisabled, countExpired, countSuspended, countUnrevoked } from "../../store/queries/key-counts.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { runningCascade } from "../../store/queries/key-search.ts";
import { countInState } from "./keys.ts";

/** Keys that one statement counts at most: it holds the event loop. */
const STOPPED_MAX = 2_000;

/**
 * Counts keys that are not revoked, minus those that do not work: each is a range of an index. Where too many do not
 * work, or if rows do not say what holds, the newest keys are counted instead.
 */
export async function countActiveKeys(ctx: Ctx<Vendor>, env: Env, max: number): Promise<number> {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const { read } = services.store;
  const walked = (): Promise<number> => countInState(ctx, env, "active", max);
  if (projectsOf(actor) !== null || (await runningCascade.first(read, { workspace_id }))) return walked();
  const now = services.clock.now();
  let stopped = 0;
  for (const count of [countExpired, countDisabled, countSuspended]) {
    const n = await count.count(read, { workspace_id, env, now, max: STOPPED_MAX });
    if (n === STOPPED_MAX) return walked();
    stopped += n;
    await yieldToEventLoop();
  }
  const unrevoked = await countUnrevoked.count(read, { workspace_id, env, max: max + stopped });
  return Math.max(0, unrevoked - stopped);
}
