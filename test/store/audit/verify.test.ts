// Verifying one chain against its hashes, its head and its checkpoints, on an in-memory source: every verdict, and that
// nothing is read beyond what is needed.
import { hash as digest } from "node:crypto";
import { describe, expect, it } from "vitest";
import { fromHex, toBase64 } from "../../../src/kernel/crypto/bytes.ts";
import { auditPreimage, GENESIS_HASH, type ChainHead } from "../../../src/kernel/audit/chain.ts";
import { MerkleTree } from "../../../src/kernel/crypto/merkle.ts";
import { formatTimestamp } from "../../../src/kernel/timestamps.ts";
import type { Source } from "../../../src/store/offline/source.ts";
import type { AuditLogRow } from "../../../src/store/schema/tables.ts";
import { verifyStoredChain, type ExpectedCheckpoint } from "../../../src/store/audit/verify.ts";

const START = Date.UTC(2026, 10, 15);

function chainOf(count: number): AuditLogRow[] {
  const rows: AuditLogRow[] = [];
  for (let seq = 1; seq <= count; seq++) {
    const entry = {
      workspace_id: "w",
      id: `row ${seq}`,
      actor_type: "system" as const,
      actor_id: null,
      action: "tenant.created",
      target_type: "tenant",
      target_id: null,
      seq,
      prev_hash: rows.at(-1)?.hash ?? GENESIS_HASH,
    };
    const [occurred_at, payload] = [START + seq, `{"n":${seq}}`];
    const hashed = { ...entry, occurred_at: formatTimestamp(occurred_at), payload: null };
    rows.push({ ...entry, occurred_at, payload, hash: digest("sha256", auditPreimage(hashed, payload)) });
  }
  return rows;
}

const headOf = (rows: AuditLogRow[]): ChainHead | undefined => rows.at(-1);

function rootOf(rows: AuditLogRow[], size: number): string {
  const tree = new MerkleTree((bytes) => digest("sha256", bytes, "buffer"));
  for (const { hash } of rows.slice(0, size)) tree.append(fromHex(hash));
  return toBase64(tree.root());
}

/** Serves the three queries of the verifier and records them. */
function sourceOf(rows: AuditLogRow[], head: ChainHead | undefined) {
  const queries: string[] = [];
  const source: Source = {
    kind: "sqlite",
    begin: async () => void queries.push("begin"),
    commit: async () => void queries.push("commit"),
    ping: async () => {},
    close: async () => {},
    all: async <R>(sql: string, values: readonly (string | number)[]) => {
      const [workspace_id, after = 0, last = 0] = values as [string, number?, number?];
      expect(workspace_id).toBe("w");
      const kind = sql.includes("audit_heads") ? "head" : sql.includes("max(seq)") ? "last" : "page";
      queries.push(kind);
      const found: unknown[] = {
        head: () => (head ? [{ seq: head.seq, hash: head.hash }] : []),
        last: () => [{ last: rows.at(-1)?.seq ?? null }],
        page: () => rows.filter(({ seq }) => seq > after && seq <= last).slice(0, 1_000),
      }[kind]();
      return found as R[];
    },
  };
  return { source, queries };
}

async function check(rows: AuditLogRow[], expected: ExpectedCheckpoint[] = [], head = headOf(rows)) {
  const { source, queries } = sourceOf(rows, head);
  const { part: _part, ...check } = await verifyStoredChain(source, "w", expected);
  return { ...check, queries };
}

