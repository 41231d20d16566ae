import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalize, type Json } from "../../../src/kernel/audit/canonical.ts";
import {
  type AuditRow,
  auditPreimage,
  canonicalAuditRow,
  createChainVerifier,
  GENESIS_HASH,
  type HashedRow,
} from "../../../src/kernel/audit/chain.ts";

const sha256Hex = (text: string) => createHash("sha256").update(text).digest("hex");
const WORKSPACE = "11111111-1111-4111-8111-111111111111";
const USER = "33333333-3333-4333-8333-333333333333";

const row1: AuditRow = {
  workspace_id: WORKSPACE,
  id: "22222222-2222-4222-8222-222222222222",
  seq: 1,
  occurred_at: "2026-11-14T00:00:00.000Z",
  actor_type: "user",
  actor_id: USER,
  action: "workspace.created",
  target_type: "workspace",
  target_id: WORKSPACE,
  payload: { slug: "acme" },
  prev_hash: GENESIS_HASH,
};
const row2: AuditRow = {
  ...row1,
  id: "44444444-4444-4444-8444-444444444444",
  seq: 2,
  occurred_at: "2026-11-14T00:00:00.001Z",
  action: "workspace_member.joined",
  target_type: "workspace_member",
  target_id: USER,
  payload: { role: "owner", email: "ada@example.com" },
  prev_hash: "2a50bfc06d8753e9924e878295b293cdcec7f4d21b8b485636c8f247c52db0c4",
};

const anyText = fc.string({ unit: "binary" });
const anyRow: fc.Arbitrary<AuditRow> = fc.record({
  workspace_id: anyText,
  id: anyText,
  seq: fc.integer(),
  occurred_at: anyText,
  actor_type: anyText,
  actor_id: fc.option(anyText),
  action: anyText,
  target_type: anyText,
  target_id: fc.option(anyText),
  payload: fc.jsonValue({ stringUnit: "binary" }) as fc.Arbitrary<Json>,
  prev_hash: anyText,
});

function chainOf(length: number): HashedRow[] {
  const rows: HashedRow[] = [];
  for (let seq = 1; seq <= length; seq++) {
    const row = { ...row1, seq, payload: { n: seq }, prev_hash: rows.at(-1)?.hash ?? GENESIS_HASH };
    rows.push({ ...row, hash: sha256Hex(auditPreimage(row)) });
  }
  return rows;
}

function verify(rows: HashedRow[], head: { seq: number; hash: string } | null) {
  const chain = createChainVerifier(sha256Hex);
  for (const row of rows) chain.push(row);
  chain.finish(head);
  return { checked: chain.checked, broken_seq: chain.broken_seq, reason: chain.reason };
}

const five = chainOf(5);
const head = { seq: 5, hash: five[4]?.hash ?? "" };
const changed = (at: number, change: Partial<HashedRow>) =>
  five.map((row, i) => (i === at ? { ...row, ...change } : row));

describe("a row's hash", () => {
  it("has the published canonical text of row 1", () => {
    expect(canonicalAuditRow(row1)).toBe(
      '{"action":"workspace.created","actor_id":"33333333-3333-4333-8333-333333333333","actor_type":"user",' +
        '"id":"22222222-2222-4222-8222-222222222222","occurred_at":"2026-11-14T00:00:00.000Z",' +
        '"payload":{"slug":"acme"},"prev_hash":"0000000000000000000000000000000000000000000000000000000000000000",' +
        '"seq":1,"target_id":"11111111-1111-4111-8111-111111111111","target_type":"workspace","v":1,' +
        '"workspace_id":"11111111-1111-4111-8111-111111111111"}',
    );
  });

  it("is the published one for rows 1 and 2", () => {
    expect(sha256Hex(auditPreimage(row1))).toBe(row2.prev_hash);
    expect(sha256Hex(auditPreimage(row2))).toBe("8d6e35a7c06175cc3d4855e8c72aad011b1715cf4c87aa11243fffd12c747540");
  });

  it("is over exactly the canonical JSON of its twelve fields", () => {
    fc.assert(
      fc.property(anyRow, (row) => {
        expect(canonicalAuditRow(row)).toBe(canonicalize({ ...row, v: 1 }));
        expect(canonicalAuditRow(row, canonicalize(row.payload))).toBe(canonicalAuditRow(row));
        expect(auditPreimage(row)).toBe(`keyrack-audit-v1\n${canonicalize({ ...row, v: 1 })}`);
      }),
    );
  });

  it("ignores fields that are added at read time", () => {
    expect(canonicalAuditRow({ ...row1, v: 1, hash: "x", actor: null } as AuditRow)).toBe(canonicalAuditRow(row1));
  });

  it("cannot be computed for a value without a canonical form", () => {
    expect(() => canonicalAuditRow({ ...row1, action: "\ud800" })).toThrow(TypeError);
    expect(() => canonicalAuditRow({ ...row1, seq: Number.NaN })).toThrow(TypeError);
  });
});

