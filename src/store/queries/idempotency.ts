// Idempotency records. Every change is one conditional statement, so jobs may run in a batch: the statement's result
// decides, and a row read afterwards only explains why it changed nothing (docs/design/0006-idempotency-fencing.md).
import { timingSafeEqual } from "node:crypto";
import { sql } from "kysely";
import {
  LOCK_MS,
  STORED_BYTES_MAX,
  type Claim,
  type ClaimResult,
  type CompletionResult,
  type Completion,
  type RecordOutcome,
  type ClaimScope,
} from "../../kernel/idempotency.ts";
import { statement, type Tx } from "../engine/statement.ts";

type AtScope = ClaimScope & { now: number };

const ATTEMPTS_MAX = 5;

/** Claims a record that is free, expired or whose lease lapsed. Returns no row if another claim holds it. */
const takeRecord = statement<AtScope & Claim & { lease_until: number; expires_at: number }>()((db, p) =>
  db
    .insertInto("idempotency_records")
    .values({
      workspace_id: p.workspace_id,
      env: p.env,
      scope_hash: p.scope_hash,
      fingerprint: p.fingerprint,
      token_hash: p.token_hash,
      stolen: 0,
      ttl_ms: p.ttl_ms,
      lease_until: p.lease_until,
      expires_at: p.expires_at,
      body_stored: 0,
      stored_bytes: 0,
    })
    .onConflict((oc) =>
      oc
        .columns(["workspace_id", "env", "scope_hash"])
        .doUpdateSet((eb) => ({
          fingerprint: eb.ref("excluded.fingerprint"),
          token_hash: eb.ref("excluded.token_hash"),
          stolen: sql<number>`case when idempotency_records.expires_at > ${p.now} then 1 else 0 end`,
          ttl_ms: eb.ref("excluded.ttl_ms"),
          lease_until: eb.ref("excluded.lease_until"),
          expires_at: eb.ref("excluded.expires_at"),
          completed_at: null,
          status: null,
          body_stored: 0,
          sealed_response: null,
        }))
        .where((eb) =>
          eb.or([
            eb("idempotency_records.expires_at", "<=", p.now),
            eb.and([
              eb("idempotency_records.completed_at", "is", null),
              eb("idempotency_records.lease_until", "<=", p.now),
              eb("idempotency_records.fingerprint", "=", eb.ref("excluded.fingerprint")),
            ]),
          ]),
        ),
    )
    .returning("stolen"),
);

const recordAt = statement<AtScope>()((db, p) =>
  db
    .selectFrom("idempotency_records")
    .selectAll()
    .where("workspace_id", "=", p.workspace_id)
    .where("env", "=", p.env)
    .where("scope_hash", "=", p.scope_hash)
    .where("expires_at", ">", p.now),
);

export async function claimRecord(tx: Tx, scope: ClaimScope, claim: Claim, now: number): Promise<ClaimResult> {
  const times = { now, lease_until: now + LOCK_MS, expires_at: now + Math.max(claim.ttl_ms, LOCK_MS) };
  for (let attempt = 1; ; attempt++) {
    const taken = await takeRecord.first(tx, { ...scope, ...claim, ...times });
    if (taken) return { state: "execute", stolen: taken.stolen === 1 };
    const row = await recordAt.first(tx, { ...scope, now });
    if (!row) {
      // Released between the two statements: try again.
      if (attempt === ATTEMPTS_MAX) throw new Error("an idempotency record changed during every attempt to claim it");
      continue;
    }
    if (row.fingerprint !== claim.fingerprint) return { state: "mismatch" };
    if (row.completed_at === null) return { state: "in_progress", lease_left_ms: row.lease_until - now };
    const { status, sealed_response } = row;
    return { state: "replay", status: status ?? 0, body_stored: row.body_stored === 1, sealed: sealed_response };
  }
}

type Fenced = AtScope & { token_hash: string };

/** Why a fenced statement changed nothing. `mine`: the record holds the caller's own token, as after a repeated call. */
async function explainNoChange(
  tx: Tx,
  fence: Fenced,
): Promise<{ outcome: RecordOutcome; mine: boolean; body_stored: boolean }> {
  const row = await recordAt.first(tx, fence);
  if (!row) return { outcome: "not_found", mine: false, body_stored: false };
  const mine = timingSafeEqual(Buffer.from(row.token_hash), Buffer.from(fence.token_hash));
  const outcome = row.completed_at === null ? "lock_lost" : "completed";
  return { outcome, mine, body_stored: row.body_stored === 1 };
}

const reserveBytes = statement<{ workspace_id: string; bytes: number; max: number }>()((db, p) =>
  db
    .insertInto("idempotency_quotas")
    .values({ workspace_id: p.workspace_id, stored_bytes: p.bytes })
    .onConflict((oc) =>
      oc
        .column("workspace_id")
        .doUpdateSet({ stored_bytes: sql<number>`idempotency_quotas.stored_bytes + ${p.bytes}` })
        .where(sql<boolean>`idempotency_quotas.stored_bytes + ${p.bytes} <= ${p.max}`),
    ),
);

const releaseBytes = statement<{ workspace_id: string; bytes: number }>()((db, p) =>
  db
    .updateTable("idempotency_quotas")
    .set({ stored_bytes: sql<number>`stored_bytes - ${p.bytes}` })
    .where("workspace_id", "=", p.workspace_id),
);

const completeRow = statement<
  Fenced & { status: number; ttl_ms: number | null; body_stored: number; bytes: number; sealed: Uint8Array | null }
