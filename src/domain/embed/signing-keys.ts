// The keys that sign embed tokens (decision 163). One signs, one waits: the standby is published long before it is
// needed, so a compromised key can be dropped at once. Life of a row: published_at → active_from → retired_at →
// removed_at; a removed key has no private part, and that, not the clock, is what takes it out of every process.
import { createPublicKey, type KeyObject } from "node:crypto";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { claimFact, readFact } from "../../store/queries/deployment.ts";
import {
  embedKeyByKid,
  insertSigningKey,
  moveSigningKey,
  signingKeyHistory,
  usableSigningKeys,
  wipeRemovedSigningKeys,
  wipeSigningKey,
} from "../../store/queries/signing-keys.ts";
import type { Tx } from "../../store/engine/statement.ts";
import type { SigningKeyRow } from "../../store/schema/tables.ts";
import { SYSTEM } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { record } from "../core/record.ts";
import { newSigningKeyRow, openPrivateKey } from "../vault/signing-keys.ts";

/** RFC 9864 prefers "Ed25519"; the contract says EdDSA. This is the only place that spells it. */
export const EMBED_ALG = "EdDSA";

const EMBED = { purpose: "embed" } as const;
const MINUTE_MS = 60_000;
/** A key is published this long before it signs and stays this long after: more than token life plus cached JWKS. */
export const PUBLISH_MS = 15 * MINUTE_MS;
export const ROTATE_EVERY_MS = 90 * 24 * 60 * MINUTE_MS;
/** How far the clocks of two processes may be apart. */
const SKEW_MS = 5_000;

/** Makes the first two keys, unless this database has them: whoever claims first makes both. */
export async function ensureEmbedKeys(services: Services): Promise<void> {
  if (await readFact.first(services.store.read, { name: "embed_keys_made" })) return;
  const active = newSigningKeyRow(services, "embed", services.clock.now());
  const standby = newSigningKeyRow(services, "embed", null);
  await record(services, async (tx) => {
    if ((await claimFact.run(tx, { name: "embed_keys_made", value: active.id })) === 0) return;
    await insertSigningKey.run(tx, active);
    await insertSigningKey.run(tx, standby);
  });
}

const isPublished = (row: SigningKeyRow, now: number): boolean =>
  row.sealed_private_key !== null && (row.removed_at === null || row.removed_at > now);

const isSigning = (row: SigningKeyRow, now: number): boolean =>
  row.active_from !== null && row.active_from <= now && (row.retired_at === null || row.retired_at > now);

/** The one that signs now; where clocks differ by a moment, the one that is about to. */
function signingRow(rows: readonly SigningKeyRow[], now: number): SigningKeyRow | undefined {
  const live = rows.filter((row) => isPublished(row, now));
  return live.find((row) => isSigning(row, now)) ?? live.find((row) => row.active_from !== null && !row.retired_at);
}

export type EmbedSigner = { kid: string; key: KeyObject };

export async function loadEmbedSigner(services: Services): Promise<EmbedSigner | undefined> {
  const row = signingRow(await usableSigningKeys.all(services.store.read, EMBED), services.clock.now());
  return row && { kid: row.kid, key: openPrivateKey(services, row) };
}

type Jwk = { kty: "OKP"; crv: "Ed25519"; x: string; use: "sig"; alg: typeof EMBED_ALG; kid: string };

/** What the JWKS ownsKey: public parts only. */
export async function publishedKeys(services: Services): Promise<Jwk[]> {
  const now = services.clock.now();
  const rows = (await usableSigningKeys.all(services.store.read, EMBED)).filter((row) => isPublished(row, now));
  return rows.map(({ public_key: x, kid }) => ({ kty: "OKP", crv: "Ed25519", x, use: "sig", alg: EMBED_ALG, kid }));
}

/** The public key of this name, if it is still published and was in use at `issuedAt`: a standby never signed anything. */
export async function embedKeyAt(services: Services, kid: string, issuedAt: number): Promise<KeyObject | undefined> {
  const row = await embedKeyByKid.first(services.store.read, { kid });
  if (!row || !isPublished(row, services.clock.now()) || row.active_from === null) return undefined;
  if (issuedAt + SKEW_MS < row.active_from) return undefined;
  if (row.retired_at !== null && issuedAt > row.retired_at + SKEW_MS) return undefined;
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: row.public_key }, format: "jwk" });
}

/** For the job loop: makes the keys where there are none, rotates when it is time, wipes what was removed. */
export async function maintainEmbedKeys(services: Services): Promise<void> {
  await ensureEmbedKeys(services);
  const now = services.clock.now();
  const rows = await usableSigningKeys.all(services.store.read, EMBED);
  const signing = signingRow(rows, now);
  if (signing?.active_from && now - signing.active_from >= ROTATE_EVERY_MS)
    await rotateSigningKey({ services, actor: SYSTEM }, { kid: signing.kid });
  if (rows.some((row) => row.removed_at !== null && row.removed_at <= now))
    await record(services, (tx) => wipeRemovedSigningKeys.run(tx, { now }));
}

