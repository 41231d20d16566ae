// Backups and restore tests take minutes on a large database, and a stopping instance does not wait for them: what was
// being made is dropped, and the next start makes it anew.
import type { Tell } from "../store/offline/inspect.ts";
import type { Rack } from "../domain/core/context.ts";

const controllers = new WeakMap<Rack, AbortController>();

function controllerOf(rack: Rack): AbortController {
  const controller = controllers.get(rack) ?? new AbortController();
  controllers.set(rack, controller);
  return controller;
}

/** The same listener, carrying the word to stop. */
export function stoppable(rack: Rack, tell: Tell): Tell {
  return Object.assign((...told: Parameters<Tell>) => tell(...told), { signal: controllerOf(rack).signal });
}

/** Ends what is being made; nothing new begins. */
export function stopBackups(rack: Rack): void {
  controllerOf(rack).abort(new Error("the instance is stopping"));
}
