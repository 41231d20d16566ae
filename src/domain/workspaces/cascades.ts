// Revokes the keys of a deleted project or tenant. A few keys are revoked in the transaction of the deletion. Many
// would hold every other writer for its length: then they are counted before, that transaction corrects their number by
// what has changed since and only stores that they are revoked, which every reader respects from that commit on, and a
// job marks the rows in pieces. Nodes take a new snapshot.
import { setTimeout as sleep } from "node:timers/promises";
import { NO_CAPS } from "../../kernel/policy/capabilities.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import {
  countWorkingKeys,
  dropCascade,
  growthSince,
  insertCascade,
  oldestCascade,
  projectsWithKeysOf,
  revokeWorkingKeys,
  sizesOfWorkingKeys,
  tenantDeletedSince,
  touchKeysOf,
  type KeyCount,
  type KeyScope,
  type Revocation,
} from "../../store/queries/cascades.ts";
import { runningCascade } from "../../store/queries/key-search.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import type { CascadeRow } from "../../store/schema/tables.ts";
import { Failure } from "../../kernel/errors.ts";
import { MIB } from "../../kernel/sizes.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { inThreadSlot, threadReader } from "../core/read-slots.ts";
import { versionGate } from "../core/version-gate.ts";

/** Keys and bytes that the commit of a deletion revokes itself. */
const PIECE_KEYS = 500;
const PIECE_BYTES = MIB;
/** Keys that a commit of the job marks. Other writes wait: 500 keys took 10 ms, and several megabytes to sync. */
const MARKED_KEYS = 100;

/** A piece that waited for others took longer than it held the writer. */
const PAUSE_MAX_MS = 1_000;

/** Keys per statement: a tenant may have more than can be revoked within PostgreSQL's statement_timeout. */
const STATEMENT_KEYS = 5_000;

const REASONS = { project_deleted: "project deleted", tenant_deleted: "tenant deleted" } as const;

type Deleted = Pick<CascadeRow, "id" | "workspace_id" | "cause">;

/** Keys by project, as counted before a transaction. */
type KeyCounts = ReadonlyMap<string, KeyCount>;

/**
 * `mayDefer`: whether every process on the database knows of deferred revocations. `counted`: the keys, if they are
 * many. `isFinal`: whether the transaction has to do with this count, however much it reads to correct it.
 */
type DeletionPlan = { readonly mayDefer: boolean; readonly counted: KeyCounts | null; readonly isFinal: boolean };

/** How often keys are counted for one deletion. */
const COUNTS_MAX = 3;

/** Rolls the transaction of a deletion back: to correct its count there would hold every other writer. */
class CountOutdated extends Error {}

/** Plans a deletion and runs its transaction; again with a new count if tenants were deleted meanwhile. */
export async function withDeletionPlan<T>(
  ctx: Ctx<Vendor>,
  deleted: Deleted,
  exists: boolean,
  transact: (plan: DeletionPlan) => Promise<T>,
): Promise<T> {
  for (let counts = 1; ; counts++) {
    const plan = await planDeletion(ctx, deleted, exists);
    try {
      return await transact({ ...plan, isFinal: counts === COUNTS_MAX });
    } catch (error) {
      if (!(error instanceof CountOutdated)) throw error;
    }
  }
}

/**
 * Before the transaction of a deletion. While keys of another deletion are being marked, a statement may have to pass
 * over all of them to find others: then it counts as one of many keys.
 */
async function planDeletion(
  ctx: Ctx<Vendor>,
  deleted: Deleted,
  exists: boolean,
): Promise<Omit<DeletionPlan, "isFinal">> {
  const { read } = ctx.services.store;
  const mayDefer = await versionGate.isKnownEverywhere(ctx.services, "deferred revocation");
  if (!mayDefer || !exists) return { mayDefer, counted: null };
  const scopes = await scopesOf(read, deleted, false);
  const isMarking = (await runningCascade.first(read, deleted)) !== undefined;
  return { mayDefer, counted: isMarking ? await countOnThread(ctx, scopes) : await countIfMany(ctx, scopes) };
}

/**
 * Counts keys before a transaction, which itself would hold every other writer. Null where they are few: it counts
 * those.
 */
export async function countIfMany(ctx: Ctx<Vendor>, scopes: readonly KeyScope[]): Promise<KeyCounts | null> {
  const { store, clock } = ctx.services;
  const sizes = await sizesOf(store.read, scopes, clock.now());
  return sizes.length > PIECE_KEYS ? countOnThread(ctx, scopes) : null;
}

/** Off the main thread. Null if no thread is free: ending keys is never refused, so the transaction counts them. */
async function countOnThread(ctx: Ctx<Vendor>, scopes: readonly KeyScope[]): Promise<KeyCounts | null> {
  const count = async (): Promise<KeyCounts> => {
    const counts = new Map<string, KeyCount>();
    for (const scope of scopes) {
      const counted = await countWorkingKeys(threadReader(ctx.services.store), scope);
      if (counted) counts.set(scope.project_id, counted);
    }
    return counts;
  };
  return inThreadSlot(ctx, count).catch((error: unknown) => {
    if (error instanceof Failure && error.failure === "unavailable") return null;
    throw error;
  });
}

/** The number of keys in the transaction. Of those that were counted before, it only reads what has changed since. */
export async function countInTransaction(
  tx: Tx,
  scopes: readonly KeyScope[],
  counted: KeyCounts | null,
): Promise<number> {
  let sum = 0;
  for (const scope of scopes) {
    const before = counted?.get(scope.project_id);
    if (before) sum += before.n + (await growthSince(tx, scope, before.seq));
    else sum += (await countWorkingKeys(tx, scope))?.n ?? 0;
  }
  return sum;
}

