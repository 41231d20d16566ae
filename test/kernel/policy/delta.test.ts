// Applying a delta: all of it or nothing, with the same result as a fresh snapshot.

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TENANT } from "../../../src/kernel/policy/key-table.ts";
import { applyDelta, PolicyError } from "../../../src/kernel/policy/loader.ts";
import {
  EXPECTED,
  judgeKey,
  keyEntry,
  keyIdFor,
  keyRemoval,
  keyUpsert,
  loadPolicy,
  mintKey,
  policyDelta,
  policySnapshot,
  PROJECT,
} from "../../../harness/sdk/policy-fixtures.ts";

describe("a delta", () => {
  const [a, b] = [mintKey(), mintKey()];
  const fresh = () => loadPolicy(policySnapshot([keyEntry(a, { scopes: ["x"] })], { version: 7 }));

  it("adds, changes and removes keys, and sets the version", () => {
    const policy = fresh();
    expect(applyDelta(policy, policyDelta(7, 9, [keyUpsert(b), keyUpsert(a, { scopes: ["y"] })]), EXPECTED)).toBe(true);
    expect(judgeKey(policy, a, ["y"]).outcome).toBe("valid");
    expect(judgeKey(policy, a, ["x"]).outcome).toBe("insufficient_scope");
    expect(policy.profiles.size).toBe(2);
    applyDelta(policy, policyDelta(9, 10, [keyRemoval(a)]), EXPECTED);
    expect([judgeKey(policy, a).outcome, judgeKey(policy, b).outcome, policy.version]).toEqual([
      "unknown",
      "valid",
      10,
    ]);
    expect(policy.profiles.size).toBe(1);
  });

  it("sets each key's tenant, and removes a tenant with its last key", () => {
    const [one, two] = [keyIdFor("one"), keyIdFor("two")];
    const policy = fresh();
    const tenantOf = (key: string) => {
      const { row } = judgeKey(policy, key).into;
      return policy.tenants.text(policy.keys.words[row + TENANT] as number);
    };
    applyDelta(
      policy,
      policyDelta(7, 8, [keyUpsert(a, { tenant_id: one }), keyUpsert(b, { tenant_id: two })]),
      EXPECTED,
    );
    expect([tenantOf(a), tenantOf(b), policy.tenants.size]).toEqual([one, two, 2]);
    applyDelta(policy, policyDelta(8, 9, [keyUpsert(a, { tenant_id: two })]), EXPECTED);
    expect([tenantOf(a), tenantOf(b), policy.tenants.size]).toEqual([two, two, 1]);
  });

  it("changes nothing at the same version", () => {
    expect(applyDelta(fresh(), policyDelta(7, 7, []), EXPECTED)).toBe(false);
  });

  it("removes every key when the project is deleted", () => {
    const policy = fresh();
    applyDelta(policy, { ...policyDelta(7, 8, []), project_deleted: true }, EXPECTED);
    expect(judgeKey(policy, a).outcome).toBe("unknown");
  });

  it("removes and changes keys of a policy that has as many as it may", () => {
    const policy = fresh();
    const full = { ...EXPECTED, maxKeys: 1 };
    applyDelta(policy, policyDelta(7, 8, [keyUpsert(a, { scopes: ["y"] })]), full);
    expect(judgeKey(policy, a, ["y"]).outcome).toBe("valid");
    expect(() => applyDelta(policy, policyDelta(8, 9, [keyUpsert(b)]), full)).toThrow("The policy has too many keys.");
    expect([judgeKey(policy, a).outcome, policy.version]).toEqual(["valid", 8]);
    applyDelta(policy, policyDelta(8, 9, [keyRemoval(a)]), full);
    expect([judgeKey(policy, a).outcome, policy.keys.count]).toEqual(["unknown", 0]);
    applyDelta(policy, policyDelta(9, 10, [keyUpsert(b)]), full);
    expect(judgeKey(policy, b).outcome).toBe("valid");
  });

  const bad: [string, unknown][] = [
    ["another since", policyDelta(6, 8, [keyRemoval(a)])],
    ["an older version", policyDelta(7, 6, [keyRemoval(a)])],
    ["changes under the same version", policyDelta(7, 7, [keyRemoval(a)])],
    ["an unknown kind of change", policyDelta(7, 8, [keyRemoval(a), { ...keyUpsert(b), change: "patch" }])],
    ["a bad last change", policyDelta(7, 8, [keyRemoval(a), { ...keyUpsert(b), scopes: null }])],
    ["a removal without hash", policyDelta(7, 8, [keyRemoval(a), { ...keyRemoval(b), lookup_hash: "?" }])],
    ["another workspace", { ...policyDelta(7, 8, [keyRemoval(a)]), workspace_id: PROJECT }],
    ["changes that are not a list", { ...policyDelta(7, 8, []), changes: null }],
    ["the object type of a snapshot", { ...policyDelta(7, 8, [keyRemoval(a)]), object: "policy_snapshot" }],
  ];
  for (const [why, delta] of bad) {
    it(`is rejected with ${why}, and nothing of it is applied`, () => {
      const policy = fresh();
      expect(() => applyDelta(policy, delta, EXPECTED)).toThrow(PolicyError);
      expect([judgeKey(policy, a, ["x"]).outcome, policy.version, policy.keys.count]).toEqual(["valid", 7, 1]);
    });
  }

  it("results in the policy of a fresh snapshot after any sequence", () => {
    const keys = Array.from({ length: 12 }, () => mintKey());
    const change = fc.record({
      key: fc.nat(11),
      scopes: fc.constantFrom<string[]>([], ["a"], ["a", "b"]),
      put: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(fc.array(change, { maxLength: 4 }), { maxLength: 12 }), (rounds) => {
        const policy = loadPolicy(policySnapshot([], { version: 1 }));
        const model = new Map<string, string[]>();
        for (const [i, round] of rounds.entries()) {
          const latest = new Map(round.map((one) => [one.key, one]));
          const changes = [...latest.values()].map(({ key, scopes, put }) => {
            const text = keys[key] ?? "";
            if (put) model.set(text, scopes);
            else model.delete(text);
            return put ? keyUpsert(text, { scopes }) : keyRemoval(text);
          });
          applyDelta(policy, policyDelta(i + 1, i + 2, changes), EXPECTED);
        }
        for (const key of keys) {
          const { outcome, into } = judgeKey(policy, key);
          expect(outcome === "valid" ? [...into.profile.scopes] : outcome).toEqual(model.get(key) ?? "unknown");
        }
      }),
    );
  });
});