describe("verifyStoredChain", () => {
  it("accepts an empty chain and rejects rows without a head", async () => {
    const empty = { checked: 0, head_seq: 0, head_hash: GENESIS_HASH, broken_seq: null, reason: null };
    expect(await check([])).toEqual({ ...empty, queries: ["begin", "head", "last", "commit", "page"] });
    const { source } = sourceOf(chainOf(1), undefined);
    expect(await verifyStoredChain(source, "w", [])).toMatchObject({
      checked: 1,
      broken_seq: 1,
      reason: "head_mismatch",
    });
  });

  it("reads the head and the last row in one transaction, then all rows in pages", async () => {
    const rows = chainOf(2_500);
    expect(await check(rows)).toEqual({
      checked: 2_500,
      head_seq: 2_500,
      head_hash: rows[2_499]?.hash,
      broken_seq: null,
      reason: null,
      queries: ["begin", "head", "last", "commit", "page", "page", "page"],
    });
  });

  it("stops at the first break and reads no further page", async () => {
    const rows = chainOf(2_500);
    rows[600] = { ...rows[600]!, payload: "{}" };
    const broken = await check(rows);
    expect(broken).toMatchObject({ checked: 600, broken_seq: 601, reason: "hash_mismatch" });
    expect(broken.queries.filter((what) => what === "page")).toHaveLength(1);
  });

  for (const [what, corrupt, broken_seq, reason] of [
    ["a missing row", (rows: AuditLogRow[]) => rows.toSpliced(2, 1), 3, "seq_gap"],
    ["a different first row", (rows: AuditLogRow[]) => rows.toSpliced(0, 1, { ...rows[0]!, seq: 0 }), 1, "seq_gap"],
    [
      "a wrong prev_hash",
      (rows: AuditLogRow[]) => rows.with(3, { ...rows[3]!, prev_hash: "x" }),
      4,
      "prev_hash_mismatch",
    ],
    ["an invalid time", (rows: AuditLogRow[]) => rows.with(4, { ...rows[4]!, occurred_at: -1 }), 5, "hash_mismatch"],
    ["a lone surrogate", (rows: AuditLogRow[]) => rows.with(1, { ...rows[1]!, action: "\ud800" }), 2, "hash_mismatch"],
  ] as const) {
    it(`reports ${what} with its sequence number and reason`, async () => {
      const rows = chainOf(5);
      expect(await check(corrupt(rows), [], headOf(rows))).toMatchObject({ broken_seq, reason, head_seq: 5 });
    });
  }

  it("reports a head that is not the last row, whichever of the two is ahead", async () => {
    const rows = chainOf(5);
    const last = rows[4]!;
    for (const [head, broken_seq] of [
      [{ seq: 4, hash: rows[3]!.hash }, 5],
      [{ seq: 7, hash: last.hash }, 6],
      [{ seq: 5, hash: GENESIS_HASH }, 5],
    ] as const) {
      expect(await check(rows, [], head)).toMatchObject({ checked: 5, broken_seq, reason: "head_mismatch" });
    }
  });

  it("compares the chain with every checkpoint, in any order, including the empty tree's", async () => {
    const rows = chainOf(5);
    const good = [5, 0, 3].map((size) => ({ size, root: rootOf(rows, size) }));
    expect(await check(rows, good)).toMatchObject({ checked: 5, reason: null, broken_seq: null });
    const mismatch = { checked: 5, reason: "checkpoint_mismatch" };
    for (const [expected, broken_seq] of [
      [[...good, { size: 4, root: rootOf(rows, 3) }], 4],
      [[{ size: 0, root: rootOf(rows, 1) }], 0],
      [[{ size: 3, root: null }], 3],
      [[{ size: 6, root: rootOf(rows, 5) }], 6],
      [
        [
          { size: 9, root: null },
          { size: 2, root: null },
        ],
        2,
      ],
      [[{ size: 9, root: null }], 6],
    ] as const) {
      expect(await check(rows, [...expected])).toMatchObject({ ...mismatch, broken_seq });
    }
  });

  it("reports a broken row before a broken checkpoint", async () => {
    const rows = chainOf(3).with(1, { ...chainOf(3)[1]!, payload: "{}" });
    expect(await check(rows, [{ size: 3, root: null }])).toMatchObject({ broken_seq: 2, reason: "hash_mismatch" });
  });
});
