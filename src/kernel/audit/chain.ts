// The audit chain (docs/audit-format.md). For each row
//
//   hash = hex(SHA-256("keyrack-audit-v1\n" || JCS of {v:1, workspace_id, id, seq, occurred_at, actor_type, actor_id,
//                                                      action, target_type, target_id, payload, prev_hash}))
//
// seq counts 1, 2, 3 … in each workspace; prev_hash is the hash of the previous row, 64 zeros for the first.
// Caution: a chain without its newest rows is still valid; only the head and signed checkpoints detect truncation.

import { canonicalize, type Json } from "./canonical.ts";

export type AuditRow = {
  v?: 1;
  workspace_id: string;
  id: string;
  seq: number;
  occurred_at: string;
  actor_type: string;
  actor_id: string | null;
  action: string;
  target_type: string;
  target_id: string | null;
  payload: Json;
  prev_hash: string;
};

export type BreakReason = "seq_gap" | "prev_hash_mismatch" | "hash_mismatch" | "head_mismatch" | "checkpoint_mismatch";

export type ChainHead = { seq: number; hash: string };
/** `payload_text`, the canonical text as stored, takes precedence over `payload`. */
export type HashedRow = AuditRow & { hash: string; payload_text?: string };

export const GENESIS_HASH = "0".repeat(64);
/** The workspace_id of the deployment chain. */
export const NIL_WORKSPACE = "00000000-0000-0000-0000-000000000000";

/** The row's canonical JSON. Fast path of `canonicalize`: keys in sorted order, by hand. bench: dashboard/verify */
export function canonicalAuditRow(row: AuditRow, payloadText: string = canonicalize(row.payload)): string {
  return (
    `{"action":${canonicalize(row.action)},"actor_id":${canonicalize(row.actor_id)}` +
    `,"actor_type":${canonicalize(row.actor_type)},"id":${canonicalize(row.id)}` +
    `,"occurred_at":${canonicalize(row.occurred_at)},"payload":${payloadText}` +
    `,"prev_hash":${canonicalize(row.prev_hash)},"seq":${canonicalize(row.seq)}` +
    `,"target_id":${canonicalize(row.target_id)},"target_type":${canonicalize(row.target_type)}` +
    `,"v":1,"workspace_id":${canonicalize(row.workspace_id)}}`
  );
}

export function auditPreimage(row: AuditRow, payloadText?: string): string {
  return `keyrack-audit-v1\n${canonicalAuditRow(row, payloadText)}`;
}

/** Verifies the rows of one workspace in order. */
export type ChainVerifier = {
  /** Number of valid rows before the first break. */
  readonly checked: number;
  /** The last valid row, or 0 and `GENESIS_HASH`. */
  readonly seq: number;
  readonly hash: string;
  /** The first break. Rows after it are not verified. */
  readonly reason: BreakReason | null;
  readonly broken_seq: number | null;
  /** Verifies the next row in seq order. */
  push(row: HashedRow): BreakReason | null;
  /** Compares the end with the stored head. Null is correct only for an empty chain. */
  finish(head: ChainHead | null): BreakReason | null;
};

/** `start` is the last row that was verified before, if any. */
export function createChainVerifier(
  sha256Hex: (text: string) => string,
  start: ChainHead = { seq: 0, hash: GENESIS_HASH },
): ChainVerifier {
  let checked = 0;
  let good = start;
  let broken: { reason: BreakReason; seq: number } | null = null;
  return {
    get checked() {
      return checked;
    },
    get seq() {
      return good.seq;
    },
    get hash() {
      return good.hash;
    },
    get reason() {
      return broken?.reason ?? null;
    },
    get broken_seq() {
      return broken?.seq ?? null;
    },
    push(row) {
      if (broken) return broken.reason;
      const reason = rowBreak(good, row, sha256Hex);
      if (reason) {
        broken = { reason, seq: good.seq + 1 };
        return reason;
      }
      checked++;
      good = { seq: row.seq, hash: row.hash };
      return null;
    },
    finish(head) {
      broken ??= headBreak(good, head ?? { seq: 0, hash: GENESIS_HASH });
      return broken?.reason ?? null;
    },
  };
}

function rowBreak(good: ChainHead, row: HashedRow, sha256Hex: (text: string) => string): BreakReason | null {
  if (row.seq !== good.seq + 1) return "seq_gap";
  if (row.prev_hash !== good.hash) return "prev_hash_mismatch";
  const preimage = preimageOf(row);
  return preimage !== null && sha256Hex(preimage) === row.hash ? null : "hash_mismatch";
}

/** Null for a row without a canonical form, such as one with a lone surrogate in it. */
function preimageOf(row: HashedRow): string | null {
  try {
    return auditPreimage(row, row.payload_text);
  } catch {
    return null;
  }
}

function headBreak(good: ChainHead, head: ChainHead): { reason: BreakReason; seq: number } | null {
  if (head.seq === good.seq && head.hash === good.hash) return null;
  const seq = head.seq === good.seq ? good.seq : Math.min(head.seq, good.seq) + 1;
  return { reason: "head_mismatch", seq };
}
