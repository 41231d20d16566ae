// The state of a key: the first that holds, as a badge and as a sentence.
import type { RouteOutput } from "../../../client.ts";
import { serverNow } from "../api/clock.ts";
import type { Tone } from "../components/badge.tsx";
import { DAY_MS } from "../../../kernel/durations.ts";

export type ApiKey = RouteOutput<"GET /v1/keys/{id}">;

type Lifecycle = Pick<
  ApiKey,
  | "id"
  | "revoked_at"
  | "revoked_reason"
  | "quarantined_at"
  | "quarantine_reason"
  | "expires_at"
  | "created_at"
  | "last_used_at"
> &
  Partial<Pick<ApiKey, "disabled_at" | "disabled_reason">> & {
    /** The id of a successor that works. */
    successor_id?: string | null | undefined;
  };

/** What determines a key's state besides the key itself. */
export type Beside = {
  tenant?: { suspended_at: string | null; suspended_reason: string | null } | undefined;
};

/** `reason`: in the words of the person who gave it. */
type KeyState = { name: string; tone: Tone; sentence: Sentence; reason?: string | null };
/** With a time in it, if there is one. */
type Sentence = readonly [before: string, at?: string, after?: string];

const SOON_DAYS = 7;
const IDLE_DAYS = 30;

export function keyState(key: Lifecycle, { tenant }: Beside = {}, now = serverNow()): KeyState {
  const { revoked_at, revoked_reason, expires_at, quarantined_at } = key;
  if (revoked_at !== null)
    return { name: "Revoked", tone: "plain", sentence: ["Revoked on ", revoked_at, "."], reason: revoked_reason };
  if (expires_at !== null && Date.parse(expires_at) <= now)
    return { name: "Expired", tone: "plain", sentence: ["Expired on ", expires_at, "."] };
  if (tenant && tenant.suspended_at !== null)
    return {
      name: "Suspended",
      tone: "warn",
      sentence: ["Its tenant has been suspended since ", tenant.suspended_at, "."],
      reason: tenant.suspended_reason,
    };
  if (key.disabled_at != null)
    return {
      name: "Disabled",
      tone: "warn",
      sentence: ["Disabled since ", key.disabled_at, "."],
      reason: key.disabled_reason ?? null,
    };
  if (quarantined_at !== null)
    return {
      name: "Leaked",
      tone: "bad",
      sentence: ["It was found in public on ", quarantined_at, "."],
    };
  if (expires_at !== null && key.successor_id)
    return {
      name: "Being replaced",
      tone: "warn",
      sentence: ["It was rotated: its successor works, and this key stops on ", expires_at, "."],
    };
  return { name: "Active", tone: "good", sentence: ["Requests with this key are allowed."] };
}

/** What is worth a look although the key works. */
export function keyNotes(key: Lifecycle, beside?: Beside, now = serverNow()): string[] {
  if (keyState(key, beside, now).name !== "Active") return [];
  const notes: string[] = [];
  if (key.expires_at !== null && Date.parse(key.expires_at) - now < SOON_DAYS * DAY_MS) notes.push("Expires soon");
  const used = Date.parse(key.last_used_at ?? key.created_at);
  if (now - used > IDLE_DAYS * DAY_MS) notes.push("Idle");
  return notes;
}

/** Why a key cannot be changed; null if it can. */
export const endedReason = ({ revoked_at }: Pick<Lifecycle, "revoked_at">): string | null =>
  revoked_at === null ? null : "The key is revoked.";

/** Why a key cannot be rotated; null if it can. */
export const rotateReason = (key: Pick<Lifecycle, "revoked_at" | "disabled_at">): string | null =>
  endedReason(key) ?? (key.disabled_at == null ? null : "The key is disabled. Enable it first.");
