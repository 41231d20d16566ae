// The policy document: what decide() refuses, what a snapshot or a delta must be, and that a bad one changes nothing.

import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatCredential } from "../../../src/kernel/credentials.ts";
import { Decision, decide, type KeyEntry, type Policy } from "../../../src/kernel/policy/policy.ts";
import { applyDelta, PolicyError, SnapshotLoader } from "../../../src/kernel/policy/loader.ts";
import { TENANT } from "../../../src/kernel/policy/key-table.ts";
import {
  policyDelta,
  keyEntry,
  keyIdFor,
  PROJECT,
  keyRemoval,
  policySnapshot,
  WORKSPACE,
} from "../../../harness/sdk/policy-fixtures.ts";

const NOW = Date.parse("2026-11-15T00:00:00.000Z");
const want = { projectId: PROJECT, env: null, maxKeys: 1000 };
const mint = (env: "live" | "test" = "live") => formatCredential("api_key", env, randomBytes(24));

function load(...pages: unknown[]): Policy {
  const loader = new SnapshotLoader(want);
  for (const page of pages) loader.add(page);
  return loader.finish();
}

function judge(policy: Policy | null, key: string, needs: string[] = [], env: "live" | "test" | null = null) {
  const into = new Decision();
  return { outcome: decide(into, policy, env, key, 0, needs, () => NOW), into };
}

describe("decide", () => {
  const key = mint();
  const other = mint("test");
  const policy = load(
    policySnapshot([
      keyEntry(key, { scopes: ["a", "b"], expires_at: "2026-11-15T00:00:00.001Z" }),
      keyEntry(other, { env: "test", expires_at: "2026-11-15T00:00:00.000Z" }),
    ]),
  );

  it("admits a key that is there, unexpired and has every scope asked for", () => {
    const { outcome, into } = judge(policy, key, ["b", "a"]);
    expect(outcome).toBe("valid");
    expect([into.env, into.expiry, [...into.profile.scopes]]).toEqual(["live", NOW + 1, ["a", "b"]]);
  });

  it("refuses everything else, each for its own reason", () => {
    expect(judge(policy, mint()).outcome).toBe("unknown");
    expect(judge(policy, other).outcome).toBe("expired");
    expect(judge(policy, key, ["a", "c", "d"]).outcome).toBe("insufficient_scope");
    expect(judge(policy, key, ["a", "c", "d"]).into.missing).toEqual(["c", "d"]);
    expect(judge(policy, key, [], "test").outcome).toBe("other_env");
    expect(judge(policy, `${key.slice(0, -1)}x`).outcome).toBe("malformed");
    expect(judge(null, key).outcome).toBe("no_policy");
    expect(judge(null, "nonsense").outcome).toBe("malformed");
    expect(judge(null, key, [], "test").outcome).toBe("other_env");
  });

  it("finds each scope of a key that has many, and no other", () => {
    for (const count of [1, 8, 9, 40]) {
      const scopes = Array.from({ length: count }, (_, i) => `s${i}`);
      const held = load(policySnapshot([keyEntry(key, { scopes })]));
      expect(judge(held, key, scopes).outcome).toBe("valid");
      expect(judge(held, key, ["s0", `s${count}`]).into.missing).toEqual([`s${count}`]);
      expect(judge(held, key).into.profile.scopes.size).toBe(count);
    }
  });

  it("refuses a key whose row claims the other environment than its text", () => {
    const liar = load(policySnapshot([keyEntry(key, { env: "test" })]));
    expect(judge(liar, key).outcome).toBe("unknown");
  });

  it("reads every expiry that Keyrack writes to the millisecond: valid until it, expired from it on", () => {
    const edges = ["1970-01-01T00:00:00.000Z", "2026-02-28T23:59:59.999Z", "2028-02-29T12:34:56.789Z"].map(Date.parse);
    const times = fc.oneof(fc.constantFrom(...edges), fc.integer({ min: 0, max: Date.UTC(2199, 0) }));
    fc.assert(
      fc.property(times, (expiry) => {
        const held = load(policySnapshot([keyEntry(key, { expires_at: new Date(expiry).toISOString() })]));
        const at = (now: number) => {
          const into = new Decision();
          return [decide(into, held, null, key, 0, [], () => now), into.expiry];
        };
        expect(at(expiry - 1)).toEqual(["valid", expiry]);
        expect(at(expiry)[0]).toBe("expired");
      }),
    );
  });

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
    it(`takes no snapshot with the expiry ${text}`, () => {
      expect(() => load(policySnapshot([keyEntry(key, { expires_at: text })]))).toThrow(PolicyError);
    });
  }

  it("takes no expiry with another separator, in whichever place", () => {
    const good = "2026-11-14T00:00:00.000Z";
    for (const at of [4, 7, 10, 13, 16, 19, 23]) {
      const expires_at = `${good.slice(0, at)}/${good.slice(at + 1)}`;
      expect(() => load(policySnapshot([keyEntry(key, { expires_at })])), expires_at).toThrow(PolicyError);
    }
  });

  it("takes as many scopes and limits as a key may have, and not one more", () => {
    const rule = { limit: 5, window_ms: 1_000, algorithm: "sliding", scope: "key" } as const;
    const scopes = Array.from({ length: 1_025 }, (_, i) => `s${i}`);
    const rate_limits = Array.from({ length: 65 }, (_, i) => ({ ...rule, id: `r${i}` }));
    const held = load(policySnapshot([keyEntry(key, { scopes: scopes.slice(1), rate_limits: rate_limits.slice(1) })]));
    const { profile } = judge(held, key).into;
    expect([profile.scopes.size, profile.rules.length]).toEqual([1_024, 64]);
    expect(() => load(policySnapshot([keyEntry(key, { scopes })]))).toThrow(PolicyError);
    expect(() => load(policySnapshot([keyEntry(key, { rate_limits })]))).toThrow(PolicyError);
  });

  it("takes no rule of another form, whatever is wrong with it", () => {
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
      expect(() => load(policySnapshot([keyEntry(key, { rate_limits })])), JSON.stringify(more)).toThrow(PolicyError);
    }
  });

  it("gives each key its own profile, however little it differs from its neighbour's", () => {
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
    const keys = all.map(() => mint());
    // Twice over, so that each meets its like and its neighbours; a page's end makes the loader start anew.
    const entries = [...all, ...all].map((more, i) => keyEntry(keys[i] ?? mint(), more));
    const held = load(policySnapshot(entries));
    for (const [i, { rate_limits, scopes }] of all.entries()) {
      const { profile } = judge(held, keys[i] as string).into;
      expect([profile.rules, [...profile.scopes]]).toEqual([rate_limits, scopes]);
    }
  });

  it("hands out scopes that nobody can change", () => {
    const { scopes } = judge(policy, key).into.profile;
    expect(() => (scopes.list as string[]).push("admin")).toThrow(TypeError);
    expect(Object.isFrozen(scopes)).toBe(true);
    expect("add" in scopes).toBe(false);
    expect(JSON.stringify({ scopes })).toBe('{"scopes":["a","b"]}');
  });
});

