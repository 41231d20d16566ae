// What an operation reads at much cost, in a slot of its caller. Where it had to wait, its credential must still be valid.
import { ownerOf } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";

/** Reads all nodes of a project. */
export function inFleetSlot<T>(ctx: Ctx, read: () => Promise<T>): Promise<T> {
  return ctx.services.fleetReads.run(ownerOf(ctx.actor), read, async () => ctx.requireStillValid?.());
}

/** Reads off the main thread. What it returns is durable. */
export async function inThreadSlot<T>(ctx: Ctx, read: () => Promise<T>): Promise<T> {
  const { threadReads, store } = ctx.services;
  const found = await threadReads.run(ownerOf(ctx.actor), read, async () => ctx.requireStillValid?.());
  await store.durable();
  return found;
}
