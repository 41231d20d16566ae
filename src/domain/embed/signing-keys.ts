// The keys that sign embed tokens: one signs, one is on standby. The standby is published long before it is needed, so
// a compromised key can be dropped at once. Life of a row: published_at → active_from → retired_at → removed_at.
// Caution: a key is out of use in every process once its private part is wiped, not when the clock says so.
import { createPublicKey, type KeyObject } from "node:crypto";
import { DAY_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { formatTimestamp, formatTimestampOrNull as time } from "../../kernel/timestamps.ts";
import { claimFact } from "../../store/queries/deployment.ts";
import { getFact } from "../core/facts.ts";
import {
  embedKeyByKid,
  embedKeyInUse,
  insertSigningKey,
  removeSigningKey,
  updateSigningKeyTimes,
  signingKeyHistory,
  usableSigningKeys,
  wipeRemovedSigningKeys,
} from "../../store/queries/signing-keys.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { SigningKeyRow } from "../../store/schema/tables.ts";
import { SYSTEM } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { record } from "../core/record.ts";
import { newSigningKeyRow, openPrivateKey } from "../vault/signing-keys.ts";

/** RFC 9864 prefers "Ed25519"; the contract says EdDSA. Named here only. */
export const EMBED_ALG = "EdDSA";

/** A key is published this long before it signs and stays this long after: more than token life plus cached JWKS. */
export const PUBLISH_MS = 15 * MINUTE_MS;
export const ROTATE_EVERY_MS = 90 * DAY_MS;
/** How far the clocks of two processes may be apart. */
const SKEW_MS = 5_000;

/** Creates the first two keys, unless this database has them. The first process to claim the fact creates both. */
export async function ensureEmbedKeys(services: Services): Promise<void> {
  if ((await getFact(services.store.read, "embed_keys_made")) !== undefined) return;
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

/** The key that signs now or, if clocks differ slightly, the one about to. */
function signingRow(rows: readonly SigningKeyRow[], now: number): SigningKeyRow | undefined {
  const live = rows.filter((row) => isPublished(row, now));
  return live.find((row) => isSigning(row, now)) ?? live.find((row) => row.active_from !== null && !row.retired_at);
}

export type EmbedSigner = { kid: string; key: KeyObject };

export async function loadEmbedSigner(services: Services): Promise<EmbedSigner | undefined> {
  const row = signingRow(await usableSigningKeys.all(services.store.read, {}), services.clock.now());
  return row && { kid: row.kid, key: openPrivateKey(services, row) };
}

type Jwk = { kty: "OKP"; crv: "Ed25519"; x: string; use: "sig"; alg: typeof EMBED_ALG; kid: string };

/** The content of the JWKS. */
export async function publishedKeys(services: Services): Promise<Jwk[]> {
  const now = services.clock.now();
  const rows = (await usableSigningKeys.all(services.store.read, {})).filter((row) => isPublished(row, now));
  return rows.map(({ public_key: x, kid }) => ({ kty: "OKP", crv: "Ed25519", x, use: "sig", alg: EMBED_ALG, kid }));
}

/** The public key with this id, if it is still published and was signing at `issuedAt`. Locked in a transaction. */
export async function embedKeyAt(
  services: Services,
  kid: string,
  issuedAt: number,
  tx?: Tx,
): Promise<KeyObject | undefined> {
  const row = await (tx ? embedKeyInUse.first(tx, { kid }) : embedKeyByKid.first(services.store.read, { kid }));
  if (!row || !isPublished(row, services.clock.now()) || row.active_from === null) return undefined;
  if (issuedAt + SKEW_MS < row.active_from) return undefined;
  if (row.retired_at !== null && issuedAt > row.retired_at + SKEW_MS) return undefined;
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: row.public_key }, format: "jwk" });
}

