// The capabilities that a key requires of nodes, and the warnings about live nodes that lack them.
import type { Env } from "../../kernel/credentials.ts";
import { OWN_PREFIX } from "../../kernel/key-prefixes.ts";
import { CAP, missingFrom, NO_CAPS } from "../../kernel/policy/capabilities.ts";
import type { PolicyNodeRow } from "../../store/schema/tables.ts";
import { liveNodesAfter } from "../../store/queries/nodes.ts";
import { addressRuleOf, type StoredList } from "../keys/address-rules.ts";
import { ownerOf } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { liveSince } from "./presence.ts";
import { inFleetSlotIfAny } from "../core/read-slots.ts";
import { meterOf } from "../quotas/stored.ts";
import { holdsKeysOf, type NodesByCaps } from "./traits.ts";
import { walkNodes } from "./walk.ts";
import { withWarnings, type Warned } from "../core/warnings.ts";

/** Capabilities without which a key is withheld. `disabled` is none: without it, a disabled key is removed. */
export const NEEDED = CAP.cidr | CAP.formats | CAP.quotas;

/** Capabilities that keys with this display prefix need. */
export function needsOfPrefix(display_prefix: string): number {
  return display_prefix.startsWith(`${OWN_PREFIX}_`) ? NO_CAPS : CAP.formats;
}

/** A quota that only reports goes uncounted on nodes that do not charge it. */
export function needsOfQuotas(stored: string | null | undefined): number {
  return meterOf(stored) === "deny" ? CAP.quotas : NO_CAPS;
}

/** Capabilities that keys with this address list need, or with their tenant's if they have none. */
export function needsOfList(key: StoredList, tenant: StoredList): number {
  return addressRuleOf(key, tenant)?.mode === "enforce" ? CAP.cidr : NO_CAPS;
}

/** A record with its quotas as stored. */
type Metered = { quotas: string | null };
type Served = StoredList & Metered & { display_prefix: string; revoked_at: unknown; disabled_at: unknown };
type ServedTenant = StoredList & Metered & { suspended_at: unknown };

/** What nodes need to get a key as it is now: nothing if it is removed from them. */
export function needsToServe(key: Served, tenant: ServedTenant, plan: Metered | null): number {
  if (key.revoked_at !== null || key.disabled_at !== null || tenant.suspended_at !== null) return NO_CAPS;
  const metered = needsOfQuotas(key.quotas) | needsOfQuotas(tenant.quotas ?? plan?.quotas);
  return needsOfPrefix(key.display_prefix) | needsOfList(key, tenant) | metered;
}

/**
 * The live nodes of a project that hold keys of an environment, or of either if it is null. `since`: the time after
 * which a node counts as live, if the caller knows it.
 */
export async function nodesHolding(
  { services }: Ctx,
  { project_id, env }: { project_id: string; env: Env | null },
  since?: number,
): Promise<PolicyNodeRow[]> {
  const { store } = services;
  const seenAfter = since ?? (await liveSince(services));
  const holding: PolicyNodeRow[] = [];
  const pieces = walkNodes((after) => liveNodesAfter.all(store.read, { project_id, seenAfter, ...after }));
  for await (const piece of pieces) for (const row of piece) if (holdsKeysOf(env, row.env_scope)) holding.push(row);
  return holding;
}

function countByCaps(nodes: readonly PolicyNodeRow[]): NodesByCaps {
  const counts = new Map<string, number>();
  for (const { caps } of nodes) counts.set(caps, (counts.get(caps) ?? 0) + 1);
  return counts;
}

function countWhere(nodes: NodesByCaps, isCounted: (caps: string) => boolean): number {
  let sum = 0;
  for (const [caps, count] of nodes) if (isCounted(caps)) sum += count;
  return sum;
}

const countLackingIn = (nodes: NodesByCaps, needs: number): number =>
  countWhere(nodes, (caps) => missingFrom(caps, needs).length > 0);

/** How many of the nodes lack a needed capability. */
export function countLacking(nodes: readonly PolicyNodeRow[], needs: number): number {
  return countLackingIn(countByCaps(nodes), needs);
}

/** The fields that cause a need. */
const PATHS = [
  [CAP.cidr, "allowed_cidrs"],
  [CAP.formats, "key_prefix"],
  [CAP.quotas, "quotas"],
] as const;

type PlacedKey = { project_id: string; env: Env | null };

const UNREAD = "the live nodes could not be read in time: those that cannot enforce this do not get the keys";

async function nodesOfAll(ctx: Ctx, keys: readonly PlacedKey[]): Promise<NodesByCaps> {
  const nodes: PolicyNodeRow[] = [];
  for (const key of keys) for (const node of await nodesHolding(ctx, key)) nodes.push(node);
  return countByCaps(nodes);
}

/** Undefined if there was no slot to read them. */
type ReadNodes = NodesByCaps | undefined;

/**
 * Counts the live nodes that hold keys like this one. Keys that are created at the same time share a read, which runs
 * while they are being committed. bench: rules/mint
 */
export function startReadingNodes(ctx: Ctx, { project_id, env }: PlacedKey): Promise<ReadNodes> {
  const sharers = `${ownerOf(ctx.actor).id}/${project_id}/${env}`;
  const reading = ctx.services.sharedNodes.join(sharers, (started) =>
    inFleetSlotIfAny(ctx, () => {
      started();
      return nodesOfAll(ctx, [{ project_id, env }]);
    }),
  );
  reading.catch(() => {}); // reported only if the key is created
  return reading;
}

/** Adds `warnings` to a response where live nodes do not get the key it is about. */
export async function withNodeWarnings<T extends PlacedKey>(
  ctx: Ctx,
  shown: Warned<T>,
  needs: number,
  reading?: Promise<ReadNodes>,
): Promise<Warned<T>> {
  if (needs === NO_CAPS) return shown;
  return warned(shown, await (reading ?? startReadingNodes(ctx, shown)), needs);
}

/** Like `withNodeWarnings`, for a record whose keys are in several projects. */
export async function warnOfNodes<T extends object>(
  ctx: Ctx,
  shown: Warned<T>,
  keys: readonly PlacedKey[],
  needs: number,
): Promise<Warned<T>> {
  if (needs === NO_CAPS) return shown;
  return warned(shown, await inFleetSlotIfAny(ctx, () => nodesOfAll(ctx, keys)), needs);
}

function warned<T extends object>(shown: Warned<T>, nodes: ReadNodes, needs: number): Warned<T> {
  const total = nodes && countWhere(nodes, () => true);
  const warnings = PATHS.flatMap(([need, path]) => {
    if (!nodes) return (needs & need) === NO_CAPS ? [] : [{ path, message: UNREAD }];
    const lacking = countLackingIn(nodes, needs & need);
    const message = `${lacking} of ${total} live nodes cannot enforce this and do not get the keys: update their library`;
    return lacking === 0 ? [] : [{ path, message }];
  });
  return withWarnings(shown, [...(shown.warnings ?? []), ...warnings]);
}
