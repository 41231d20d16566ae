// Idempotency records. Every change is one conditional statement, so jobs may run in a batch: the statement's result
// decides, and a row read afterwards only explains why it changed nothing (docs/design/0006-idempotency-fencing.md).
import { timingSafeEqual } from "node:crypto";
import { sql } from "kysely";
import {
  LOCK_MS,
  RECORDS_MAX,
  type Claim,
  type ClaimResult,
  type CompletionResult,
  type Completion,
  type RecordOutcome,
  type ClaimScope,
} from "../../kernel/idempotency.ts";
import { rowBy } from "../engine/rows.ts";
import { statement } from "../engine/statement.ts";
import type { Tally, Tx } from "../engine/tx.ts";
import { cellUpsert, tallyCell } from "./idempotency-claim-counts.ts";

type AtScope = ClaimScope & { now: number };
type Times = { lease_until: number; expires_at: number };

const ATTEMPTS_MAX = 5;

const databaseTime = statement()((db, _, dialect) => {
  const seconds = dialect === "postgres" ? sql`extract(epoch from clock_timestamp())` : sql`unixepoch('subsec')`;
  return db.selectNoFrom(sql<number>`cast(floor(${seconds} * 1000) as bigint)`.as("now"));
});

/** The database's own time, which every process shares. Read once for the jobs of a batch. */
export async function databaseNow(tx: Tx): Promise<number> {
  return (await databaseTime.firstMemoized(tx, {}))!.now;
}

const insertRecord = statement<ClaimScope & Claim & Times>()((db, p) =>
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
    .onConflict((oc) => oc.columns(["workspace_id", "env", "scope_hash"]).doNothing()),
);

/**
 * Claims a record that is expired, or whose lease is, and drops its response. Returns no row if another claim holds
 * it, or if its response is no longer the one of these bytes.
 */
const reclaimRecord = statement<AtScope & Claim & Times & { stored_bytes: number }>()((db, p) =>
  db
    .updateTable("idempotency_records")
    .set({
      fingerprint: p.fingerprint,
      token_hash: p.token_hash,
      stolen: sql<number>`case when expires_at > ${p.now} then 1 else 0 end`,
      ttl_ms: p.ttl_ms,
      lease_until: p.lease_until,
      expires_at: p.expires_at,
      completed_at: null,
      status: null,
      body_stored: 0,
      sealed_response: null,
      stored_bytes: 0,
    })
    .where("workspace_id", "=", p.workspace_id)
    .where("env", "=", p.env)
    .where("scope_hash", "=", p.scope_hash)
    .where("stored_bytes", "=", p.stored_bytes)
    .where((eb) =>
      eb.or([
        eb("expires_at", "<=", p.now),
        eb.and([eb("completed_at", "is", null), eb("lease_until", "<=", p.now), eb("fingerprint", "=", p.fingerprint)]),
      ]),
    )
    .returning("stolen"),
);

/** Includes a record that has expired but is not yet deleted. */
const recordAt = rowBy("idempotency_records", ["workspace_id", "env", "scope_hash"]);

export async function claimRecord(tx: Tx, scope: ClaimScope, claim: Claim, now: number): Promise<ClaimResult> {
  const times = { now, lease_until: now + LOCK_MS, expires_at: now + Math.max(claim.ttl_ms, LOCK_MS) };
  const values = { ...scope, ...claim, ...times };
  const records = await tallyCell(tx, scope, "records");
  for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
    const hasRoom = records.n < RECORDS_MAX;
    if (hasRoom && (await insertCounted(tx, values, records))) return { state: "execute", stolen: false };
    const row = await recordAt.first(tx, scope);
    if (!row && !hasRoom) return { state: "full" };
    if (!row) continue; // released between the two statements
    if (row.expires_at > now) {
      if (row.fingerprint !== claim.fingerprint) return { state: "mismatch" };
      const { status, sealed_response } = row;
      if (row.completed_at !== null)
        return { state: "replay", status: status ?? 0, body_stored: row.body_stored === 1, sealed: sealed_response };
      if (row.lease_until > now) return { state: "in_progress", lease_left_ms: await leaseLeft(tx, row, now) };
    }
    const { stored_bytes } = row;
    const taken = await reclaimRecord.first(tx, { ...values, stored_bytes });
    if (!taken) continue;
    if (stored_bytes > 0) await count(tx, scope, { records: 0, stored_bytes: -stored_bytes });
    return { state: "execute", stolen: taken.stolen === 1 };
  }
  throw new Error("an idempotency record changed during every attempt to claim it");
}

/**
 * How long the lease of a claim still holds. No lease is set further ahead than LOCK_MS: one that is was set before the
 * clock went back, and is shortened. A holder that lives extends it again; one that crashed lets it expire.
 */