export type Rotation = {
  /** The key to replace; when it no longer signs, somebody else has rotated and nothing is done. Default: the present one. */
  kid?: string | undefined;
  /** Its private part is known to others: drop it now, at the price of ending every outstanding token. */
  compromised?: boolean | undefined;
};

/** Hands signing over to the standby and publishes a new one. */
export async function rotateSigningKey(ctx: Ctx, want: Rotation = {}): Promise<SigningKeyView[]> {
  const { services } = ctx;
  const replace =
    want.kid ?? signingRow(await usableSigningKeys.all(services.store.read, EMBED), services.clock.now())?.kid;
  const fresh = newSigningKeyRow(services, "embed", null);
  await mutate(ctx, { workspace_id: null }, async (tx) => {
    const now = services.clock.now();
    const rows = await usableSigningKeys.all(tx, EMBED);
    const old = signingRow(rows, now);
    const next = rows.find((row) => row.active_from !== null && row.active_from > now && row.id !== old?.id);
    const standby = rows.find((row) => row.active_from === null);
    const heir = next ?? standby;
    if (!old || !heir || old.kid !== replace || (next && !want.compromised)) return unchanged(undefined);
    const active_from = want.compromised ? now : Math.max(now, heir.published_at + PUBLISH_MS);
    await moveSigningKey.run(tx, { ...heir, active_from, retired_at: null, removed_at: null });
    if (want.compromised) await dropAllBut(tx, rows, [heir.id, standby?.id], now);
    else await moveSigningKey.run(tx, { ...old, retired_at: active_from, removed_at: active_from + PUBLISH_MS });
    if (heir === standby) await insertSigningKey.run(tx, fresh);
    const payload = {
      kid: heir.kid,
      previous_kid: old.kid,
      compromised: want.compromised === true,
      active_from: formatTimestamp(active_from),
    };
    return { value: undefined, events: [{ action: "signing_key.rotated", target_id: heir.id, payload }] };
  });
  return listSigningKeys(services);
}

/** For a restored database whose master key is gone: nothing can be opened any more, so both keys are made anew. */
export async function recreateEmbedKeys(ctx: Ctx): Promise<void> {
  const { services } = ctx;
  const now = services.clock.now();
  const [active, standby] = [newSigningKeyRow(services, "embed", now), newSigningKeyRow(services, "embed", null)];
  await mutate(ctx, { workspace_id: null }, async (tx) => {
    await dropAllBut(tx, await usableSigningKeys.all(tx, EMBED), [], now);
    await claimFact.run(tx, { name: "embed_keys_made", value: active.id });
    await insertSigningKey.run(tx, active);
    await insertSigningKey.run(tx, standby);
    const payload = { kid: active.kid, previous_kid: null, compromised: true, active_from: formatTimestamp(now) };
    return { value: undefined, events: [{ action: "signing_key.rotated", target_id: active.id, payload }] };
  });
}

/** A thief may hold any key that has signed, so those that only wait for their removal go too. */
async function dropAllBut(
  tx: Tx,
  rows: readonly SigningKeyRow[],
  kept: (string | undefined)[],
  now: number,
): Promise<void> {
  for (const row of rows.filter(({ id }) => !kept.includes(id))) {
    const retired_at = row.retired_at === null ? now : Math.min(row.retired_at, now);
    await moveSigningKey.run(tx, { ...row, retired_at, removed_at: now });
    await wipeSigningKey.run(tx, { id: row.id });
  }
}

export type SigningKeyState = "signing" | "next" | "standby" | "retired" | "removed";

export type SigningKeyView = {
  object: "signing_key";
  kid: string;
  state: SigningKeyState;
  published_at: string;
  active_from: string | null;
  retired_at: string | null;
  removed_at: string | null;
};

/** Every embed key there ever was, oldest first. */
export async function listSigningKeys(services: Services): Promise<SigningKeyView[]> {
  const rows = await signingKeyHistory.all(services.store.read, EMBED);
  const now = services.clock.now();
  const signing = signingRow(rows, now);
  const time = (ms: number | null): string | null => (ms === null ? null : formatTimestamp(ms));
  const stateOf = (row: SigningKeyRow): SigningKeyState => {
    if (!isPublished(row, now)) return "removed";
    if (row === signing) return "signing";
    if (row.active_from === null) return "standby";
    return row.active_from > now ? "next" : "retired";
  };
  return rows.map((row) => ({
    object: "signing_key",
    kid: row.kid,
    state: stateOf(row),
    published_at: formatTimestamp(row.published_at),
    active_from: time(row.active_from),
    retired_at: time(row.retired_at),
    removed_at: time(row.removed_at),
  }));
}
