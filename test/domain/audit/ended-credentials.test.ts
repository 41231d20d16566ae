// The check that campaigns run over every chain: it must find a row of a credential that had ended, and nothing else.
import { describe, expect, it } from "vitest";
import { actsAfterEnd, type ChainRow } from "../../../harness/models/ended-credentials.ts";

const row = (action: string, actor: string, target_id: string | null = null, payload: object = {}): ChainRow => {
  const [actor_type = "", actor_id = null] = actor.split(" ");
  return { action, actor_type, actor_id, target_id, payload };
};

const removed = row("workspace_member.removed", "user O", "U", { role: "owner" });
const demoted = row("workspace_member.role_changed", "user O", "U", { role: { old: "owner", new: "admin" } });
const revoked = row("secret_key.revoked", "user O", "K");
const epoch2 = row("tenant.embed_tokens_revoked", "user O", "T", { embed_epoch: 2 });

describe("a chain is sound", () => {
  const sound: Record<string, ChainRow[]> = {
    "when nothing has ended": [row("api_key.created", "secret_key K"), row("workspace_invite.created", "user U")],
    "when a key revokes itself as its last act": [row("secret_key.revoked", "secret_key K", "K")],
    "when another key goes on": [revoked, row("api_key.created", "secret_key L")],
    "when a rotated key is used in its overlap": [
      row("secret_key.rotated", "user O", "K", { overlap_hours: 1 }),
      row("api_key.created", "secret_key K"),
    ],
    "when a removed person has joined again": [
      removed,
      row("workspace_member.joined", "user U", "U", { role: "owner" }),
      row("workspace_invite.created", "user U"),
    ],
    "when a demoted owner does what an admin may": [demoted, row("secret_key.created", "user U")],
    "when a demoted owner is an owner again": [
      demoted,
      row("workspace_member.role_changed", "user O", "U", { role: { old: "admin", new: "owner" } }),
      row("workspace_invite.created", "user U"),
    ],
    "when a newer embed token is used": [epoch2, row("api_key.created", "embed_token T", null, { epoch: 2 })],
  };
  for (const [when, rows] of Object.entries(sound)) it(when, () => expect(actsAfterEnd(rows)).toEqual([]));
});

describe("a chain is not sound", () => {
  const unsound: Record<string, ChainRow[]> = {
    "when a revoked key acts": [revoked, row("api_key.created", "secret_key K")],
    "when a key rotated without overlap acts": [
      row("secret_key.rotated", "secret_key K", "K", { overlap_hours: 0 }),
      row("api_key.created", "secret_key K"),
    ],
    "when a removed person acts": [removed, row("api_key.created", "user U")],
    "when a demoted owner invites": [demoted, row("workspace_invite.created", "user U")],
    "when a demoted owner removes a member": [demoted, row("workspace_member.removed", "user U", "O")],
    "when an older embed token is used": [epoch2, row("api_key.created", "embed_token T", null, { epoch: 1 })],
    "when a token of a deleted tenant is used": [
      row("tenant.deleted", "user O", "T"),
      row("api_key.created", "embed_token T", null, { epoch: 1 }),
    ],
  };
  for (const [when, rows] of Object.entries(unsound)) it(when, () => expect(actsAfterEnd(rows)).toHaveLength(1));
});