describe("a snapshot", () => {
  const [a, b] = [mint(), mint()];

  it("counts only when its last page is in", () => {
    const loader = new SnapshotLoader(want);
    expect(loader.add(policySnapshot([keyEntry(a)], { next_cursor: "c1" }))).toBe("c1");
    expect(() => loader.finish()).toThrow(PolicyError);
    expect(loader.add(policySnapshot([keyEntry(b)]))).toBe(null);
    const policy = loader.finish();
    expect([judge(policy, a).outcome, judge(policy, b).outcome, policy.keys.count]).toEqual(["valid", "valid", 2]);
    expect(() => loader.add(policySnapshot([]))).toThrow(PolicyError);
  });

  it("has no keys when the project is deleted, whatever it lists", () => {
    const policy = load(policySnapshot([keyEntry(a)], { project_deleted: true }));
    expect(judge(policy, a).outcome).toBe("unknown");
  });

  const good = policySnapshot([keyEntry(a)]);
  const bad: [string, unknown][] = [
    ["null", null],
    ["a list", []],
    ["text", "policy_snapshot"],
    ["another kind", { ...good, object: "policy_delta" }],
    ["another project", { ...good, project_id: WORKSPACE }],
    ["another environment", { ...good, env: "live" }],
    ["no workspace", { ...good, workspace_id: "w" }],
    ["a fraction as version", { ...good, version: 1.5 }],
    ["text as version", { ...good, version: "7" }],
    ["a negative version", { ...good, version: -1 }],
    ["no word on deletion", { ...good, project_deleted: undefined }],
    ["keys that are no list", { ...good, keys: { 0: keyEntry(a) } }],
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
    ["an expiry of another form", { ...good, keys: [{ ...keyEntry(a), expires_at: "tomorrow" }] }],
    ["a day that does not exist", { ...good, keys: [{ ...keyEntry(a), expires_at: "2027-02-30T00:00:00.000Z" }] }],
    ["limits as null", { ...good, keys: [{ ...keyEntry(a), rate_limits: null }] }],
    ["a limit of zero", { ...good, keys: [{ ...keyEntry(a), rate_limits: [{ ...rule(), limit: 0 }] }] }],
    ["a limit id with a quote", { ...good, keys: [{ ...keyEntry(a), rate_limits: [{ ...rule(), id: 'a"b' }] }] }],
    ["an unknown algorithm", { ...good, keys: [{ ...keyEntry(a), rate_limits: [{ ...rule(), algorithm: "x" }] }] }],
    ["a cursor that is a number", { ...good, next_cursor: 1 }],
    ["no word on a next page", { ...good, next_cursor: undefined }],
    ["an empty cursor", { ...good, next_cursor: "" }],
    ["an endless cursor", { ...good, next_cursor: "x".repeat(513) }],
    ["a page without keys that is not the last", { ...good, keys: [], next_cursor: "c" }],
    ["one key twice", { ...good, keys: [keyEntry(a), keyEntry(a)] }],
    ["more keys than allowed", policySnapshot(Array.from({ length: 1001 }, () => keyEntry(mint())))],
  ];
  for (const [why, page] of bad) it(`is refused with ${why}`, () => expect(() => load(page)).toThrow(PolicyError));

  it("is refused when its pages disagree or a cursor comes back", () => {
    const first = policySnapshot([keyEntry(a)], { next_cursor: "c1", version: 7 });
    expect(() => load(first, policySnapshot([keyEntry(b)], { version: 8 }))).toThrow(PolicyError);
    expect(() => load(first, policySnapshot([keyEntry(b)], { next_cursor: "c1", version: 7 }))).toThrow(PolicyError);
    expect(() => load(first, policySnapshot([keyEntry(b)], { workspace_id: PROJECT, version: 7 }))).toThrow(
      PolicyError,
    );
  });
});

