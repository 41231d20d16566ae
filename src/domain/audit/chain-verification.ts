// Verifies audit chains. A chain of ordinary length is re-derived by every call. A longer one is verified from a mark
// to its head: a job re-derives the whole chain from time to time and leaves the mark, signed with the checkpoint key.
// A response says how far the mark reaches and how old it is, and never calls rows verified that nothing has read.
import { utf8 } from "../../kernel/crypto/bytes.ts";
import { GENESIS_HASH, type BreakReason } from "../../kernel/audit/chain.ts";
import { DAY_MS, HOUR_MS, isFuture, latestCredible } from "../../kernel/durations.ts";
import { fail } from "../../kernel/errors.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { verifyEd25519 } from "../../platform/crypto.ts";
import { errorFields } from "../../platform/errors.ts";
import { atMost } from "../../platform/timing.ts";
import type { ChainCheck, VerifiedPart } from "../../store/audit/verify.ts";
import { headOf } from "../../store/queries/audit.ts";
import { chainsDueForVerification, markOf, saveMark } from "../../store/queries/audit-marks.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import type { AuditMarkRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { loadCheckpointSigner } from "../vault/signing-keys.ts";
import { checkpointOrigin, expectedByCheckpoint } from "./checkpoints.ts";

/** How long a call waits for the first verification of a long chain. */
const WAIT_MS = 25_000;
/** A whole verification that ended this recently is not repeated on demand. */
const RECENT_MS = HOUR_MS;

type Found = Pick<ChainCheck, "checked" | "head_seq" | "head_hash" | "broken_seq" | "reason">;

type AuditChain = Found & {
  object: "audit_chain";
  verified: boolean;
  /** The last full verification, if this one started from a mark. */
  full?: { seq: number; at: string; running: boolean; checked: number };
};

function viewChain({ checked, head_seq, head_hash, broken_seq, reason }: Found): AuditChain {
  return { object: "audit_chain", verified: reason === null, checked, head_seq, head_hash, broken_seq, reason };
}

/** `full` also starts a verification of the whole chain, unless one is running or has just ended. */
export async function verifyChain(
  services: Services,
  workspace_id: string,
  { full = false, waitMs = WAIT_MS } = {},
): Promise<AuditChain> {
  const head = (await headOf.first(services.store.read, { workspace_id })) ?? { seq: 0, hash: GENESIS_HASH };
  if (head.seq <= services.settings.audit_verify_rows) return viewChain(await verifyFrom(services, workspace_id));
  let mark = await readMark(services, workspace_id);
  if (!mark) {
    await atMost(waitMs, verifyFull(services, workspace_id));
    mark = await readMark(services, workspace_id);
    if (!mark) throw fail("unavailable", { retryAfterSeconds: 5 });
  } else if (full && services.clock.now() - mark.verified_at >= RECENT_MS) startFull(services, workspace_id);
  const found = await verifyFromMark(services, workspace_id, mark, { head_seq: head.seq, head_hash: head.hash });
  const progress = services.store.verifyProgress(workspace_id);
  const { seq, verified_at } = mark;
  return {
    ...viewChain(found),
    full: { seq, at: formatTimestamp(verified_at), running: progress !== null, checked: progress ?? seq },
  };
}

async function verifyFromMark(
  services: Services,
  workspace_id: string,
  mark: AuditMarkRow,
  head: Pick<Found, "head_seq" | "head_hash">,
): Promise<Found> {
  const { seq, hash, frontier, broken_seq, reason } = mark;
  if (reason !== null) return { ...head, checked: seq, broken_seq, reason: reason as BreakReason };
  const tail = await verifyFrom(services, workspace_id, { seq, hash, frontier: JSON.parse(frontier) as string[] });
  if (tail.reason !== null) await storeMark(services, workspace_id, tail, mark.verified_at);
  return { ...tail, checked: seq + tail.checked };
}

/** Recomputes every hash after `from`, off the main thread, and compares the chain with its newest checkpoint. */
async function verifyFrom(services: Services, workspace_id: string, from?: VerifiedPart): Promise<ChainCheck> {
  // Read the checkpoint first: read after the chain, it could cover rows that the chain did not have yet.
  const expected = await expectedByCheckpoint(services, workspace_id);
  const covered = expected.filter(({ size }) => size >= (from?.seq ?? 0));
  const workspace = await workspaceById.first(services.store.read, { id: workspace_id });
  const check = await services.store.verify(workspace_id, covered, {
    from,
    account: workspace?.created_by ?? undefined,
  });
  await services.store.durable();
  return check;
}

/** Verifies the whole chain and stores the mark. Joins a run of this process. */
async function verifyFull(services: Services, workspace_id: string): Promise<void> {
  const check = await verifyFrom(services, workspace_id);
  await storeMark(services, workspace_id, check, services.clock.now());
  if (check.reason)
    services.log.error("an audit chain is broken", { workspace_id, seq: check.broken_seq, reason: check.reason });
}

function startFull(services: Services, workspace_id: string): void {
  verifyFull(services, workspace_id).catch((error: unknown) => {
    services.log.error("an audit chain could not be verified", { workspace_id, ...errorFields(error) });
  });
}

/** Scheduled job: verifies every long chain whose mark is old. */
export async function verifyDueChains(services: Services): Promise<void> {
  const { audit_verify_rows: rows, audit_verify_every: everyMs } = services.settings;
  if (everyMs === null) return;
  const now = services.clock.now();
  const due = { rows, before: now - everyMs, latest: latestCredible(now) };
  for (const { workspace_id } of await chainsDueForVerification.all(services.store.read, due)) {
    if (services.shutdown.signal.aborted) return;
    await verifyFull(services, workspace_id);
  }
}

type Signed = Omit<AuditMarkRow, "signature">;

async function signedText(services: Services, mark: Signed): Promise<Uint8Array> {
  const { seq, hash, frontier, verified_at, broken_seq, reason } = mark;
  const origin = await checkpointOrigin(services, mark.workspace_id);
  const fields = [origin, seq, hash, frontier, verified_at, broken_seq, reason];
  return utf8(`keyrack-audit-mark-v1\n${JSON.stringify(fields)}`);
}

async function storeMark(
  services: Services,
  workspace_id: string,
  { part, broken_seq, reason }: ChainCheck,
  verified_at: number,
): Promise<void> {
  const { seq, hash } = part;
  const mark = { workspace_id, seq, hash, frontier: JSON.stringify(part.frontier), verified_at, broken_seq, reason };
  const signer = await loadCheckpointSigner(services);
  const signature = Buffer.from(signer.sign(await signedText(services, mark))).toString("base64");
  await record(services, (tx) => saveMark.run(tx, { ...mark, signature }));
}

/**
 * Null unless our key signed it, not long ago: a stranger's mark, an old one that was put back, or one of a clock that
 * was ahead would hide rows that were altered since.
 */
async function readMark(services: Services, workspace_id: string): Promise<AuditMarkRow | null> {
  const row = await markOf.first(services.store.read, { workspace_id });
  const now = services.clock.now();
  const oldest = now - 2 * (services.settings.audit_verify_every ?? DAY_MS);
  if (!row || row.verified_at < oldest || isFuture(row.verified_at, now)) return null;
  const { signature, ...mark } = row;
  const { publicKey } = await loadCheckpointSigner(services);
  const text = await signedText(services, mark);
  return verifyEd25519(publicKey, text, Buffer.from(signature, "base64")) ? row : null;
}