describe("the chain verifier", () => {
  it("accepts a chain that ends at its head", () => {
    expect(verify(five, head)).toEqual({ checked: 5, broken_seq: null, reason: null });
  });

  it("accepts an empty chain, whose hash is 64 zeros", () => {
    for (const empty of [null, { seq: 0, hash: GENESIS_HASH }]) {
      expect(verify([], empty)).toEqual({ checked: 0, broken_seq: null, reason: null });
    }
    const { seq, hash } = createChainVerifier(sha256Hex);
    expect({ seq, hash }).toEqual({ seq: 0, hash: "0".repeat(64) });
  });

  it("accepts the stored payload text in place of the payload", () => {
    const stored = five.map(({ payload, ...row }) => ({ ...row, payload: null, payload_text: canonicalize(payload) }));
    expect(verify(stored, head)).toEqual({ checked: 5, broken_seq: null, reason: null });
  });

  it("rejects a stored payload text that differs from the hashed one by a space", () => {
    const rows = changed(2, { payload_text: '{"n": 3}' });
    expect(verify(rows, head)).toEqual({ checked: 2, broken_seq: 3, reason: "hash_mismatch" });
  });

  for (const [why, rows, expected] of [
    ["a missing first row", five.slice(1), { checked: 0, broken_seq: 1, reason: "seq_gap" }],
    ["a missing middle row", five.toSpliced(2, 1), { checked: 2, broken_seq: 3, reason: "seq_gap" }],
    ["a repeated row", five.toSpliced(2, 0, five[1] as HashedRow), { checked: 2, broken_seq: 3, reason: "seq_gap" }],
    ["a changed seq", changed(2, { seq: 9 }), { checked: 2, broken_seq: 3, reason: "seq_gap" }],
    [
      "a changed prev_hash",
      changed(2, { prev_hash: GENESIS_HASH }),
      { checked: 2, broken_seq: 3, reason: "prev_hash_mismatch" },
    ],
    ["a changed hash", changed(2, { hash: GENESIS_HASH }), { checked: 2, broken_seq: 3, reason: "hash_mismatch" }],
    ["half a surrogate pair", changed(2, { action: "\ud800" }), { checked: 2, broken_seq: 3, reason: "hash_mismatch" }],
    ["rows cut off behind", five.slice(0, 3), { checked: 3, broken_seq: 4, reason: "head_mismatch" }],
    ["a row past the head", chainOf(6), { checked: 6, broken_seq: 6, reason: "head_mismatch" }],
    ["no rows at all", [], { checked: 0, broken_seq: 1, reason: "head_mismatch" }],
  ] as const) {
    it(`reports ${why}`, () => {
      expect(verify([...rows], head)).toEqual(expected);
    });
  }

  it("reports a head with the right seq and another hash", () => {
    expect(verify(five, { ...head, hash: GENESIS_HASH })).toEqual({
      checked: 5,
      broken_seq: 5,
      reason: "head_mismatch",
    });
  });

  it("reports rows without a head", () => {
    expect(verify(five, null)).toEqual({ checked: 5, broken_seq: 1, reason: "head_mismatch" });
  });

  it("reports a row that was changed and rehashed at the row after it", () => {
    const forged = { ...(five[2] as HashedRow), payload: { n: 33 } };
    const rows = changed(2, { payload: { n: 33 }, hash: sha256Hex(auditPreimage(forged)) });
    expect(verify(rows, head)).toEqual({ checked: 3, broken_seq: 4, reason: "prev_hash_mismatch" });
  });

  it("keeps the first break", () => {
    const chain = createChainVerifier(sha256Hex);
    expect(chain.push(five[0] as HashedRow)).toBeNull();
    expect(chain.push(five[2] as HashedRow)).toBe("seq_gap");
    expect(chain.push(five[1] as HashedRow)).toBe("seq_gap");
    expect(chain.finish(head)).toBe("seq_gap");
    expect(chain).toMatchObject({ checked: 1, seq: 1, hash: five[0]?.hash, broken_seq: 2 });
  });

  it("reports a change of any hashed field of any row at that row", () => {
    const fields = Object.keys(row1) as (keyof AuditRow)[];
    fc.assert(
      fc.property(fc.nat(4), fc.constantFrom(...fields), anyText, (at, field, value) => {
        const rows = changed(at, { [field]: value });
        expect(verify(rows, head)).toMatchObject({ checked: at, broken_seq: at + 1 });
      }),
    );
  });
});
