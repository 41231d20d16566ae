// Leaked keys of an environment, secret keys included, that still work and have not been replaced.
import type { Env } from "../../kernel/credentials.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { unreplacedKeys, unreplacedSecretKeys } from "../../store/queries/unreplaced-leaks.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import type { Overview } from "../workspaces/overview-cache.ts";
import { QUARANTINE_MS } from "./quarantine.ts";

const UNREPLACED_MAX = 1_000;
/** Keys that are read in one turn of the event loop. */
const PIECE_KEYS = 200;
/** Sorts after every id. */
const LAST_ID = "~";

type Leaks = { n: number; stops_at: number };

/** A credential of some projects sees API keys of those projects alone. */
export async function countUnreplaced({ services, actor }: Ctx<Vendor>, env: Env): Promise<Overview["leaks"]> {
  const { read } = services.store;
  const now = services.clock.now();
  const projects = projectsOf(actor);
  const scope = { workspace_id: actor.workspace_id, env, now };
  const found: Leaks = { n: 0, stops_at: Infinity };
  const add = (n: number, stops_at: number | null | undefined): void => {
    found.n += n;
    found.stops_at = Math.min(found.stops_at, stops_at ?? Infinity);
  };
  // Quarantined earlier, a key has ended.
  for (let after = { quarantined_at: now - QUARANTINE_MS, id: LAST_ID }; found.n < UNREPLACED_MAX; ) {
    const keys = await unreplacedKeys(read, { ...scope, projects, after, max: PIECE_KEYS });
    for (const { expires_at } of keys) add(1, expires_at);
    const last = keys.at(-1);
    if (!last || keys.length < PIECE_KEYS) break;
    after = last;
    await yieldToEventLoop();
  }
  if (!projects) {
    const secretKeys = await unreplacedSecretKeys.first(read, { ...scope, max: UNREPLACED_MAX });
    add(secretKeys?.n ?? 0, secretKeys?.stops_at);
  }
  return {
    unreplaced: Math.min(found.n, UNREPLACED_MAX),
    stops_at: found.stops_at === Infinity ? null : formatTimestamp(found.stops_at),
  };
}
