// Decision.decide(): admits exactly the keys that a policy allows, and names the reason of every refusal.

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Decision } from "../../../src/kernel/policy/policy.ts";
import { judgeKey, keyEntry, loadPolicy, mintKey, NOW, policySnapshot } from "../../../harness/sdk/policy-fixtures.ts";

describe("decide", () => {
  const key = mintKey();
  const other = mintKey("test");
  const policy = loadPolicy(
    policySnapshot([
      keyEntry(key, { scopes: ["a", "b"], expires_at: "2026-11-15T00:00:00.001Z" }),
      keyEntry(other, { env: "test", expires_at: "2026-11-15T00:00:00.000Z" }),
    ]),
  );

  it("admits a known, unexpired key with every required scope", () => {
    const { outcome, into } = judgeKey(policy, key, ["b", "a"]);
    expect(outcome).toBe("valid");
    expect([into.env, into.expiry, [...into.profile.scopes]]).toEqual(["live", NOW + 1, ["a", "b"]]);
  });

  it("refuses everything else, each for its own reason", () => {
    expect(judgeKey(policy, mintKey()).outcome).toBe("unknown");
    expect(judgeKey(policy, other).outcome).toBe("expired");
    expect(judgeKey(policy, key, ["a", "c", "d"]).outcome).toBe("insufficient_scope");
    expect(judgeKey(policy, key, ["a", "c", "d"]).into.missing).toEqual(["c", "d"]);
    expect(judgeKey(policy, key, [], "test").outcome).toBe("other_env");
    expect(judgeKey(policy, `${key.slice(0, -1)}x`).outcome).toBe("malformed");
    expect(judgeKey(null, key).outcome).toBe("no_policy");
    expect(judgeKey(null, "nonsense").outcome).toBe("malformed");
    expect(judgeKey(null, key, [], "test").outcome).toBe("other_env");
  });

  it("finds each scope of a key with many scopes, and no other", () => {
    for (const count of [1, 8, 9, 40]) {
      const scopes = Array.from({ length: count }, (_, i) => `s${i}`);
      const loaded = loadPolicy(policySnapshot([keyEntry(key, { scopes })]));
      expect(judgeKey(loaded, key, scopes).outcome).toBe("valid");
      expect(judgeKey(loaded, key, ["s0", `s${count}`]).into.missing).toEqual([`s${count}`]);
      expect(judgeKey(loaded, key).into.profile.scopes.size).toBe(count);
    }
  });

  it("refuses a key whose row has another environment than its text", () => {
    const contradictory = loadPolicy(policySnapshot([keyEntry(key, { env: "test" })]));
    expect(judgeKey(contradictory, key).outcome).toBe("unknown");
  });

  it("reads every expiry that Keyrack writes to the millisecond: valid before it, expired from it on", () => {
    const edges = ["1970-01-01T00:00:00.000Z", "2026-02-28T23:59:59.999Z", "2028-02-29T12:34:56.789Z"].map(Date.parse);
    const times = fc.oneof(fc.constantFrom(...edges), fc.integer({ min: 0, max: Date.UTC(2199, 0) }));
    fc.assert(
      fc.property(times, (expiry) => {
        const loaded = loadPolicy(policySnapshot([keyEntry(key, { expires_at: new Date(expiry).toISOString() })]));
        const at = (now: number) => {
          const into = new Decision(null, () => now);
          return [into.decide(loaded, loaded.formats, key, 0, []), into.expiry];
        };
        expect(at(expiry - 1)).toEqual(["valid", expiry]);
        expect(at(expiry)[0]).toBe("expired");
      }),
    );
  });

  it("returns immutable scopes", () => {
    const { scopes } = judgeKey(policy, key).into.profile;
    expect(() => (scopes.list as string[]).push("admin")).toThrow(TypeError);
    expect(Object.isFrozen(scopes)).toBe(true);
    expect("add" in scopes).toBe(false);
    expect(JSON.stringify({ scopes })).toBe('{"scopes":["a","b"]}');
  });
});
