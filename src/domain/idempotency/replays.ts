// Idempotency replays for our own POST endpoints: the response is stored in the transaction of the change, encrypted
// under the caller's own token. A retried mint returns the first key again, and only that caller can decrypt it
// (docs/design/0006-idempotency-fencing.md).
import { DAY_MS } from "../../kernel/durations.ts";
import { fail } from "../../kernel/errors.ts";
import { insertReplay, reapIdempotencyReplays, replayByKey } from "../../store/queries/idempotency-replays.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import type { Store } from "../../store/store.ts";
import type { Clock } from "../core/clock.ts";
import { reap } from "../core/record.ts";
import { decrypt, deriveKey, encrypt } from "../vault/aead.ts";
import { sha256Hex } from "../../platform/crypto.ts";

const REPLAY_MS = DAY_MS;

/** The idempotency key of one request. `replayed` becomes true when the stored response is used. */
export type IdempotencyReplay = {
  readonly key_hash: string;
  readonly fingerprint: string;
  readonly bearer: string;
  /**
   * Not stored where its owner has used up its share of the disk: the request only ends something and is never refused
   * for want of room, so that stored responses of repeated ones would have no bound.
   */
  readonly isOptional: boolean;
  replayed: boolean;
};

export function createReplay(input: {
  bearer: string;
  /** The workspace that a session acts in; null if the token alone says it. */
  scope: string | null;
  idempotencyKey: string;
  request: string;
  isOptional: boolean;
}): IdempotencyReplay {
  const scope = input.scope === null ? "" : `${input.scope} `;
  return {
    key_hash: sha256Hex(`${sha256Hex(input.bearer)} ${scope}${input.idempotencyKey}`),
    fingerprint: sha256Hex(input.request),
    bearer: input.bearer,
    isOptional: input.isOptional,
    replayed: false,
  };
}

/** Keyed by the caller's own token, so that only that caller can read the stored response. */
function replayKey(replay: IdempotencyReplay): Buffer {
  return deriveKey(replay.bearer, replay.key_hash, "keyrack kept answer"); // part of the stored format: never change it
}

/** The stored response for this key, if any. Rejects another request with the same key. */
export async function findReplay(
  on: Reader,
  replay: IdempotencyReplay,
  now: number,
): Promise<{ value: unknown } | undefined> {
  const row = await replayByKey.first(on, { key_hash: replay.key_hash, now });
  if (!row) return undefined;
  if (row.fingerprint !== replay.fingerprint) throw fail("idempotency_mismatch");
  replay.replayed = true;
  return { value: JSON.parse(decrypt(replayKey(replay), row.sealed_body).toString("utf8")) };
}

export async function storeReplay(tx: Tx, replay: IdempotencyReplay, value: unknown, now: number): Promise<void> {
  await insertReplay.run(tx, {
    key_hash: replay.key_hash,
    fingerprint: replay.fingerprint,
    status: 200,
    sealed_body: encrypt(replayKey(replay), Buffer.from(JSON.stringify(value), "utf8")),
    created_at: now,
    expires_at: now + REPLAY_MS,
  });
}

export function reapReplays(services: { readonly store: Store; readonly clock: Clock }): Promise<number> {
  return reap(services, reapIdempotencyReplays, { before: services.clock.now() });
}
