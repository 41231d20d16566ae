// Leaked keys of an environment, secret keys included, that still work and have not been replaced.
import type { Env } from "../../kernel/credentials.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { unreplacedKeys, unreplacedSecretKeys } from "../../store/queries/unreplaced-leaks.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import type { Overview } from "../workspaces/overview-cache.ts";
import { QUARANTINE_MS } from "./quarantine.ts";

/** One statement counts them and holds the event loop, so the bound is below that of other counts. */
const UNREPLACED_MAX = 1_000;

/** A credential of some projects sees API keys of those projects alone. */
export async function countUnreplaced({ services, actor }: Ctx<Vendor>, env: Env): Promise<Overview["leaks"]> {
  const { read } = services.store;
  const now = services.clock.now();
  const projects = projectsOf(actor);
  const scope = { workspace_id: actor.workspace_id, env, now, max: UNREPLACED_MAX };
  const keys = await unreplacedKeys(read, { ...scope, projects, since: now - QUARANTINE_MS });
  const secretKeys = projects ? undefined : await unreplacedSecretKeys.first(read, scope);
  const ends = [keys.stops_at, secretKeys?.stops_at ?? null].filter((at) => at !== null);
  return {
    unreplaced: Math.min(keys.n + (secretKeys?.n ?? 0), UNREPLACED_MAX),
    stops_at: ends.length === 0 ? null : formatTimestamp(Math.min(...ends)),
  };
}
