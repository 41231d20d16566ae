// Loading a snapshot: it takes effect only when complete and valid in every field.

import { describe, expect, it } from "vitest";
import { applyDelta, PolicyError, SnapshotLoader } from "../../../src/kernel/policy/loader.ts";
import {
  EXPECTED,
  judgeKey,
  type KeyEntry,
  keyEntry,
  loadPolicy,
  mintKey,
  policyDelta,
  policySnapshot,
  PROJECT,
  WORKSPACE,
} from "../../../harness/sdk/policy-fixtures.ts";

describe("a snapshot", () => {
  const [a, b] = [mintKey(), mintKey()];

  it("takes effect only when its last page is loaded", () => {
    const loader = new SnapshotLoader(EXPECTED);
    expect(loader.add(policySnapshot([keyEntry(a)], { next_cursor: "c1" }))).toBe("c1");
    expect(() => loader.finish()).toThrow(PolicyError);
    expect(loader.add(policySnapshot([keyEntry(b)]))).toBe(null);
    const policy = loader.finish();
    expect([judgeKey(policy, a).outcome, judgeKey(policy, b).outcome, policy.keys.count]).toEqual([
      "valid",
      "valid",
      2,
    ]);
    expect(() => loader.add(policySnapshot([]))).toThrow(PolicyError);
  });

  it("has no keys when the project is deleted, even if it lists some", () => {
    const policy = loadPolicy(policySnapshot([keyEntry(a)], { project_deleted: true }));
    expect(judgeKey(policy, a).outcome).toBe("unknown");
  });

  const good = policySnapshot([keyEntry(a)]);
  const bad: [string, unknown][] = [
    ["null", null],
    ["a list", []],
    ["text", "policy_snapshot"],
    ["another object type", { ...good, object: "policy_delta" }],
    ["another project", { ...good, project_id: WORKSPACE }],
    ["another environment", { ...good, env: "live" }],
    ["an invalid workspace id", { ...good, workspace_id: "w" }],
    ["a fraction as version", { ...good, version: 1.5 }],
    ["text as version", { ...good, version: "7" }],
    ["a negative version", { ...good, version: -1 }],
    ["no project_deleted", { ...good, project_deleted: undefined }],
    ["keys that are not a list", { ...good, keys: { 0: keyEntry(a) } }],
    ["a key that is null", { ...good, keys: [null] }],
    ["a key without hash", { ...good, keys: [{ ...keyEntry(a), lookup_hash: null }] }],
    ["a short hash", { ...good, keys: [{ ...keyEntry(a), lookup_hash: "ab" }] }],
    ["a key without id", { ...good, keys: [{ ...keyEntry(a), key_id: 1 }] }],
    ["a key without tenant", { ...good, keys: [{ ...keyEntry(a), tenant_id: "" }] }],
    ["a third environment", { ...good, keys: [{ ...keyEntry(a), env: "dev" }] }],
    ["scopes as text", { ...good, keys: [{ ...keyEntry(a), scopes: "a" }] }],
    ["a scope that is a number", { ...good, keys: [{ ...keyEntry(a), scopes: [1] }] }],
    ["an expiry as number", { ...good, keys: [{ ...keyEntry(a), expires_at: 5 }] }],
    ["a missing expiry", { ...good, keys: [{ ...keyEntry(a), expires_at: undefined }] }],
    ["an expiry that is not a timestamp", { ...good, keys: [{ ...keyEntry(a), expires_at: "tomorrow" }] }],
    ["a day that does not exist", { ...good, keys: [{ ...keyEntry(a), expires_at: "2027-02-30T00:00:00.000Z" }] }],
    ["limits as null", { ...good, keys: [{ ...keyEntry(a), rate_limits: null }] }],
    ["a limit of zero", { ...good, keys: [{ ...keyEntry(a), rate_limits: [{ ...rule(), limit: 0 }] }] }],
    ["a limit id with a quote", { ...good, keys: [{ ...keyEntry(a), rate_limits: [{ ...rule(), id: 'a"b' }] }] }],
    ["an unknown algorithm", { ...good, keys: [{ ...keyEntry(a), rate_limits: [{ ...rule(), algorithm: "x" }] }] }],
    ["a cursor that is a number", { ...good, next_cursor: 1 }],
    ["no next_cursor", { ...good, next_cursor: undefined }],
    ["an empty cursor", { ...good, next_cursor: "" }],
    ["an overlong cursor", { ...good, next_cursor: "x".repeat(513) }],
    ["a page without keys that is not the last", { ...good, keys: [], next_cursor: "c" }],
    ["one key twice", { ...good, keys: [keyEntry(a), keyEntry(a)] }],
    ["more keys than allowed", policySnapshot(Array.from({ length: 1001 }, () => keyEntry(mintKey())))],
  ];
  for (const [why, page] of bad)
    it(`is rejected with ${why}`, () => expect(() => loadPolicy(page)).toThrow(PolicyError));

  it("is rejected when its pages disagree or a cursor repeats", () => {
    const first = policySnapshot([keyEntry(a)], { next_cursor: "c1", version: 7 });
    expect(() => loadPolicy(first, policySnapshot([keyEntry(b)], { version: 8 }))).toThrow(PolicyError);
    expect(() => loadPolicy(first, policySnapshot([keyEntry(b)], { next_cursor: "c1", version: 7 }))).toThrow(
      PolicyError,
    );
    expect(() => loadPolicy(first, policySnapshot([keyEntry(b)], { workspace_id: PROJECT, version: 7 }))).toThrow(
      PolicyError,
    );
  });
});

