// What a node has to enforce to get a key, and which nodes cannot: they are named where a key is made that needs it.
import type { Env } from "../../kernel/credentials.ts";
import { OWN_PREFIX } from "../../kernel/key-prefixes.ts";
import { CAP, missingFrom, NO_CAPS } from "../../kernel/policy/capabilities.ts";
import type { PolicyNodeRow } from "../../store/schema/tables.ts";
import { liveNodes } from "../../store/queries/nodes.ts";
import type { Ctx } from "../core/context.ts";
import { withWarnings, type Warned } from "../core/warnings.ts";

/** Capabilities without which a key is withheld. `disabled` is none: without it, a disabled key is removed. */
export const NEEDED = CAP.cidr | CAP.formats;

export function needsOf({ display_prefix }: { display_prefix: string }): number {
  return display_prefix.startsWith(`${OWN_PREFIX}_`) ? NO_CAPS : CAP.formats;
}

/** What nodes need to get a key as it is now: nothing where it is removed from them. */
export function needsToServe(key: { display_prefix: string; revoked_at: unknown; disabled_at: unknown }): number {
  return key.revoked_at === null && key.disabled_at === null ? needsOf(key) : NO_CAPS;
}

/** The live nodes of a project that hold keys of an environment, or of either where it is null. */
export async function nodesHolding(
  { services: { clock, settings, store } }: Ctx,
  { project_id, env }: { project_id: string; env: Env | null },
): Promise<PolicyNodeRow[]> {
  const rows = await liveNodes.all(store.read, { project_id, seenAfter: clock.now() - settings.node_live_ms });
  return rows.filter(({ env_scope }) => env === null || env_scope === "all" || env_scope === env);
}

type Needing = { project_id: string; env: Env | null; needs: number; path: string };

/** Adds `warnings` to a response where live nodes do not get what it is about. */
export async function withNodeWarnings<T extends object>(
  ctx: Ctx,
  shown: Warned<T>,
  needing: Needing,
): Promise<Warned<T>> {
  if (needing.needs === NO_CAPS) return shown;
  const nodes = await nodesHolding(ctx, needing);
  const lacking = nodes.filter(({ caps }) => missingFrom(caps, needing.needs).length > 0).length;
  if (lacking === 0) return shown;
  const message = `${lacking} of ${nodes.length} live nodes cannot enforce this and do not get the keys: update their library`;
  return withWarnings(shown, [...(shown.warnings ?? []), { path: needing.path, message }]);
}