describe("a snapshot's entry like its neighbour", () => {
  const rule = { id: "a", limit: 5, window_ms: 1_000, algorithm: "sliding", scope: "key" } as const;

  it("keeps its own profile when it differs in one thing", () => {
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
      const pair = [base, variant, base, variant].map((more) => ({ key: mint(), more }));
      const held = load(policySnapshot(pair.map(({ key, more }) => keyEntry(key, more))));
      for (const { key, more } of pair) {
        const { profile } = judge(held, key).into;
        expect([profile.rules, [...profile.scopes]]).toEqual([more.rate_limits, more.scopes]);
      }
      expect(held.profiles.size).toBe(2);
    }
  });

  for (const [why, more] of [
    ["a rule that is null", { rate_limits: [null] }],
    ["a rule that is text", { rate_limits: ["a"] }],
    ["rules that are no list", { rate_limits: { 0: rule, length: 1 } }],
    ["no rules at all", { rate_limits: undefined }],
    ["scopes that are no list", { scopes: { 0: "s", length: 1 } }],
  ] as const) {
    it(`is checked all the same: ${why}`, () => {
      const good = { scopes: ["s"], rate_limits: [rule] };
      const entries = [keyEntry(mint(), good), { ...keyEntry(mint(), good), ...more }] as KeyEntry[];
      expect(() => load(policySnapshot(entries))).toThrow(PolicyError);
    });
  }
});

