// Waiting in tests: for a condition, never for a time. Deadlines bound what hangs and never decide a passing test, so
// they are at least twenty times what the slowest wait takes on an idle machine.
import { setTimeout as sleep } from "node:timers/promises";

/** Of one wait inside a test. `expect.poll` has the same (vitest.config.ts). */
export const DEADLINE_MS = 60_000;
/** Of one test or hook; longer, so that a wait that fails reports what it waited for. */
export const TEST_DEADLINE_MS = 300_000;
export const POLL_MS = 5;

/** Resolves once `done` holds. Prefer an event if there is one. */
export async function until(done: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + DEADLINE_MS;
  while (!(await done())) {
    if (performance.now() > end) throw new Error(`not true within ${DEADLINE_MS} ms: ${String(done)}`);
    await sleep(POLL_MS);
  }
}

/** A pause between the requests of a load generator. Nothing may depend on its length. */
export const pace = (): Promise<void> => sleep(POLL_MS);

/** Resolves after some turns of the event loop: this process has read whatever was written to its sockets before. */
export async function turns(count = 1): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
