// Backups and restore tests take minutes on a large database, and a stopping instance does not wait for them: what was
// being made is dropped, and the next start makes it anew.
import type { OnProgress } from "../store/progress.ts";
import type { Services } from "../domain/core/context.ts";

const controllers = new WeakMap<Services, AbortController>();

function controllerOf(services: Services): AbortController {
  const controller = controllers.get(services) ?? new AbortController();
  controllers.set(services, controller);
  return controller;
}

/** The same listener, carrying the word to stop. */
export function stoppable(services: Services, tell: OnProgress): OnProgress {
  return Object.assign((...told: Parameters<OnProgress>) => tell(...told), { signal: controllerOf(services).signal });
}

/** Ends what is being made; nothing new begins. */
export function stopBackups(services: Services): void {
  controllerOf(services).abort(new Error("the instance is stopping"));
}