describe("an entry of a snapshot", () => {
  const key = mintKey();

  for (const text of [
    "2026-11-14T24:00:00.000Z",
    "2026-11-14T00:60:00.000Z",
    "2026-11-14T00:00:60.000Z",
    "2026-11-14T00:00:61.000Z",
    "2026-13-14T00:00:00.000Z",
    "2026-00-14T00:00:00.000Z",
    "2026-02-29T00:00:00.000Z",
    "2026-02-30T00:00:00.000Z",
    "2026-11-00T00:00:00.000Z",
    "2026-11-14 00:00:00.000Z",
    "2026-11-14T00:00:00,000Z",
    "2026/11/14T00:00:00.000Z",
    "2026-11-14T00-00-00.000Z",
    "2026-11-14T00:00:00.000X",
    "2026-11-1xT00:00:00.000Z",
    "202:-11-14T00:00:00.000Z",
  ]) {
    it(`is rejected with the expiry ${text}`, () => {
      expect(() => loadPolicy(policySnapshot([keyEntry(key, { expires_at: text })]))).toThrow(PolicyError);
    });
  }

  it("is rejected with another separator in any place of its expiry", () => {
    const good = "2026-11-14T00:00:00.000Z";
    for (const at of [4, 7, 10, 13, 16, 19, 23]) {
      const expires_at = `${good.slice(0, at)}/${good.slice(at + 1)}`;
      expect(() => loadPolicy(policySnapshot([keyEntry(key, { expires_at })])), expires_at).toThrow(PolicyError);
    }
  });

  it("has up to the maximum of scopes and limits, and not one more", () => {
    const rule = { limit: 5, window_ms: 1_000, algorithm: "sliding", scope: "key" } as const;
    const scopes = Array.from({ length: 1_025 }, (_, i) => `s${i}`);
    const rate_limits = Array.from({ length: 65 }, (_, i) => ({ ...rule, id: `r${i}` }));
    const loaded = loadPolicy(
      policySnapshot([keyEntry(key, { scopes: scopes.slice(1), rate_limits: rate_limits.slice(1) })]),
    );
    const { profile } = judgeKey(loaded, key).into;
    expect([profile.scopes.size, profile.rules.length]).toEqual([1_024, 64]);
    expect(() => loadPolicy(policySnapshot([keyEntry(key, { scopes })]))).toThrow(PolicyError);
    expect(() => loadPolicy(policySnapshot([keyEntry(key, { rate_limits })]))).toThrow(PolicyError);
  });

  it("is rejected with a malformed rule", () => {
    const rule = { id: "a", limit: 5, window_ms: 1_000, algorithm: "sliding", scope: "key" } as const;
    const wrong = [
      ...[0, -1, 1.5, "5", null, Infinity].flatMap((number) => [{ limit: number }, { window_ms: number }]),
      ...["", "A", "-a", "a".repeat(65), 7].map((id) => ({ id })),
      { algorithm: "none" },
      { scope: "none" },
      { algorithm: "fixed", scope: undefined },
    ];
    for (const more of wrong) {
      const rate_limits = [{ ...rule, ...more }] as KeyEntry["rate_limits"];
      expect(() => loadPolicy(policySnapshot([keyEntry(key, { rate_limits })])), JSON.stringify(more)).toThrow(
        PolicyError,
      );
    }
  });

  it("keeps its own profile, however little it differs from its neighbour's", () => {
    const rule = { id: "a", limit: 5, window_ms: 1_000, algorithm: "sliding", scope: "key" } as const;
    const rules = [
      [],
      [rule],
      [{ ...rule, limit: 6 }],
      [{ ...rule, window_ms: 2_000 }],
      [{ ...rule, id: "b" }],
      [{ ...rule, algorithm: "fixed" as const }],
      [{ ...rule, scope: "tenant" as const }],
      [rule, { ...rule, id: "c" }],
      [],
    ];
    const all = rules.flatMap((rate_limits) =>
      [[], ["s"], ["s", "t"], ["t"]].map((scopes) => ({ rate_limits, scopes })),
    );
    const keys = all.map(() => mintKey());
    // Repeated, so that the profile cache sees both equal and different neighbours.
    const entries = [...all, ...all].map((more, i) => keyEntry(keys[i] ?? mintKey(), more));
    const loaded = loadPolicy(policySnapshot(entries));
    for (const [i, { rate_limits, scopes }] of all.entries()) {
      const { profile } = judgeKey(loaded, keys[i] as string).into;
      expect([profile.rules, [...profile.scopes]]).toEqual([rate_limits, scopes]);
    }
  });
});