/** Scheduled job: creates missing keys, rotates when due, wipes removed keys. */
export async function maintainEmbedKeys(services: Services): Promise<void> {
  await ensureEmbedKeys(services);
  const now = services.clock.now();
  const rows = await usableSigningKeys.all(services.store.read, {});
  const signing = signingRow(rows, now);
  if (signing?.active_from && now - signing.active_from >= ROTATE_EVERY_MS)
    await rotateSigningKey({ services, actor: SYSTEM }, { kid: signing.kid });
  if (rows.some((row) => row.removed_at !== null && row.removed_at <= now))
    await record(services, (tx) => wipeRemovedSigningKeys.run(tx, { now }));
}

export type Rotation = {
  /**
   * The key to replace; if it no longer signs, another process has rotated and nothing is done. Default: the current
   * one.
   */
  kid?: string | undefined;
  /** The private key has leaked: remove it now, which invalidates all outstanding tokens. */
  compromised?: boolean | undefined;
};

/** Promotes the standby and publishes a new one. */
export async function rotateSigningKey(ctx: Ctx, input: Rotation = {}): Promise<SigningKeyView[]> {
  const { services } = ctx;
  const replace =
    input.kid ?? signingRow(await usableSigningKeys.all(services.store.read, {}), services.clock.now())?.kid;
  const newStandby = newSigningKeyRow(services, "embed", null);
  await mutate(ctx, { workspace_id: null }, async (tx) => {
    const now = services.clock.now();
    const rows = await usableSigningKeys.all(tx, {});
    const old = signingRow(rows, now);
    const next = rows.find((row) => row.active_from !== null && row.active_from > now && row.id !== old?.id);
    const standby = rows.find((row) => row.active_from === null);
    const successor = next ?? standby;
    if (!old || !successor || old.kid !== replace || (next && !input.compromised)) return unchanged(undefined);
    const active_from = input.compromised ? now : Math.max(now, successor.published_at + PUBLISH_MS);
    await updateSigningKeyTimes.run(tx, { ...successor, active_from, retired_at: null, removed_at: null });
    if (input.compromised) await removeAllExcept(tx, rows, [successor.id, standby?.id], now);
    else await updateSigningKeyTimes.run(tx, { ...old, retired_at: active_from, removed_at: active_from + PUBLISH_MS });
    if (successor === standby) await insertSigningKey.run(tx, newStandby);
    const payload = {
      kid: successor.kid,
      previous_kid: old.kid,
      compromised: input.compromised === true,
      active_from: formatTimestamp(active_from),
    };
    return { value: undefined, events: [{ action: "signing_key.rotated", target_id: successor.id, payload }] };
  });
  return listSigningKeys(services);
}

/** For a restored database without its master key: no private key can be decrypted, so both are replaced. */
export async function recreateEmbedKeys(ctx: Ctx): Promise<void> {
  const { services } = ctx;
  const now = services.clock.now();
  const [active, standby] = [newSigningKeyRow(services, "embed", now), newSigningKeyRow(services, "embed", null)];
  await mutate(ctx, { workspace_id: null }, async (tx) => {
    await removeAllExcept(tx, await usableSigningKeys.all(tx, {}), [], now);
    await claimFact.run(tx, { name: "embed_keys_made", value: active.id });
    await insertSigningKey.run(tx, active);
    await insertSigningKey.run(tx, standby);
    const payload = { kid: active.kid, previous_kid: null, compromised: true, active_from: formatTimestamp(now) };
    return { value: undefined, events: [{ action: "signing_key.rotated", target_id: active.id, payload }] };
  });
}

/** Includes retired keys: any key that has signed may have leaked. */
async function removeAllExcept(
  tx: Tx,
  rows: readonly SigningKeyRow[],
  kept: (string | undefined)[],
  now: number,
): Promise<void> {
  for (const row of rows.filter(({ id }) => !kept.includes(id))) {
    const retired_at = row.retired_at === null ? now : Math.min(row.retired_at, now);
    await removeSigningKey.run(tx, { ...row, retired_at, removed_at: now, sealed_private_key: null });
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

/** All embed keys ever created, oldest first. */
export async function listSigningKeys(services: Services): Promise<SigningKeyView[]> {
  const rows = await signingKeyHistory.all(services.store.read, {});
  const now = services.clock.now();
  const signing = signingRow(rows, now);
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
