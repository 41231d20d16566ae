// Short versions of the campaigns that run in this process, by default on one database. The limiter, idempotency and feed have theirs beside their
// other tests (test/ratelimit/oracle.test.ts, test/domain/idempotency/model.test.ts,
// test/domain/policy/convergence.test.ts).
import { describe, expect, it } from "vitest";
import { clock } from "../../prove/clock.ts";
import { fuzz } from "../../prove/fuzz.ts";
import { races } from "../../prove/races.ts";
import { tamper } from "../../prove/tamper.ts";
import { databasesOf, shortRun } from "./short.ts";

for (const back of databasesOf("postgres")) {
  describe(`on ${back}`, () => {
    // On SQLite it is in verify.test.ts.
    it.runIf(back === "postgres")("every change to the audit log is detected", async () => {
      const { figures } = await shortRun(tamper, back, 30);
      expect(figures.found).toBeGreaterThan(20);
      expect(figures["found only by the checkpoint"]).toBeGreaterThan(1);
    });

    it("two conflicting requests at once have the effect of some sequential order", async () => {
      const { figures } = await shortRun(races, back, 1);
      expect(figures.requests).toBeGreaterThan(20);
    });

    it("every response is one the OpenAPI document describes", async () => {
      const { figures } = await shortRun(fuzz, back, 80);
      expect(figures["answered 2xx"]).toBeGreaterThan(8);
      expect(figures["answered 4xx"]).toBeGreaterThan(12);
      expect(figures["answers over a bare socket"]).toBeGreaterThan(5);
    });

    it("when the wall clock jumps, the log stays in order, expired stays expired, and limits and claims hold", async () => {
      const { figures } = await shortRun(clock, back, 2, 19);
      expect(figures).toMatchObject({ "expiries tried": 2, restarts: 1 }); // a day forward, a day back
    });
  });
}
