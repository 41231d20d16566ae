// One verification: what the server claims, the rows, and what this browser remembers of the last time.
import type { BreakReason } from "../../../kernel/audit/chain.ts";
import { call, request } from "../api/call.ts";
import { readSetting, writeSetting } from "../api/web-storage.ts";
import { openCheckpoint, type Opened } from "./checkpoint.ts";
import { linesOf, verifyRows, type OnRows, type SeenRow, type ChainVerdict } from "./verify.ts";

export const REASONS: Record<BreakReason, string> = {
  seq_gap: "a row is missing or out of order",
  prev_hash_mismatch: "it does not continue the row before it",
  hash_mismatch: "its content does not match its hash",
  head_mismatch: "the log does not end where the server says",
  checkpoint_mismatch: "the rows are not those of the signed checkpoint",
};

export type Result = { verdict: ChainVerdict; opened: Opened; seen: SeenRow | null; at: string };

function recall(workspaceId: string): SeenRow | null {
  try {
    return JSON.parse(readSetting(`audit:${workspaceId}`) ?? "null") as SeenRow | null;
  } catch {
    return null;
  }
}

export async function verifyHere(workspaceId: string, abort: AbortSignal, onRows: OnRows): Promise<Result> {
  const signal = { signal: abort };
  // Both before the rows, which then contain at least what they cover.
  const { head_seq, head_hash } = await call("GET /v1/audit_logs/chain", {}, signal);
  const note = await request("GET /v1/audit_logs/checkpoint", {}, signal);
  const opened = await openCheckpoint(await note.text(), note.headers.get("audit-vkey") ?? "", workspaceId);
  const seen = recall(workspaceId);
  const { body } = await request("GET /v1/audit_logs/export", {}, { ...signal, isStream: true });
  const expected = { workspaceId, head: { seq: head_seq, hash: head_hash }, checkpoint: opened.checkpoint, seen };
  const verdict = await verifyRows(body ? linesOf(body) : noLines(), expected, onRows);
  if (opened.signed === false) verdict.broken ??= { seq: verdict.head.seq, reason: "checkpoint_mismatch" };
  const at = new Date().toISOString();
  if (!verdict.broken && verdict.continues !== false)
    writeSetting(`audit:${workspaceId}`, JSON.stringify({ ...verdict.head, at } satisfies SeenRow));
  return { verdict, opened, seen, at };
}

async function* noLines(): AsyncGenerator<string> {}
