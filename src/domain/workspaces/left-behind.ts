// What a person leaves in a workspace when they are removed or stop being its owner: secret keys that they minted, and
// invitations that they sent. Neither ends by itself.
import { formatTimestamp, formatTimestampOrNull } from "../../kernel/timestamps.ts";
import { forPieces } from "../../platform/event-loop.ts";
import { pendingInvitesBy } from "../../store/queries/invites.ts";
import { revokeSecretKeyRows, workingKeysOf } from "../../store/queries/secret-keys.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import type { SecretKeyRow, WorkspaceInviteRow } from "../../store/schema/tables.ts";
import type { Event } from "../core/events.ts";
import { endInvite } from "./invite-tokens.ts";

export const REVOKE = ["none", "invites", "all"] as const;
export type Revoke = (typeof REVOKE)[number];

/** Shown of each kind; more are counted as `more`. */
const SHOWN_MAX = 100;
/** Revoked by one statement, which holds the event loop on SQLite. */
const STATEMENT_KEYS = 100;
const REASON = "member removed";

type Person = { workspace_id: string; user_id: string; now: number };
type KeyLeft = Pick<SecretKeyRow, "id" | "workspace_id" | "env" | "display_prefix" | "owner_scope" | "last_used_at">;
type Left = { keys: KeyLeft[]; invites: WorkspaceInviteRow[] };

/** All of it: the limits of secret keys and invitations bound it. */
export async function leftBehind(on: Reader, person: Person, limit = 10_000): Promise<Left> {
  return {
    keys: await workingKeysOf.all(on, { ...person, limit }),
    invites: await pendingInvitesBy.all(on, { ...person, limit }),
  };
}

export async function listLeftBehind(on: Reader, person: Person) {
  return viewLeftBehind(await leftBehind(on, person, SHOWN_MAX + 1));
}

function viewLeftBehind({ keys, invites }: Left) {
  return {
    secret_keys: keys.slice(0, SHOWN_MAX).map((key) => ({
      id: key.id,
      env: key.env,
      display_prefix: key.display_prefix,
      owner_scope: key.owner_scope === 1,
      last_used_at: formatTimestampOrNull(key.last_used_at),
    })),
    invites: invites
      .slice(0, SHOWN_MAX)
      .map(({ id, email, role, expires_at }) => ({ id, email, role, expires_at: formatTimestamp(expires_at) })),
    more: Math.max(keys.length, invites.length) > SHOWN_MAX,
  };
}

/** As a field of a response: absent when there is nothing. */
export function leftBehindField(left: Left) {
  return left.keys.length + left.invites.length === 0 ? {} : { left_behind: viewLeftBehind(left) };
}

export async function revokeInvites(tx: Tx, invites: readonly WorkspaceInviteRow[], now: number): Promise<Event[]> {
  const events: Event[] = [];
  for (const invite of invites) events.push(await endInvite(tx, invite, now));
  return events;
}

export async function revokeKeys(tx: Tx, keys: readonly KeyLeft[], now: number): Promise<Event[]> {
  await forPieces(keys, STATEMENT_KEYS, (some) => {
    const { workspace_id } = some[0] as KeyLeft;
    return revokeSecretKeyRows(tx, { workspace_id, ids: some.map(({ id }) => id), now, reason: REASON });
  });
  return keys.map(({ id, env }) => ({ action: "secret_key.revoked", target_id: id, payload: { env, reason: REASON } }));
}
