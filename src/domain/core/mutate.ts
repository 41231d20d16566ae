// The one write path of the control plane: `mutate` locks the audit heads, checks that the credential has not ended,
// runs the callback, appends its audit rows, raises policy versions and commits. A callback returns at least one event,
// or `unchanged(value)`, which rolls back.
import { fail, Failure } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/audit/canonical.ts";
import { NIL_WORKSPACE } from "../../kernel/audit/chain.ts";
import { isUniqueError, uniqueTarget } from "../../store/engine/driver.ts";
import type { JobResult } from "../../store/engine/job.ts";
import type { AuditEntry } from "../../store/engine/audit-ledger.ts";
import type { Tx } from "../../store/engine/tx.ts";
import { actorColumns, ownerOf, type Actor } from "./actor.ts";
import type { Ctx } from "./context.ts";
import { actions, isDeploymentAction, type Event } from "./events.ts";
import { record } from "./record.ts";
import { findReplay, storeReplay } from "../idempotency/replays.ts";

type Changed<T> = { value: T; events: readonly [Event, ...Event[]] };
type Unchanged<T> = { value: T; events: null };
type MutationResult<T> = Changed<T> | Unchanged<T>;

/** The callback changed nothing: no audit row, no policy version, and its writes are rolled back. */
export function unchanged<T>(value: T): Unchanged<T> {
  return { value, events: null };
}

type MutationScope = {
  /** The workspace whose audit chain records the events; null when only the deployment's chain does. */
  workspace_id: string | null;
  /** True when the events include deployment actions beside those of the workspace. */
  deployment?: boolean;
  /** May share a batch with jobs of its kind: it reads nothing that they write. */
  batch?: boolean;
  /** Names of what it counts that mutations of other workspaces count too (Job.locks). */
  locks?: readonly string[];
  /** Its cost in ordinary changes: bounds how many large changes share a commit, which others wait for. */
  weight?: number;
  /** Its response is stored for its idempotency key although other requests of the endpoint may go without. */
  mustStoreResponse?: boolean;
  /** The failure that a violated unique index means to the caller; undefined for an internal error. */
  onConflict?: (target: string) => Failure | undefined;
};

export async function mutate<T>(
  ctx: Ctx,
  scope: MutationScope,
  work: (tx: Tx) => Promise<MutationResult<T>>,
): Promise<T> {
  const { services, replay } = ctx;
  const owner = ownerOf(ctx.actor);
  const isOptional = replay?.isOptional && !scope.mustStoreResponse;
  const isStored = replay && (!isOptional || services.writtenBytes.hasRoom(owner));
  const chains = [scope.workspace_id, scope.deployment || scope.workspace_id === null ? NIL_WORKSPACE : null];
  let done: MutationResult<T> | undefined;
  const job = {
    chains: chains.filter((id) => id !== null),
    locks: scope.locks,
    batch: scope.batch ?? false,
    owner,
    weight: scope.weight,
    work: async (tx: Tx): Promise<JobResult<T>> => {
      await ctx.recheck?.(tx); // under the lock that also ends credentials (docs/design/0018-ended-credentials.md)
      const found = replay && (await findReplay(tx, replay, services.clock.now()));
      if (found) return { value: found.value as T, entries: [], unchanged: true };
      if (ctx.actor.kind === "secret_key" && ctx.actor.hasExpired) throw fail("invalid_key");
      done = await work(tx);
      if (!done.events) return { value: done.value, entries: [], unchanged: true };
      if (isStored) await storeReplay(tx, replay, done.value, services.clock.now());
      return { value: done.value, entries: done.events.map((event) => toEntry(ctx, scope, event)) };
    },
  };
  try {
    const value = await services.store.write(job);
    for (const { action } of done?.events ?? []) services.counts.mutations[action]++;
    if (isStored && !replay.replayed && done && !done.events)
      await record(services, (tx) => storeReplay(tx, replay, value, services.clock.now()), { owner });
    return value;
  } catch (error) {
    const isUnique = isUniqueError(error);
    // Another process may just have carried out this request: its response is committed with the row that conflicts.
    if (replay && (isUnique || (error instanceof Failure && error.status === 409))) {
      const found = await findReplay(services.store.read, replay, services.clock.now());
      if (found) return found.value as T;
    }
    throw (isUnique && scope.onConflict?.(uniqueTarget(error))) || error;
  }
}

function toEntry(ctx: Ctx, scope: MutationScope, event: Event): AuditEntry {
  const workspace_id = isDeploymentAction(event.action) ? NIL_WORKSPACE : scope.workspace_id;
  if (workspace_id === null) throw new Error(`${event.action} needs a workspace`);
  const { actor } = ctx;
  return {
    workspace_id,
    id: ctx.services.newId(),
    ...actorColumns(actor),
    action: event.action,
    target_type: actions[event.action],
    target_id: event.target_id,
    payload: { ...(event.payload as object), ...traceOf(actor) },
  };
}

/** What an audit row records about its actor besides the id. */
function traceOf(actor: Actor): { [name: string]: Json } {
  if (actor.kind === "embed_token") return { jti: actor.jti, epoch: actor.epoch };
  return actor.kind === "api_key" ? { by: "holder" } : {};
}
