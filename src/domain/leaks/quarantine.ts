// Quarantine: a leaked live key expires within one hour, and this cannot be extended. A leaked test key is not changed;
// its owners get one notice. A key that is already revoked or quarantined is left as it is.
import type { Env } from "../../kernel/credentials.ts";
import { HOUR_MS } from "../../kernel/durations.ts";
import { formatTimestampOrNull } from "../../kernel/timestamps.ts";
import { keyById } from "../../store/queries/keys.ts";
import {
  leakedKey,
  leakedSecretKey,
  insertLeakNotice,
  quarantineKeyRow,
  quarantineSecretKeyRow,
} from "../../store/queries/leaks.ts";
import { membersOf } from "../../store/queries/memberships.ts";
import { secretKeyById } from "../../store/queries/secret-keys.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { ApiKeyRow, SecretKeyRow } from "../../store/schema/tables.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import type { ScannerActor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { leakMail } from "../mail/templates.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { record } from "../core/record.ts";
import { queueMail } from "../mail/outbox.ts";

/** How long a leaked key works after it was reported. */
export const QUARANTINE_MS = HOUR_MS;
const REASON_CHARS = 500;
const LOCATION_CHARS = 300;

const KINDS = {
  api_key: { byHash: leakedKey, byId: keyById, update: quarantineKeyRow, action: "api_key.quarantined" },
  secret_key: {
    byHash: leakedSecretKey,
    byId: secretKeyById,
    update: quarantineSecretKeyRow,
    action: "secret_key.quarantined",
  },
} as const;

type Scanner = Ctx<ScannerActor>;
type Kind = keyof typeof KINDS;
type Found = { id: string; workspace_id: string; env: Env };

/** Undefined when there is no key with this hash. */
export async function quarantine(
  ctx: Scanner,
  kind: Kind,
  lookup_hash: string,
  location: string,
): Promise<Found | undefined> {
  const found = await KINDS[kind].byHash.first(ctx.services.store.read, { lookup_hash });
  if (!found) return undefined;
  if (found.env === "test") await notifyAboutTestKey(ctx, kind, found, location);
  else await quarantineLiveKey(ctx, kind, found, location);
  return found;
}

async function quarantineLiveKey(ctx: Scanner, kind: Kind, { id, workspace_id }: Found, location: string) {
  const { byId, update, action } = KINDS[kind];
  await mutate(ctx, { workspace_id }, async (tx) => {
    const row = await byId.first(tx, { workspace_id, id });
    if (!row || isAlreadyStopped(row)) return unchanged(null);
    const policy_version = "project_id" in row ? await tx.bump(row.project_id) : 0; // nodes know no secret keys
    const after = { ...quarantined(row, location, ctx.services.clock.now()), policy_version };
    await update.run(tx, after);
    await notifyOwners(ctx, tx, after, location);
    return { value: null, events: [{ action, target_id: id, payload: payloadOf(after) }] };
  });
  if (kind === "secret_key") await ctx.services.credentialCache.invalidate([id]);
}

function notifyAboutTestKey({ services, ...rest }: Scanner, kind: Kind, found: Found, location: string): Promise<void> {
  const { id, workspace_id } = found;
  return record(services, async (tx) => {
    const row = await KINDS[kind].byId.first(tx, { workspace_id, id });
    if (!row || row.revoked_at !== null) return;
    const inserted = await insertLeakNotice.run(tx, {
      credential_id: id,
      workspace_id,
      noticed_at: services.clock.now(),
    });
    if (inserted > 0) await notifyOwners({ services, ...rest }, tx, row, location);
  });
}

function isAlreadyStopped({ revoked_at, quarantined_at }: ApiKeyRow | SecretKeyRow): boolean {
  return revoked_at !== null || quarantined_at !== null;
}

/** Expires in one hour, or earlier if it would have anyway. */
function quarantined<R extends ApiKeyRow | SecretKeyRow>(row: R, location: string, now: number): R {
  const expires_at = Math.min(row.expires_at ?? Number.MAX_SAFE_INTEGER, now + QUARANTINE_MS);
  const quarantine_reason = `secret_scanning: ${location}`.trim().slice(0, REASON_CHARS).toWellFormed();
  return { ...row, expires_at, quarantined_at: now, quarantine_reason };
}

function payloadOf({ env, quarantine_reason, expires_at }: ApiKeyRow | SecretKeyRow) {
  return { env, reason: quarantine_reason, expires_at: formatTimestampOrNull(expires_at) };
}

/**
 * Mails every owner with a verified address: a stranger's could belong to anyone. A workspace without people has a
 * billing address, which its operator has set. Where there is neither, there is only a log line.
 */
async function notifyOwners(
  { services }: Scanner,
  tx: Tx,
  row: ApiKeyRow | SecretKeyRow,
  location: string,
): Promise<void> {
  const { workspace_id } = row;
  const workspace = await workspaceById.first(tx, { id: workspace_id });
  const members = await membersOf.all(tx, { workspace_id });
  const owners = members.filter(({ role }) => role === "owner");
  const verified = owners.filter(({ email_verified_at }) => email_verified_at !== null).map(({ email }) => email);
  const billing = workspace?.billing_email ? [workspace.billing_email] : [];
  const addresses = owners.length > 0 ? verified : billing;
  if (addresses.length === 0) {
    const missing =
      owners.length > 0 ? "no owner has a verified address" : "there are no owners and no billing address";
    services.log.warn(`no address to notify of a leaked key: ${missing}`, {
      workspace_id,
      key_id: row.id,
    });
  }
  const leak = {
    key: row.display_prefix,
    live: row.env === "live",
    where: location.slice(0, LOCATION_CHARS).toWellFormed(),
  };
  for (const to of addresses) await queueMail(services, tx, to, leakMail(services, workspace?.name ?? "", leak));
}