async function leaseLeft(tx: Tx, row: Omit<Fenced, "now"> & { lease_until: number }, now: number): Promise<number> {
  if (row.lease_until <= now + 2 * LOCK_MS) return row.lease_until - now;
  await extendRow.run(tx, { ...row, now, lease_until: now + LOCK_MS });
  return LOCK_MS;
}

/** Takes the place in the tally first: on PostgreSQL the jobs of a batch run concurrently. */
async function insertCounted(tx: Tx, values: ClaimScope & Claim & Times, records: Tally): Promise<boolean> {
  records.n++;
  if ((await insertRecord.run(tx, values)) > 0) {
    await count(tx, values, { records: 1, stored_bytes: 0 });
    return true;
  }
  records.n--;
  return false;
}

function count(tx: Tx, { workspace_id, env }: ClaimScope, more: { records: number; stored_bytes: number }) {
  return tx.upsertAdditive(cellUpsert, [{ workspace_id, env, ...more }]);
}

type Fenced = AtScope & { token_hash: string };

/** The record that the caller has claimed, unless it is completed, has expired or was claimed by another one. */
const isHeld = ({ workspace_id, env, scope_hash, token_hash, now }: Fenced) => sql<boolean>`
  workspace_id = ${workspace_id} and env = ${env} and scope_hash = ${scope_hash} and token_hash = ${token_hash}
  and completed_at is null and expires_at > ${now}`;

/**
 * Why a fenced statement changed nothing. `mine`: the record holds the caller's own token, as after a repeated call.
 */
async function explainNoChange(
  tx: Tx,
  fence: Fenced,
): Promise<{ outcome: RecordOutcome; mine: boolean; body_stored: boolean }> {
  const row = await recordAt.first(tx, fence);
  if (!row || row.expires_at <= fence.now) return { outcome: "not_found", mine: false, body_stored: false };
  const mine = timingSafeEqual(Buffer.from(row.token_hash), Buffer.from(fence.token_hash));
  const outcome = row.completed_at === null ? "lock_lost" : "completed";
  return { outcome, mine, body_stored: row.body_stored === 1 };
}

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
    .where(isHeld(p)),
);

/** Chooses what fits: the response with its body, else without it, else only its status. */
function fitting({ sealed_full: whole, sealed_without_body: bare }: Completion, room: number) {
  const sealed = [whole, bare].find((each) => each !== null && each.length <= room) ?? null;
  return { sealed, bytes: sealed?.length ?? 0, body_stored: sealed !== null && sealed === whole };
}

export async function completeRecord(
  tx: Tx,
  scope: ClaimScope,
  completion: Completion,
  now: number,
  storedBytesMax: number,
): Promise<CompletionResult> {
  const { token_hash, status, ttl_ms } = completion;
  const fence = { ...scope, token_hash, now };
  const stored = await tallyCell(tx, scope, "stored_bytes");
  const { sealed, bytes, body_stored } = fitting(completion, storedBytesMax - stored.n);
  stored.n += bytes;
  const values = { ...fence, status, ttl_ms, body_stored: body_stored ? 1 : 0, bytes, sealed };
  if ((await completeRow.run(tx, values)) > 0) {
    if (bytes > 0) await count(tx, scope, { records: 0, stored_bytes: bytes });
    return { outcome: "ok", body_stored };
  }
  stored.n -= bytes;
  const found = await explainNoChange(tx, fence);
  if (found.outcome === "completed" && found.mine) return { outcome: "ok", body_stored: found.body_stored };
  return { outcome: found.outcome, body_stored: false };
}

const deleteRow = statement<Fenced>()((db, p) =>
  db.deleteFrom("idempotency_records").where(isHeld(p)).returning("stored_bytes"),
);

export async function releaseRecord(
  tx: Tx,
  scope: ClaimScope,
  token_hash: string,
  now: number,
): Promise<RecordOutcome> {
  const deleted = await deleteRow.first(tx, { ...scope, token_hash, now });
  if (!deleted) return (await explainNoChange(tx, { ...scope, token_hash, now })).outcome;
  await count(tx, scope, { records: -1, stored_bytes: -deleted.stored_bytes });
  return "ok";
}

/** Sets the lease. A heartbeat also extends the record: a short ttl must not expire it under a running handler. */
const extendRow = statement<Fenced & { lease_until: number }>()((db, p) =>
  db
    .updateTable("idempotency_records")
    .set({
      lease_until: p.lease_until,
      expires_at: sql<number>`case when expires_at < ${p.lease_until} then ${p.lease_until} else expires_at end`,
    })
    .where(isHeld(p)),
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
    .returning(["workspace_id", "env", "stored_bytes"]),
);

/** Deletes up to `limit` expired records and gives their places back. Returns their number. */
export async function reapRecords(tx: Tx, now: number, limit: number): Promise<number> {
  const deleted = await deleteExpired.all(tx, { now, limit });
  const places = deleted.map((row) => ({ ...row, records: -1, stored_bytes: -row.stored_bytes }));
  await tx.upsertAdditive(cellUpsert, places);
  return deleted.length;
}
