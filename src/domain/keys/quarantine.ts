// Quarantine: a live key that leaked stops within the hour, and nothing moves that hour out again. A test key is left as
// it is, and its owners are told once. A key already revoked, or in quarantine already, stays as it is.
import type { Env } from "../../kernel/credentials.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { keyById } from "../../store/queries/keys.ts";
import {
  leakedKey,
  leakedSecretKey,
  noteLeak,
  quarantineKeyRow,
  quarantineSecretKeyRow,
} from "../../store/queries/leaks.ts";
import { membersOf } from "../../store/queries/memberships.ts";
import { secretKeyById } from "../../store/queries/secret-keys.ts";
import type { Tx } from "../../store/engine/statement.ts";
import type { ApiKeyRow, SecretKeyRow } from "../../store/schema/tables.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import type { ScannerActor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { leakMail } from "../mail/templates.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { record } from "../core/record.ts";
import { queueMail } from "../mail/outbox.ts";

const QUARANTINE_MS = 3_600_000;
const REASON_CHARS = 500;
const PLACE_CHARS = 300;

type Scanner = Ctx<ScannerActor>;
type Kind = "api_key" | "secret_key";
type Found = { id: string; workspace_id: string; env: Env };

/** Finds the key by its hash and stops it. Undefined when there is no such key. */
export async function quarantine(
  ctx: Scanner,
  kind: Kind,
  lookup_hash: string,
  place: string,
): Promise<Found | undefined> {
  const lookup = kind === "api_key" ? leakedKey : leakedSecretKey;
  const found = await lookup.first(ctx.services.store.read, { lookup_hash });
  if (!found) return undefined;
  if (found.env === "test") await noticeTestKey(ctx, kind, found, place);
  else if (kind === "api_key") await quarantineKey(ctx, found, place);
  else await quarantineSecretKey(ctx, found, place);
  return found;
}

function quarantineKey(ctx: Scanner, { id, workspace_id }: Found, place: string): Promise<null> {
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = await keyById.first(tx, { workspace_id, id });
    if (!row || isSettled(row)) return unchanged(null);
    const policy_version = await tx.bump(row.project_id);
    const after = { ...quarantined(row, place, ctx.services.clock.now()), policy_version };
    await quarantineKeyRow.run(tx, after);
    await notifyOwners(ctx, tx, after, place);
    return { value: null, events: [{ action: "api_key.quarantined", target_id: id, payload: payloadOf(after) }] };
  });
}

async function quarantineSecretKey(ctx: Scanner, { id, workspace_id }: Found, place: string): Promise<void> {
  await mutate(ctx, { workspace_id }, async (tx) => {
    const row = await secretKeyById.first(tx, { workspace_id, id });
    if (!row || isSettled(row)) return unchanged(null);
    const after = quarantined(row, place, ctx.services.clock.now());
    await quarantineSecretKeyRow.run(tx, after);
    await notifyOwners(ctx, tx, after, place);
    return { value: null, events: [{ action: "secret_key.quarantined", target_id: id, payload: payloadOf(after) }] };
  });
  await ctx.services.credentialCache.invalidate(id);
}

function noticeTestKey({ services, ...rest }: Scanner, kind: Kind, found: Found, place: string): Promise<void> {
  const { id, workspace_id } = found;
  return record(services, async (tx) => {
    const row = await (kind === "api_key" ? keyById : secretKeyById).first(tx, { workspace_id, id });
    if (!row || row.revoked_at !== null) return;
    const first = await noteLeak.run(tx, { credential_id: id, workspace_id, noticed_at: services.clock.now() });
    if (first > 0) await notifyOwners({ services, ...rest }, tx, row, place);
  });
}

function isSettled({ revoked_at, quarantined_at }: ApiKeyRow | SecretKeyRow): boolean {
  return revoked_at !== null || quarantined_at !== null;
}

/** An hour from now, or when it would have ended anyway. */
function quarantined<R extends ApiKeyRow | SecretKeyRow>(row: R, place: string, now: number): R {
  const expires_at = Math.min(row.expires_at ?? Number.MAX_SAFE_INTEGER, now + QUARANTINE_MS);
  const quarantine_reason = `secret_scanning: ${place}`.trim().slice(0, REASON_CHARS).toWellFormed();
  return { ...row, expires_at, quarantined_at: now, quarantine_reason };
}

function payloadOf({ env, quarantine_reason, expires_at }: ApiKeyRow | SecretKeyRow) {
  return { env, reason: quarantine_reason, expires_at: expires_at === null ? null : formatTimestamp(expires_at) };
}

/** Every owner, else the billing address, else only the log (decision 173). */
async function notifyOwners(
  { services }: Scanner,
  tx: Tx,
  row: ApiKeyRow | SecretKeyRow,
  place: string,
): Promise<void> {
  const { workspace_id } = row;
  const workspace = await workspaceById.first(tx, { id: workspace_id });
  const members = await membersOf.all(tx, { workspace_id });
  const owners = members.filter(({ role }) => role === "owner").map(({ email }) => email);
  const billing = workspace?.billing_email ? [workspace.billing_email] : [];
  const addresses = owners.length > 0 ? owners : billing;
  if (addresses.length === 0) {
    services.log.warn("nobody can be told of a leaked key: the workspace has no owner and no billing address", {
      workspace_id,
      key_id: row.id,
    });
  }
  const leak = { key: row.display_prefix, live: row.env === "live", where: place.slice(0, PLACE_CHARS).toWellFormed() };
  for (const to of addresses) await queueMail(services, tx, to, leakMail(services, workspace?.name ?? "", leak));
}
