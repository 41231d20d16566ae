// Runs expensive reads in a slot of the caller. The credential must still be valid after a wait and after the read.
// Each read starts in its own turn of the event loop, so that queued reads do not run back to back.
import { Failure } from "../../kernel/errors.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { Owner } from "../../fairness/owners.ts";
import { guestOf } from "../../fairness/slots.ts";
import { ownerOf, type Actor } from "./actor.ts";
import type { Ctx } from "./context.ts";
import type { Query, Reader } from "../../store/engine/tx.ts";
import type { Store } from "../../store/store.ts";

/** Reads all nodes, or all keys, of a project. */
export async function inFleetSlot<T>(ctx: Ctx, read: () => Promise<T>): Promise<T> {
  const found = await ctx.services.readSlots.fleet.run(slotOwner(ctx.actor), read, async () => {
    await yieldToEventLoop();
    await ctx.requireStillValid?.();
  });
  await ctx.requireStillValid?.();
  return found;
}

/**
 * The same for the response to a change that is committed, which is sent in any case: undefined if there is no slot.
 */
export async function inFleetSlotIfAny<T>({ services, actor }: Ctx, read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await services.readSlots.fleet.run(slotOwner(actor), read, yieldToEventLoop);
  } catch (error) {
    if (error instanceof Failure && error.failure === "share_full") return undefined;
    throw error;
  }
}

/** A customer, in a browser or with an API key, must not use up the slots of the vendor or of other customers. */
export function slotOwner(actor: Actor): Owner {
  const owner = ownerOf(actor);
  return actor.kind === "embed_token" || actor.kind === "api_key" ? guestOf(owner, actor.tenant_id) : owner;
}

/** Reads off the main thread. What it returns is durable. */
export async function inThreadSlot<T>(ctx: Ctx, read: () => Promise<T>): Promise<T> {
  const { readSlots, store } = ctx.services;
  const found = await readSlots.threads.run(slotOwner(ctx.actor), read, async () => ctx.requireStillValid?.());
  await store.durable();
  await ctx.requireStillValid?.();
  return found;
}

/** Reads off the main thread: what a request causes inside `inThreadSlot`, jobs without. */
export function threadReader(store: Store): Reader {
  const all: Reader["all"] = (query) => store.readOnThread(query);
  const first: Reader["first"] = async <R>(query: Query) => (await store.readOnThread<R>(query))[0];
  return { dialect: store.dialect, all, first, firstMemoized: first };
}
