// How far the steady time is behind the wall clock after that was set forward, kept across restarts: leases and windows
// are stored in steady time, and a process that began at the wall clock would end them. On PostgreSQL claims follow the
// database's clock, and each process has a lag of its own.
import { SECOND_MS } from "../../kernel/durations.ts";
import { getFact, setFact } from "../core/facts.ts";
import type { Services } from "../core/context.ts";

type Timed = Pick<Services, "store" | "clock">;

async function storedLag({ store }: Timed): Promise<number> {
  return Number((await getFact(store.read, "steady_lag")) ?? 0);
}

/** Call once, before the first lease or window. */
export async function loadSteadyLag(services: Timed): Promise<void> {
  if (services.store.target.kind === "sqlite") services.clock.setBack(await storedLag(services));
}

export async function saveSteadyLag(services: Timed): Promise<void> {
  if (services.store.target.kind !== "sqlite") return;
  const lag = services.clock.now() - services.clock.steady();
  if (Math.abs(lag - (await storedLag(services))) < SECOND_MS) return;
  await setFact(services, "steady_lag", String(lag));
}