type Deletion = Deleted & DeletionPlan & { now: number };

/** Revokes all keys of the project or tenant and raises the version of each project they are in. Returns how many. */
export async function revokeKeysOf(tx: Tx, deletion: Deletion): Promise<number> {
  const { id, workspace_id, cause, now } = deletion;
  if (!deletion.isFinal && (await isOutdated(tx, deletion))) throw new CountOutdated();
  const scopes = await scopesOf(tx, deletion, false);
  const revocation = { cause, reason: REASONS[cause], revoked_at: now };
  const defers = deletion.mayDefer && (deletion.counted !== null || !(await fitsOnePiece(tx, scopes, now)));
  let revoked = 0;
  for (const scope of scopes) {
    const policy_version = await tx.bump(scope.project_id, { forgetDeltas: defers });
    if (!defers) revoked += await revokeAll(tx, scope, { ...revocation, policy_version });
  }
  if (!defers) return revoked;
  const counted = await countInTransaction(tx, scopes, deletion.counted);
  await insertCascade.run(tx, { id, workspace_id, ...revocation });
  return counted;
}

/** Whether keys were counted whose tenants have been deleted since. */
async function isOutdated(tx: Tx, { id, workspace_id, cause, counted }: Deletion): Promise<boolean> {
  const before = cause === "project_deleted" ? counted?.get(id) : undefined;
  if (!before) return false;
  return (await tenantDeletedSince.first(tx, { workspace_id, seq: before.seq })) !== undefined;
}

async function revokeAll(tx: Tx, scope: KeyScope, revocation: Revocation): Promise<number> {
  for (let all = 0; ; ) {
    const some = await revokeWorkingKeys(tx, scope, revocation, STATEMENT_KEYS);
    all += some;
    if (some < STATEMENT_KEYS) return all;
    await yieldToEventLoop(); // let reads run in between
  }
}

async function scopesOf(on: Reader, { id, workspace_id, cause }: Deleted, deleted: boolean): Promise<KeyScope[]> {
  if (cause === "project_deleted") return [{ workspace_id, project_id: id }];
  const projects = await projectsWithKeysOf(on, { workspace_id, tenant_id: id, deleted });
  return projects.map((project_id) => ({ workspace_id, project_id, tenant_id: id }));
}

/** Whether so few keys that one commit may change them all. */
async function fitsOnePiece(tx: Tx, scopes: readonly KeyScope[], now: number): Promise<boolean> {
  const sizes = await sizesOf(tx, scopes, now);
  return sizes.length <= PIECE_KEYS && sizes.reduce((sum, bytes) => sum + bytes, 0) <= PIECE_BYTES;
}

/** Sizes of all keys, or of as many as show that one commit cannot change them all. */
async function sizesOf(on: Reader, scopes: readonly KeyScope[], now: number): Promise<number[]> {
  const sizes: number[] = [];
  for (const scope of scopes) {
    sizes.push(...(await sizesOfWorkingKeys(on, scope, now, PIECE_KEYS + 1)));
    if (sizes.length > PIECE_KEYS) break;
  }
  return sizes;
}

type TenantKeys = { workspace_id: string; tenant_id: string; projects: readonly string[] };

/**
 * Brings a change of a tenant to the nodes of its keys, whose rows stay as they are. Few keys are changes of the
 * version; for many, nodes take a new snapshot.
 */
export async function raiseVersions(tx: Tx, keys: TenantKeys, now: number, uses = NO_CAPS): Promise<void> {
  const { projects, ...tenant } = keys;
  const scopes = projects.map((project_id) => ({ ...tenant, project_id }));
  const forgetDeltas = !(await fitsOnePiece(tx, scopes, now));
  for (const scope of scopes) {
    const version = await tx.bump(scope.project_id, { forgetDeltas, uses });
    if (!forgetDeltas) await touchKeysOf(tx, scope, version, now);
  }
}

/**
 * Scheduled job: marks what deletions have left, oldest deletion first, so that each key keeps its first reason. Pauses
 * as long as each piece took, so that deletions use at most half of the writer.
 */
export async function runCascades(services: Services, pause: (ms: number) => Promise<unknown> = sleep): Promise<void> {
  while (!services.shutdown.signal.aborted) {
    const next = await oldestCascade.first(services.store.read, {});
    if (!next) return;
    const began = performance.now();
    await record(services, (tx) => runPiece(tx, next));
    await pause(Math.min(performance.now() - began, PAUSE_MAX_MS));
  }
}

async function runPiece(tx: Tx, cascade: CascadeRow): Promise<void> {
  const { cause, reason, revoked_at } = cascade;
  for (const scope of await scopesOf(tx, cascade, true)) {
    const sizes = await sizesOfWorkingKeys(tx, scope, revoked_at, MARKED_KEYS);
    if (sizes.length === 0) continue;
    const keys = keysWithin(sizes, PIECE_BYTES);
    await revokeWorkingKeys(tx, scope, { cause, reason, revoked_at, policy_version: null }, keys);
    return;
  }
  await dropCascade.run(tx, { id: cascade.id });
}

/** How many of the first rows fit into `max` bytes; at least one. */
function keysWithin(sizes: readonly number[], max: number): number {
  let sum = 0;
  const over = sizes.findIndex((bytes) => (sum += bytes) > max);
  return over < 0 ? sizes.length : Math.max(1, over);
}
