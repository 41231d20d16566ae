// Retry protection of our own POSTs (decision 143): the answer is kept in the transaction that made it, encrypted under
// the caller's own token, so a retried mint gives the first key again and nobody else can ever read it.
import { fail } from "../../kernel/errors.ts";
import { insertKeptAnswer, keptAnswer } from "../../store/queries/idempotency-replays.ts";
import type { Tx } from "../../store/engine/statement.ts";
import { decrypt, deriveKey, encrypt } from "../vault/aead.ts";
import { sha256Hex } from "../../platform/crypto.ts";

const REPLAY_MS = 24 * 60 * 60 * 1000;

/** The retry protection of one request. `replayed` turns true when the kept answer was used. */
export type IdempotencyReplay = {
  readonly key_hash: string;
  readonly fingerprint: string;
  readonly status: number;
  readonly bearer: string;
  replayed: boolean;
};

export function createReplay(input: {
  bearer: string;
  idempotencyKey: string;
  request: string;
  status: number;
}): IdempotencyReplay {
  return {
    key_hash: sha256Hex(`${sha256Hex(input.bearer)} ${input.idempotencyKey}`),
    fingerprint: sha256Hex(input.request),
    status: input.status,
    bearer: input.bearer,
    replayed: false,
  };
}

/** Keyed by the caller's own token, so that only that caller can read the stored response. */
function answerKey(replay: IdempotencyReplay): Buffer {
  return deriveKey(replay.bearer, replay.key_hash, "keyrack kept answer");
}

/** The first answer to this key, if there was one; another request under the same key is refused. */
export async function findReplay(
  tx: Tx,
  replay: IdempotencyReplay,
  now: number,
): Promise<{ value: unknown } | undefined> {
  const row = await keptAnswer.first(tx, { key_hash: replay.key_hash, now });
  if (!row) return undefined;
  if (row.fingerprint !== replay.fingerprint) throw fail("idempotency_mismatch");
  replay.replayed = true;
  return { value: JSON.parse(decrypt(answerKey(replay), row.sealed_body).toString("utf8")) };
}

export async function storeReplay(tx: Tx, replay: IdempotencyReplay, value: unknown, now: number): Promise<void> {
  await insertKeptAnswer.run(tx, {
    key_hash: replay.key_hash,
    fingerprint: replay.fingerprint,
    status: replay.status,
    sealed_body: encrypt(answerKey(replay), Buffer.from(JSON.stringify(value), "utf8")),
    created_at: now,
    expires_at: now + REPLAY_MS,
  });
}
