// What an operation reads at much cost, in a slot of its caller.
import { ownerOf } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";

/** Reads all nodes of a project. */
export function inFleetSlot<T>({ services, actor }: Ctx, read: () => Promise<T>): Promise<T> {
  return services.fleetReads.run(ownerOf(actor), read);
}

/** Reads off the main thread. What it returns is durable. */
export async function inThreadSlot<T>({ services, actor }: Ctx, read: () => Promise<T>): Promise<T> {
  const found = await services.threadReads.run(ownerOf(actor), read);
  await services.store.durable();
  return found;
}
