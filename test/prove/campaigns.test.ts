// Short versions of the campaigns that run in this process, by default on one database. The audit log has its own in
// verify.test.ts; the limiter, idempotency and feed beside their other tests (test/ratelimit/oracle.test.ts, test/domain/idempotency/model.test.ts,
// test/domain/policy/convergence.test.ts).
import { describe, expect, it } from "vitest";
import { clock } from "../../prove/clock.ts";
import { fuzz } from "../../prove/fuzz.ts";
import { races } from "../../prove/races.ts";
import { databasesOf, shortRun } from "./short.ts";

for (const backend of databasesOf("postgres")) {
  describe(`on ${backend}`, () => {
    it("two conflicting requests at once have the effect of some sequential order", async () => {
      const { figures } = await shortRun(races, backend, 1);
      expect(figures.requests).toBeGreaterThan(20);
    });

    it("every response is one the OpenAPI document describes", async () => {
      const { figures } = await shortRun(fuzz, backend, 80);
      expect(figures["2xx responses"]).toBeGreaterThan(8);
      expect(figures["4xx responses"]).toBeGreaterThan(12);
      expect(figures["responses over a raw socket"]).toBeGreaterThan(5);
    });

    it("when the wall clock jumps, the log stays in order, expired stays expired, and limits and claims hold", async () => {
      const { figures } = await shortRun(clock, backend, 2, 19);
      expect(figures).toMatchObject({ "expiries tried": 2, restarts: 1 }); // a day forward, a day back
    });
  });
}
