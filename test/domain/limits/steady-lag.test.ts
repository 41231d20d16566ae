// The lag of steady time behind a wall clock that was set forward: a later process of the deployment begins with it.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedServices } from "../../../harness/instances/test-services.ts";
import { createClock } from "../../../src/domain/core/clock.ts";
import { loadSteadyLag, saveSteadyLag } from "../../../src/domain/limits/steady-lag.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

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
  });
}