>()((db, p) =>
  db
    .updateTable("idempotency_records")
    .set({
      completed_at: p.now,
      status: p.status,
      ttl_ms: sql<number>`coalesce(cast(${p.ttl_ms} as bigint), ttl_ms)`,
      expires_at: sql<number>`cast(${p.now} as bigint) + coalesce(cast(${p.ttl_ms} as bigint), ttl_ms)`,
      body_stored: p.body_stored,
      stored_bytes: sql<number>`stored_bytes + ${p.bytes}`,
      sealed_response: p.sealed,
    })
    .where("workspace_id", "=", p.workspace_id)
    .where("env", "=", p.env)
    .where("scope_hash", "=", p.scope_hash)
    .where("token_hash", "=", p.token_hash)
    .where("completed_at", "is", null)
    .where("expires_at", ">", p.now),
);

/** Reserves quota for the response: with its body, else without, else only the status is stored. */
async function reserveResponse(
  tx: Tx,
  workspace_id: string,
  { sealed_full: whole, sealed_without_body: bare }: Completion,
  max: number,
) {
  for (const sealed of [whole, bare]) {
    const bytes = sealed?.length ?? 0;
    if (sealed && bytes <= max && (await reserveBytes.run(tx, { workspace_id, bytes, max })) > 0) {
      return { sealed, bytes, body_stored: sealed === whole };
    }
  }
  return { sealed: null, bytes: 0, body_stored: false };
}

export async function completeRecord(
  tx: Tx,
  scope: ClaimScope,
  completion: Completion,
  now: number,
  storedBytesMax = STORED_BYTES_MAX,
): Promise<CompletionResult> {
  const { workspace_id } = scope;
  const { token_hash, status, ttl_ms } = completion;
  const fence = { ...scope, token_hash, now };
  const { sealed, bytes, body_stored } = await reserveResponse(tx, workspace_id, completion, storedBytesMax);
  const values = { ...fence, status, ttl_ms, body_stored: body_stored ? 1 : 0, bytes, sealed };
  if ((await completeRow.run(tx, values)) > 0) return { outcome: "ok", body_stored };
  if (bytes > 0) await releaseBytes.run(tx, { workspace_id, bytes });
  const found = await explainNoChange(tx, fence);
  if (found.outcome === "completed" && found.mine) return { outcome: "ok", body_stored: found.body_stored };
  return { outcome: found.outcome, body_stored: false };
}

const deleteRow = statement<Fenced>()((db, p) =>
  db
    .deleteFrom("idempotency_records")
    .where("workspace_id", "=", p.workspace_id)
    .where("env", "=", p.env)
    .where("scope_hash", "=", p.scope_hash)
    .where("token_hash", "=", p.token_hash)
    .where("completed_at", "is", null)
    .where("expires_at", ">", p.now)
    .returning("stored_bytes"),
);

export async function releaseRecord(
  tx: Tx,
  scope: ClaimScope,
  token_hash: string,
  now: number,
): Promise<RecordOutcome> {
  const deleted = await deleteRow.first(tx, { ...scope, token_hash, now });
  if (!deleted) return (await explainNoChange(tx, { ...scope, token_hash, now })).outcome;
  const { workspace_id } = scope;
  if (deleted.stored_bytes > 0) await releaseBytes.run(tx, { workspace_id, bytes: deleted.stored_bytes });
  return "ok";
}

/** A heartbeat also extends the record: a short ttl must not expire it under a running handler. */
const extendRow = statement<Fenced & { lease_until: number }>()((db, p) =>
  db
    .updateTable("idempotency_records")
    .set({
      lease_until: p.lease_until,
      expires_at: sql<number>`case when expires_at < ${p.lease_until} then ${p.lease_until} else expires_at end`,
    })
    .where("workspace_id", "=", p.workspace_id)
    .where("env", "=", p.env)
    .where("scope_hash", "=", p.scope_hash)
    .where("token_hash", "=", p.token_hash)
    .where("completed_at", "is", null)
    .where("expires_at", ">", p.now),
);

export async function heartbeatRecord(
  tx: Tx,
  scope: ClaimScope,
  token_hash: string,
  now: number,
): Promise<RecordOutcome> {
  const fence = { ...scope, token_hash, now };
  if ((await extendRow.run(tx, { ...fence, lease_until: now + LOCK_MS })) > 0) return "ok";
  return (await explainNoChange(tx, fence)).outcome;
}

const deleteExpired = statement<{ now: number; limit: number }>()((db, p) =>
  db
    .deleteFrom("idempotency_records")
    .where((eb) =>
      eb(
        eb.refTuple("workspace_id", "env", "scope_hash"),
        "in",
        eb
          .selectFrom("idempotency_records as old")
          .select(["old.workspace_id", "old.env", "old.scope_hash"])
          .where("old.expires_at", "<=", p.now)
          .limit(p.limit)
          .$asTuple("workspace_id", "env", "scope_hash"),
      ),
    )
    .where("expires_at", "<=", p.now)
    .returning(["workspace_id", "stored_bytes"]),
);

/** Deletes up to `limit` expired records and releases their quota. Returns their number. */
export async function reapRecords(tx: Tx, now: number, limit: number): Promise<number> {
  const deleted = await deleteExpired.all(tx, { now, limit });
  for (const [workspace_id, rows] of Map.groupBy(deleted, (row) => row.workspace_id)) {
    const bytes = rows.reduce((sum, row) => sum + row.stored_bytes, 0);
    if (bytes > 0) await releaseBytes.run(tx, { workspace_id, bytes });
  }
  return deleted.length;
}
