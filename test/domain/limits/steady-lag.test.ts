// The lag of steady time behind a wall clock that was set forward: a later process of the deployment begins with it.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedServices, START } from "../../../harness/instances/test-services.ts";
import { createClock } from "../../../src/domain/core/clock.ts";
import { loadSteadyLag, saveSteadyLag } from "../../../src/domain/limits/steady-lag.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`the lag of steady time on ${backend}`, () => {
    const fixture = sharedServices(backend);

    it("is kept for the next process, where the deployment has only one", async () => {
      const { clock, services } = fixture();
      clock.jump(HOUR_MS);
      await saveSteadyLag(services);
      const next = createClock({ wall: () => clock.now(), monotonic: () => 0 });
      await loadSteadyLag({ ...services, clock: next });
      expect(next.now() - next.steady()).toBe(backend === "sqlite" ? HOUR_MS : 0);
      clock.jump(-HOUR_MS);
      await saveSteadyLag(services);
      const last = createClock({ wall: () => clock.now(), monotonic: () => 0 });
      await loadSteadyLag({ ...services, clock: last });
      expect(last.steady()).toBe(last.now());
    });

    it("ends with the error of the wall clock: steady time only continues", async () => {
      const { clock, services } = fixture();
      clock.set(START);
      clock.jump(365 * DAY_MS);
      await saveSteadyLag(services);
      const lagAt = async (wall: number): Promise<number> => {
        const next = createClock({ wall: () => wall, monotonic: () => 0 });
        await loadSteadyLag({ ...services, clock: next });
        return next.now() - next.steady();
      };
      const onSqlite = (lag: number): number => (backend === "sqlite" ? lag : 0);
      expect(await lagAt(START - HOUR_MS)).toBe(0); // set back too far
      expect(await lagAt(START)).toBe(0);
      expect(await lagAt(START + HOUR_MS)).toBe(onSqlite(HOUR_MS));
      expect(await lagAt(START + 400 * DAY_MS)).toBe(onSqlite(365 * DAY_MS));
    });
  });
}
