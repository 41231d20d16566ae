// The guarantees of a check, the same for both counter stores (docs/design/0005-rate-limiter-algorithm.md).
import { describe, expect, it } from "vitest";
import { ask, fixed, sliding, stores } from "../../harness/ratelimit/counters.ts";
import { handClock } from "../../harness/ratelimit/scenarios.ts";
import { START } from "../../harness/ratelimit/traffic.ts";

for (const { name, make } of stores()) {
  describe(`a check on ${name}`, () => {
    it("admits exactly the limit, and reports what remains", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rule = sliding(3, 60_000);
      expect(await counter.check(ask([rule]))).toEqual({
        allowed: true,
        limited_policy: null,
        retry_after_seconds: null,
        store: name,
        policies: [{ id: "rule", limit: 3, window_ms: 60_000, remaining: 2, reset_ms: expect.any(Number) }],
      });
      await counter.check(ask([rule]));
      expect((await counter.check(ask([rule]))).policies[0]!.remaining).toBe(0);
      const denied = await counter.check(ask([rule]));
      expect(denied).toMatchObject({ allowed: false, limited_policy: "rule", policies: [{ remaining: 0 }] });
    });

    it("frees units exactly when reset_ms said, and admits exactly when the wait is over", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rule = sliding(10, 60_000);
      await counter.check(ask([rule], { cost: 4 }));
      clock.pass(7_777);
      const second = await counter.check(ask([rule], { cost: 5 }));
      const { reset_ms } = second.policies[0]!;
      clock.pass(reset_ms - 1);
      expect((await counter.check(ask([rule], { cost: 0 }))).policies[0]!.remaining).toBe(1);
      clock.pass(1);
      expect((await counter.check(ask([rule], { cost: 0 }))).policies[0]!.remaining).toBe(5);
    });

    it("returns a retry time that is admitted, and denies a second earlier", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rule = sliding(10, 60_000);
      for (let i = 0; i < 5; i++) {
        await counter.check(ask([rule], { cost: 2 }));
        clock.pass(3_100);
      }
      const denied = await counter.check(ask([rule], { cost: 5 }));
      expect(denied.allowed).toBe(false);
      const retry = denied.retry_after_seconds!;
      clock.pass((retry - 1) * 1_000);
      expect((await counter.check(ask([rule], { cost: 5 }))).allowed).toBe(false);
      clock.pass(1_000);
      expect((await counter.check(ask([rule], { cost: 5 }))).allowed).toBe(true);
    });

    it("with cost 0 charges nothing and reports whether 1 would be admitted", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rule = sliding(1, 60_000);
      for (let i = 0; i < 3; i++) {
        const peek = await counter.check(ask([rule], { cost: 0 }));
        expect(peek).toMatchObject({ allowed: true, policies: [{ remaining: 1, reset_ms: 0 }] });
      }
      await counter.check(ask([rule]));
      const peek = await counter.check(ask([rule], { cost: 0 }));
      expect(peek).toMatchObject({ allowed: false, limited_policy: "rule" });
      expect(peek.retry_after_seconds).toBeGreaterThanOrEqual(60);
    });

    it("charges every rule or none", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const wide = sliding(100, 60_000, { id: "wide" });
      const tight = fixed(1, 60_000, { id: "tight", scope: "tenant" });
      await counter.check(ask([wide, tight]));
      for (let i = 0; i < 5; i++) expect((await counter.check(ask([wide, tight]))).limited_policy).toBe("tight");
      expect((await counter.check(ask([wide], { cost: 0 }))).policies[0]!.remaining).toBe(99);
    });

    it("names the violated rule with the longest wait, the first of equals", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const short = sliding(1, 1_000, { id: "short" });
      const long = sliding(1, 60_000, { id: "long" });
      const alike = sliding(1, 60_000, { id: "alike" });
      await counter.check(ask([short, long, alike]));
      expect((await counter.check(ask([short, long, alike]))).limited_policy).toBe("long");
      expect((await counter.check(ask([short, alike, long]))).limited_policy).toBe("alike");
    });

    it("has no retry time for a cost over the limit", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rules = [sliding(1, 2_678_400_000, { id: "month" }), sliding(5, 1_000, { id: "second" })];
      await counter.check(ask(rules));
      const denied = await counter.check(ask(rules, { cost: 6 }));
      expect(denied).toMatchObject({ allowed: false, limited_policy: "month", retry_after_seconds: null });
      expect(await counter.check(ask([rules[1]!], { cost: 6 }))).toMatchObject({ retry_after_seconds: null });
      expect((await counter.check(ask([rules[1]!], { cost: 0 }))).policies[0]!.remaining).toBe(4);
    });

    it("resets a fixed window at its end and counts nothing across it", async () => {
      const clock = handClock(Math.ceil(START / 60_000) * 60_000 - 1);
      const counter = await make(clock.now);
      const rule = fixed(2, 60_000);
      const last = await counter.check(ask([rule], { cost: 2 }));
      expect(last.policies[0]).toMatchObject({ remaining: 0, reset_ms: 1 });
      expect(await counter.check(ask([rule]))).toMatchObject({ allowed: false, retry_after_seconds: 1 });
      clock.pass(1);
      expect((await counter.check(ask([rule]))).policies[0]).toMatchObject({ remaining: 1, reset_ms: 60_000 });
    });

    it("gives as many subjects as the bound a counter each in every window, and the others one together", async () => {
      const clock = handClock();
      for (const rule of [fixed(3, 1_000), sliding(3, 1_000)]) {
        const counter = await make(clock.now, 5);
        const left = async (key_id: string) => (await counter.check(ask([rule], { key_id }))).policies[0]!.remaining;
        for (let round = 0; round < 20; round++) {
          clock.pass(2_000);
          expect(await Promise.all(["a", "b", "c", "d", "e"].map(left)), `round ${round}`).toEqual([2, 2, 2, 2, 2]);
        }
        expect([await left("f"), await left("g"), await left("h")]).toEqual([2, 1, 0]);
        expect((await counter.check(ask([rule], { key_id: "i" }))).allowed).toBe(false);
        expect(await left("a")).toBe(1);
      }
    });

    it("counts calls without an id together, and apart from all others", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rule = sliding(2, 60_000);
      await counter.check(ask([rule], { key_id: null, tenant_id: "a" }));
      await counter.check(ask([rule], { key_id: null, tenant_id: "b" }));
      expect((await counter.check(ask([rule], { key_id: null }))).allowed).toBe(false);
      expect((await counter.check(ask([rule], { key_id: "k1" }))).allowed).toBe(true);
    });

    it("keeps every part of the counter key apart, and the limit out of it", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rule = sliding(1, 60_000);
      expect((await counter.check(ask([rule]))).allowed).toBe(true);
      const others = [
        ask([rule], { workspace_id: "w2" }),
        ask([rule], { project_id: "p2" }),
        ask([rule], { env: "test" }),
        ask([rule], { key_id: "k2" }),
        ask([{ ...rule, scope: "tenant" }]),
        ask([{ ...rule, id: "other" }]),
        ask([{ ...rule, algorithm: "fixed" }]),
        ask([{ ...rule, window_ms: 60_001 }]),
      ];
      for (const other of others) {
        await counter.check(ask([rule], { cost: 0 })); // right behind the one it resembles
        expect((await counter.check(other)).allowed).toBe(true);
      }
      expect((await counter.check(ask([{ ...rule, limit: 2 }]))).policies[0]!.remaining).toBe(0);
      expect((await counter.check(ask([rule]))).policies[0]!.remaining).toBe(0);
    });

    it("keeps rules of one id apart in every mix of environment, scope and algorithm", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const mixes = (["live", "test"] as const).flatMap((env) =>
        (["key", "tenant"] as const).flatMap((scope) =>
          (["sliding", "fixed"] as const).map((algorithm) => ({ env, scope, algorithm })),
        ),
      );
      for (const left of [1, 0]) {
        for (const { env, scope, algorithm } of mixes) {
          const rule = { ...sliding(2, 60_000), scope, algorithm };
          const { policies } = await counter.check(ask([rule], { env, key_id: "same", tenant_id: "same" }));
          expect(policies[0]!.remaining, `${env} ${scope} ${algorithm}`).toBe(left);
        }
      }
    });

    it("counts a billion as exactly as one", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rule = sliding(1_000_000_000, 2_678_400_000);
      await counter.lease({ ...ask([rule]), want: 1_000_000_000 - 1_001 });
      expect((await counter.check(ask([rule], { cost: 1_000 }))).policies[0]!.remaining).toBe(1);
      expect((await counter.check(ask([rule], { cost: 2 }))).allowed).toBe(false);
      expect((await counter.check(ask([rule]))).policies[0]!.remaining).toBe(0);
    });
  });
}
