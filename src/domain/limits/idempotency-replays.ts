// Retry protection of our own POSTs (decision 143): the answer is kept in the transaction that made it, encrypted under
// the caller's own token, so a retried mint gives the first key again and nobody else can ever read it.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { fail } from "../../kernel/errors.ts";
import { insertKeptAnswer, keptAnswer } from "../../store/queries/idempotency-replays.ts";
import type { Tx } from "../../store/engine/statement.ts";
import { sha256 } from "../core/context.ts";

const KEEP_MS = 24 * 60 * 60 * 1000;
const NONCE = 12;
const TAG = 16;

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
    key_hash: sha256(`${sha256(input.bearer)} ${input.idempotencyKey}`),
    fingerprint: sha256(input.request),
    status: input.status,
    bearer: input.bearer,
    replayed: false,
  };
}

function answerKey(keep: KeptAnswer): Buffer {
  return Buffer.from(hkdfSync("sha256", keep.bearer, keep.key_hash, "keyrack kept answer", 32));
}

function sealAnswer(keep: KeptAnswer, text: string): Uint8Array {
  const nonce = randomBytes(NONCE);
  const cipher = createCipheriv("aes-256-gcm", answerKey(keep), nonce);
  const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([nonce, body, cipher.getAuthTag()]);
}

function openAnswer(keep: KeptAnswer, sealed: Uint8Array): string {
  const decipher = createDecipheriv("aes-256-gcm", answerKey(keep), sealed.subarray(0, NONCE));
  decipher.setAuthTag(sealed.subarray(sealed.length - TAG));
  const body = sealed.subarray(NONCE, sealed.length - TAG);
  return Buffer.concat([decipher.update(body), decipher.final()]).toString("utf8");
}

/** The first answer to this key, if there was one; another request under the same key is refused. */
export async function findKept(tx: Tx, keep: KeptAnswer, now: number): Promise<{ value: unknown } | undefined> {
  const row = await keptAnswer.first(tx, { key_hash: keep.key_hash, now });
  if (!row) return undefined;
  if (row.fingerprint !== keep.fingerprint) throw fail("idempotency_mismatch");
  keep.replayed = true;
  return { value: JSON.parse(openAnswer(keep, row.sealed_body)) };
}

export async function storeKept(tx: Tx, keep: KeptAnswer, value: unknown, now: number): Promise<void> {
  await insertKeptAnswer.run(tx, {
    key_hash: keep.key_hash,
    fingerprint: keep.fingerprint,
    status: keep.status,
    sealed_body: sealAnswer(keep, JSON.stringify(value)),
    created_at: now,
    expires_at: now + KEEP_MS,
  });
}
