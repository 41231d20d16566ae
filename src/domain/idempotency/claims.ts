// Idempotency claims for the vendor's API (docs/design/0006-idempotency-fencing.md): one caller executes; others wait,
// get the stored response, or are rejected for another payload. Caution: `execute` promises that no other caller got
// it, so an undecided claim must be a 503.
import { randomBytes } from "node:crypto";
import {
  BODY_BYTES_MAX,
  LOCK_MS,
  RECORDS_MAX,
  STORED_BYTES_MAX,
  TTL_MS_DEFAULT,
  type ClaimStore,
  type RecordOutcome,
  type ClaimScope,
  unreplayable,
} from "../../kernel/idempotency.ts";
import { cellOwner, type Owner } from "../../fairness/owners.ts";
import type { Env } from "../../kernel/credentials.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import {
  claimRecord,
  completeRecord,
  databaseNow,
  heartbeatRecord,
  reapRecords,
  releaseRecord,
} from "../../store/queries/idempotency-claims.ts";
import { addMissingCells, anyCell, cellUpsert, nextExcess } from "../../store/queries/idempotency-claim-counts.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { IdempotencyCellRow } from "../../store/schema/tables.ts";
import { limitRefusal } from "../limits/throttles.ts";
import { requireEnvAccess } from "../core/env-access.ts";
import type { Machine, Services } from "../core/context.ts";
import { threadReader } from "../core/read-slots.ts";
import { inPieces, record } from "../core/record.ts";
import type { Vault } from "../vault/vault.ts";
import { sha256Hex } from "../../platform/crypto.ts";

const TOKEN_BYTES = 24;
const RETRY_MS_MIN = 100;
/** How often expired records are deleted, which frees their places. */
const REAP_MS = MINUTE_MS;
const TABLE = "idempotency_records";

type RecordName = { scope_hash: string; env: Env };

/**
 * The time that leases are judged by. On PostgreSQL it is the database's: a process whose clock is ahead would take a
 * claim for which another one has just returned `execute`.
 */
export function claimClock({ store, clock }: Pick<Services, "store" | "clock">): Services["claimNow"] {
  return store.read.dialect === "postgres" ? databaseNow : () => clock.steady();
}

/** Claims in the database: concurrent ones share a group commit. */
export function databaseClaims(services: Pick<Services, "store" | "claimNow" | "writtenBytes">): ClaimStore {
  const write = <T>(scope: ClaimScope, work: (tx: Tx, now: number) => Promise<T>, locks: string[] = []): Promise<T> => {
    const options = { batch: true, owner: ownerOfClaim(scope), locks };
    return record(services, async (tx) => work(tx, await services.claimNow(tx)), options);
  };
  // The counts of the cell are written with its records.
  const countsOf = ({ workspace_id, env }: ClaimScope): string[] => [`claims/${workspace_id}/${env}`];
  // A completion is never refused, because the work is done already. It stores only its status if there is no room.
  const bytesMax = (scope: ClaimScope): number =>
    services.writtenBytes.hasRoom(ownerOfClaim(scope)) ? STORED_BYTES_MAX : 0;
  return {
    claim: (scope, claim) => write(scope, (tx, now) => claimRecord(tx, scope, claim, now), countsOf(scope)),
    complete: (scope, completion) =>
      write(scope, (tx, now) => completeRecord(tx, scope, completion, now, bytesMax(scope)), countsOf(scope)),
    release: (scope, token) => write(scope, (tx, now) => releaseRecord(tx, scope, token, now), countsOf(scope)),
    heartbeat: (scope, token) => write(scope, (tx, now) => heartbeatRecord(tx, scope, token, now)),
    close: () => {},
  };
}

/** Deletes expired records in small transactions, so that claims do not wait behind a long one. */
export function reapIdempotency(services: Services): Promise<number> {
  return inPieces(services, async (tx, limit) => reapRecords(tx, await services.claimNow(tx), limit));
}

/**
 * Corrects counts that processes of an earlier release have passed by, one cell at a time. Each is compared at one
 * moment, off the main thread, and the difference subtracted, so claims continue.
 */
export async function recountIdempotency(services: Services): Promise<void> {
  const { store, shutdown } = services;
  await record(services, addMissingCells);
  // A thread takes a tenth of the CPU time of a server's start, and most new servers have no record.
  if (!(await anyCell.first(store.read, {}))) return;
  let cell: Pick<IdempotencyCellRow, "workspace_id" | "env"> = { workspace_id: "", env: "live" };
  while (!shutdown.signal.aborted) {
    const excess = await nextExcess(threadReader(store), cell);
    if (!excess) return;
    const { records, stored_bytes } = excess;
    if (records !== 0 || stored_bytes !== 0)
      await record(services, (tx) =>
        tx.upsertAdditive(cellUpsert, [{ ...excess, records: -records, stored_bytes: -stored_bytes }]),
      );
    cell = excess;
  }
}

function scopeOf({ actor }: Machine, { env, scope_hash }: RecordName): ClaimScope {
  requireEnvAccess(actor, env);
  const { workspace_id, account_id } = actor;
  return { workspace_id, account_id, env, scope_hash };
}

