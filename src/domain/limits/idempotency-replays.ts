// Retry protection of our own POSTs (decision 143): the answer is kept in the transaction that made it, encrypted under
// the caller's own token, so a retried mint gives the first key again and nobody else can ever read it.
import { fail } from "../../kernel/errors.ts";
import { insertKeptAnswer, keptAnswer } from "../../store/queries/idempotency-replays.ts";
import type { Tx } from "../../store/engine/statement.ts";
import { decrypt, deriveKey, encrypt } from "../vault/aead.ts";
import { sha256Hex } from "../../platform/crypto.ts";

const KEEP_MS = 24 * 60 * 60 * 1000;

/** The retry protection of one request. `replayed` turns true when the kept answer was used. */
export type KeptAnswer = {
  readonly key_hash: string;
  readonly fingerprint: string;
  readonly status: number;
  readonly bearer: string;
  replayed: boolean;
};

export function keepAnswer(input: {
  bearer: string;
  idempotencyKey: string;
  request: string;
  status: number;
}): KeptAnswer {
  return {
    key_hash: sha256Hex(`${sha256Hex(input.bearer)} ${input.idempotencyKey}`),
    fingerprint: sha256Hex(input.request),
    status: input.status,
    bearer: input.bearer,
    replayed: false,
  };
}

/** Keyed by the caller's own token, so that only that caller can read the stored response. */
function answerKey(keep: KeptAnswer): Buffer {
  return deriveKey(keep.bearer, keep.key_hash, "keyrack kept answer");
}

/** The first answer to this key, if there was one; another request under the same key is refused. */
export async function findKept(tx: Tx, keep: KeptAnswer, now: number): Promise<{ value: unknown } | undefined> {
  const row = await keptAnswer.first(tx, { key_hash: keep.key_hash, now });
  if (!row) return undefined;
  if (row.fingerprint !== keep.fingerprint) throw fail("idempotency_mismatch");
  keep.replayed = true;
  return { value: JSON.parse(decrypt(answerKey(keep), row.sealed_body).toString("utf8")) };
}

export async function storeKept(tx: Tx, keep: KeptAnswer, value: unknown, now: number): Promise<void> {
  await insertKeptAnswer.run(tx, {
    key_hash: keep.key_hash,
    fingerprint: keep.fingerprint,
    status: keep.status,
    sealed_body: encrypt(answerKey(keep), Buffer.from(JSON.stringify(value), "utf8")),
    created_at: now,
    expires_at: now + KEEP_MS,
  });
}
