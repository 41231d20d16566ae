// The audit log as a browser verifies it: what it says of a row that it saw before.
import { describe, expect, it } from "vitest";
import { auditPreimage, GENESIS_HASH, type HashedRow } from "../../../src/kernel/audit/chain.ts";
import { sha256Hex } from "../../../src/platform/crypto.ts";
import { verifyRows, type SeenRow } from "../../../src/web/dashboard/audit/verify.ts";

const workspaceId = "0190f6c0-0000-7000-8000-000000000001";

function chainOf(length: number): HashedRow[] {
  const rows: HashedRow[] = [];
  for (let seq = 1; seq <= length; seq++) {
    const row = {
      id: `0190f6c0-0000-7000-8000-${String(seq).padStart(12, "0")}`,
      workspace_id: workspaceId,
      seq,
      occurred_at: "2026-05-03T00:00:00.000Z",
      actor_type: "system",
      actor_id: null,
      action: "tenant.created",
      target_type: "tenant",
      target_id: null,
      payload: { n: seq },
      prev_hash: rows.at(-1)?.hash ?? GENESIS_HASH,
    };
    rows.push({ ...row, hash: sha256Hex(auditPreimage(row)) });
  }
  return rows;
}

describe("a log that this browser saw before", () => {
  const rows = chainOf(10);
  const seen: SeenRow = { seq: 8, hash: rows[7]?.hash ?? "", at: "2026-05-03T00:00:00.000Z" };
  const verify = async (log: readonly HashedRow[], { seq, hash } = log.at(-1) ?? seen) => {
    async function* lines() {
      for (const row of log) yield JSON.stringify(row);
    }
    const { broken, continues } = await verifyRows(lines(), {
      workspaceId,
      head: { seq, hash },
      checkpoint: null,
      seen,
    });
    return { broken, continues };
  };

  it("continues it, or was rewritten or cut before that row", async () => {
    expect(await verify(rows)).toEqual({ broken: null, continues: true });
    expect(await verify(rows.slice(0, 7))).toEqual({ broken: null, continues: false });
    expect((await verify(rows.slice(0, 7), rows[9])).continues).toBe(false);
  });

  it("is not judged by a row behind the one that is broken", async () => {
    const altered = rows.map((row) => (row.seq === 5 ? { ...row, payload: { n: 0 } } : row));
    expect(await verify(altered)).toEqual({ broken: { seq: 5, reason: "hash_mismatch" }, continues: null });
    const later = rows.map((row) => (row.seq === 9 ? { ...row, payload: { n: 0 } } : row));
    expect(await verify(later)).toEqual({ broken: { seq: 9, reason: "hash_mismatch" }, continues: true });
  });
});