describe("a delta", () => {
  const [a, b] = [mint(), mint()];
  const fresh = () => load(policySnapshot([keyEntry(a, { scopes: ["x"] })], { version: 7 }));

  it("adds, changes and removes keys, and moves the version", () => {
    const policy = fresh();
    expect(applyDelta(policy, policyDelta(7, 9, [upsert(b), upsert(a, { scopes: ["y"] })]), want)).toBe(true);
    expect(judge(policy, a, ["y"]).outcome).toBe("valid");
    expect(judge(policy, a, ["x"]).outcome).toBe("insufficient_scope");
    expect(policy.profiles.size).toBe(2);
    applyDelta(policy, policyDelta(9, 10, [keyRemoval(a)]), want);
    expect([judge(policy, a).outcome, judge(policy, b).outcome, policy.version]).toEqual(["unknown", "valid", 10]);
    expect(policy.profiles.size).toBe(1);
  });

  it("tells each key's tenant, and forgets a tenant with its last key", () => {
    const [one, two] = [keyIdFor("one"), keyIdFor("two")];
    const policy = fresh();
    const tenantOf = (key: string) => {
      const { row } = judge(policy, key).into;
      return policy.tenants.text(policy.keys.words[row + TENANT] as number);
    };
    applyDelta(policy, policyDelta(7, 8, [upsert(a, { tenant_id: one }), upsert(b, { tenant_id: two })]), want);
    expect([tenantOf(a), tenantOf(b), policy.tenants.size]).toEqual([one, two, 2]);
    applyDelta(policy, policyDelta(8, 9, [upsert(a, { tenant_id: two })]), want);
    expect([tenantOf(a), tenantOf(b), policy.tenants.size]).toEqual([two, two, 1]);
  });

  it("brings nothing when the version stands still", () => {
    expect(applyDelta(fresh(), policyDelta(7, 7, []), want)).toBe(false);
  });

  it("takes every key away when the project is deleted", () => {
    const policy = fresh();
    applyDelta(policy, { ...policyDelta(7, 8, []), project_deleted: true }, want);
    expect(judge(policy, a).outcome).toBe("unknown");
  });

  const bad: [string, unknown][] = [
    ["another since", policyDelta(6, 8, [keyRemoval(a)])],
    ["an older version", policyDelta(7, 6, [keyRemoval(a)])],
    ["changes under the same version", policyDelta(7, 7, [keyRemoval(a)])],
    ["an unknown kind of change", policyDelta(7, 8, [keyRemoval(a), { ...upsert(b), change: "patch" }])],
    ["a bad last change", policyDelta(7, 8, [keyRemoval(a), { ...upsert(b), scopes: null }])],
    ["a removal without hash", policyDelta(7, 8, [keyRemoval(a), { ...keyRemoval(b), lookup_hash: "?" }])],
    ["another workspace", { ...policyDelta(7, 8, [keyRemoval(a)]), workspace_id: PROJECT }],
    ["changes that are no list", { ...policyDelta(7, 8, []), changes: null }],
    ["a snapshot's kind", { ...policyDelta(7, 8, [keyRemoval(a)]), object: "policy_snapshot" }],
  ];
  for (const [why, delta] of bad) {
    it(`is refused whole with ${why}, and nothing of it is applied`, () => {
      const policy = fresh();
      expect(() => applyDelta(policy, delta, want)).toThrow(PolicyError);
      expect([judge(policy, a, ["x"]).outcome, policy.version, policy.keys.count]).toEqual(["valid", 7, 1]);
    });
  }

  it("leaves the same policy as a fresh snapshot would, after any sequence", () => {
    const keys = Array.from({ length: 12 }, () => mint());
    const change = fc.record({
      key: fc.nat(11),
      scopes: fc.constantFrom<string[]>([], ["a"], ["a", "b"]),
      put: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(fc.array(change, { maxLength: 4 }), { maxLength: 12 }), (rounds) => {
        const policy = load(policySnapshot([], { version: 1 }));
        const model = new Map<string, string[]>();
        for (const [i, round] of rounds.entries()) {
          const latest = new Map(round.map((one) => [one.key, one]));
          const changes = [...latest.values()].map(({ key, scopes, put }) => {
            const text = keys[key] ?? "";
            if (put) model.set(text, scopes);
            else model.delete(text);
            return put ? upsert(text, { scopes }) : keyRemoval(text);
          });
          applyDelta(policy, policyDelta(i + 1, i + 2, changes), want);
        }
        for (const key of keys) {
          const { outcome, into } = judge(policy, key);
          expect(outcome === "valid" ? [...into.profile.scopes] : outcome).toEqual(model.get(key) ?? "unknown");
        }
      }),
    );
  });
});

function rule() {
  return { id: "per-minute", limit: 5, window_ms: 60_000, algorithm: "sliding", scope: "key" };
}

function upsert(key: string, more: Parameters<typeof keyEntry>[1] = {}) {
  return { change: "upsert" as const, ...keyEntry(key, more) };
}