function ownerOfClaim({ workspace_id, env, account_id }: ClaimScope): Owner {
  return cellOwner(workspace_id, env, account_id);
}

type NewClaim = RecordName & { fingerprint: string; ttl_ms?: number | undefined };

export async function claim(ctx: Machine, input: NewClaim) {
  const scope = scopeOf(ctx, input);
  const lock_token = randomBytes(TOKEN_BYTES).toString("base64url");
  const { fingerprint, ttl_ms = TTL_MS_DEFAULT } = input;
  const claimed = await ctx.services.claims.claim(scope, { fingerprint, ttl_ms, token_hash: sha256Hex(lock_token) });
  if (claimed.state === "full") throw refuseClaim(ctx.services, scope);
  const base = {
    object: "idempotency_claim" as const,
    state: claimed.state,
    lock_token: null as string | null,
    lock_ms: LOCK_MS,
    stolen: false,
    retry_after_ms: null as number | null,
    response: null as StoredResponse | null,
    max_body_bytes: BODY_BYTES_MAX,
  };
  if (claimed.state === "execute") return { ...base, lock_token, stolen: claimed.stolen };
  if (claimed.state === "in_progress") {
    return { ...base, retry_after_ms: Math.min(LOCK_MS, Math.max(RETRY_MS_MIN, claimed.lease_left_ms)) };
  }
  if (claimed.state === "mismatch") return base;
  const { status, body_stored } = claimed;
  const stored = claimed.sealed
    ? unsealResponse(ctx.services.vault, scope, claimed.sealed)
    : { headers: {}, body: null };
  const body = body_stored && stored.body ? stored.body.toString("base64") : null;
  return { ...base, response: { status, headers: stored.headers, body, body_stored } };
}

function refuseClaim({ shares, clock }: Services, scope: ClaimScope) {
  shares.of("idempotency").countRefusal(ownerOfClaim(scope));
  const resetMs = REAP_MS - (clock.now() % REAP_MS);
  return limitRefusal("share_spent", {
    id: "idempotency",
    limit: RECORDS_MAX,
    windowMs: REAP_MS,
    remaining: 0,
    resetMs,
  });
}

type Headers = Record<string, string>;
type StoredResponse = { status: number; headers: Headers; body: string | null; body_stored: boolean };

type NewCompletion = RecordName & {
  lock_token: string;
  status: number;
  headers: Headers;
  body: string | null;
  ttl_ms?: number | undefined;
};

export async function complete(ctx: Machine, input: NewCompletion) {
  const scope = scopeOf(ctx, input);
  const headers = replayableHeaders(input.headers);
  const body = input.body === null ? null : Buffer.from(input.body, "base64");
  const fits = body !== null && body.length <= BODY_BYTES_MAX;
  const { outcome, body_stored } = await ctx.services.claims.complete(scope, {
    token_hash: sha256Hex(input.lock_token),
    status: input.status,
    ttl_ms: input.ttl_ms ?? null,
    sealed_full: fits ? sealResponse(ctx.services.vault, scope, headers, body) : null,
    sealed_without_body: sealResponse(ctx.services.vault, scope, headers, null),
  });
  return { object: "idempotency_record" as const, outcome, body_stored };
}

type HeldClaim = RecordName & { lock_token: string };

export async function release(ctx: Machine, input: HeldClaim) {
  return recordResult(await ctx.services.claims.release(scopeOf(ctx, input), sha256Hex(input.lock_token)));
}

export async function heartbeat(ctx: Machine, input: HeldClaim) {
  return recordResult(await ctx.services.claims.heartbeat(scopeOf(ctx, input), sha256Hex(input.lock_token)));
}

function recordResult(outcome: RecordOutcome) {
  return { object: "idempotency_record" as const, outcome };
}

function replayableHeaders(headers: Headers): Headers {
  const entries = Object.entries(headers);
  const dropped = unreplayable(entries);
  return Object.fromEntries(entries.filter(([name]) => !dropped.has(name.toLowerCase())));
}

// Plaintext of a sealed response: 4 bytes big-endian length of the headers, the headers as JSON, the body. For an empty
// body, body_stored of the record says whether it was stored.
function sealResponse(vault: Vault, scope: ClaimScope, headers: Headers, body: Buffer | null): Uint8Array {
  const head = Buffer.from(JSON.stringify(headers));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  return vault.seal(TABLE, rowId(scope), Buffer.concat([length, head, body ?? Buffer.alloc(0)]));
}

function unsealResponse(vault: Vault, scope: ClaimScope, sealed: Uint8Array): { headers: Headers; body: Buffer } {
  const plain = Buffer.from(vault.open(TABLE, rowId(scope), sealed));
  const end = 4 + plain.readUInt32BE(0);
  return { headers: JSON.parse(plain.toString("utf8", 4, end)) as Headers, body: plain.subarray(end) };
}

function rowId({ workspace_id, env, scope_hash }: ClaimScope): string {
  return `${workspace_id}/${env}/${scope_hash}`;
}
