// How far the steady time is behind the wall clock after that was set forward, kept across restarts: leases and windows
// are stored in steady time, and a process that began at the wall clock would end them. Once the wall clock is right
// again the lag is at most the time since it was saved: otherwise leases would last, and expired records stay, for as
// long as the clock had been ahead. On PostgreSQL claims follow the database's clock, and each process has a lag of
// its own.
import { SECOND_MS } from "../../kernel/durations.ts";
import { getJsonFact, setFact } from "../core/facts.ts";
import type { Services } from "../core/context.ts";

type Timed = Pick<Services, "store" | "clock">;

/** The value of the fact `steady_time`. `steady_at`: the steady time when it was saved. */
type SteadyLag = { lag_ms: number; steady_at: number };

const storedLag = ({ store }: Timed): Promise<SteadyLag | null> => getJsonFact(store.read, "steady_time");

/** Call once, before the first lease or window. Steady time continues, but not behind where it was. */
export async function loadSteadyLag(services: Timed): Promise<void> {
  const { store, clock } = services;
  const stored = store.target.kind === "sqlite" ? await storedLag(services) : null;
  if (stored) clock.setBack(Math.max(0, Math.min(stored.lag_ms, clock.now() - stored.steady_at)));
}

export async function saveSteadyLag(services: Timed): Promise<void> {
  const { store, clock } = services;
  if (store.target.kind !== "sqlite") return;
  const steady_at = clock.steady();
  const lag_ms = clock.now() - steady_at;
  if (Math.abs(lag_ms - ((await storedLag(services))?.lag_ms ?? 0)) < SECOND_MS) return;
  await setFact(services, "steady_time", JSON.stringify({ lag_ms, steady_at } satisfies SteadyLag));
}