describe("an entry similar to its neighbour", () => {
  const rule = { id: "a", limit: 5, window_ms: 1_000, algorithm: "sliding", scope: "key" } as const;

  it("keeps its own profile when it differs in one field", () => {
    const base = { scopes: ["s"], rate_limits: [rule] };
    const others = [
      { id: "b" },
      { limit: 6 },
      { window_ms: 2_000 },
      { algorithm: "fixed" },
      { scope: "tenant" },
    ] as const;
    const variants = [
      ...others.map((more) => ({ ...base, rate_limits: [{ ...rule, ...more }] })),
      { ...base, rate_limits: [rule, { ...rule, id: "b" }] },
      { ...base, rate_limits: [] },
      { ...base, scopes: ["t"] },
      { ...base, scopes: ["s", "t"] },
      { ...base, scopes: [] },
    ];
    for (const variant of variants) {
      const pair = [base, variant, base, variant].map((more) => ({ key: mintKey(), more }));
      const loaded = loadPolicy(policySnapshot(pair.map(({ key, more }) => keyEntry(key, more))));
      for (const { key, more } of pair) {
        const { profile } = judgeKey(loaded, key).into;
        expect([profile.rules, [...profile.scopes]]).toEqual([more.rate_limits, more.scopes]);
      }
      expect(loaded.profiles.size).toBe(2);
    }
  });

  for (const [why, more] of [
    ["a rule that is null", { rate_limits: [null] }],
    ["a rule that is text", { rate_limits: ["a"] }],
    ["rules that are not a list", { rate_limits: { 0: rule, length: 1 } }],
    ["no rules", { rate_limits: undefined }],
    ["scopes that are not a list", { scopes: { 0: "s", length: 1 } }],
    ["a network with bits beyond its mask", { allowed_cidrs: ["10.0.0.1/8"] }],
    ["an empty list of networks", { allowed_cidrs: [] }],
    ["no list of networks, but null", { allowed_cidrs: null }],
    ["a network that is a number", { allowed_cidrs: [10] }],
    ["networks that are not a list", { allowed_cidrs: { 0: "10.0.0.0/8", length: 1 } }],
    ["too many networks", { allowed_cidrs: Array.from({ length: 51 }, (_, i) => `10.0.${i}.0/24`) }],
    ["an unknown mode", { ip_mode: "sometimes" }],
    ["no mode", { ip_mode: undefined }],
  ] as const) {
    it(`is validated all the same: ${why}`, () => {
      const list = { allowed_cidrs: ["10.0.0.0/8"], ip_mode: "enforce" as const };
      const good = { scopes: ["s"], rate_limits: [rule], ...list };
      const entries = [keyEntry(mintKey(), good), { ...keyEntry(mintKey(), good), ...more }] as KeyEntry[];
      expect(() => loadPolicy(policySnapshot(entries))).toThrow(PolicyError);
      const policy = loadPolicy(policySnapshot(entries.slice(0, 1)));
      const changes = entries.map((entry) => ({ change: "upsert", ...entry }));
      expect(() => applyDelta(policy, policyDelta(1, 2, changes), EXPECTED)).toThrow(PolicyError);
      expect([policy.version, policy.keys.count]).toEqual([1, 1]);
    });
  }
});

function rule() {
  return { id: "per-minute", limit: 5, window_ms: 60_000, algorithm: "sliding", scope: "key" };
}
