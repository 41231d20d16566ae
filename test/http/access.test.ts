// Which refusal each kind of credential gets: the one that names what is missing.
import { describe, expect, it } from "vitest";
import type { Actor } from "../../src/domain/core/actor.ts";
import { access, refusal, type AccessName } from "../../src/http/access.ts";

const key = { kind: "secret_key", id: "k", workspace_id: "w", expires_at: null, restriction: null } as const;
const session = { kind: "session", id: "s", user_id: "u", workspace_id: "w" } as const;
const who = {
  "an owner's key": { ...key, env: "live", owner_scope: true },
  "an admin's key": { ...key, env: "live", owner_scope: false },
  "a test key": { ...key, env: "test", owner_scope: true },
  "an owner": { ...session, role: "owner" },
  "an admin": { ...session, role: "admin" },
  "a member": { ...session, role: "member" },
  "a session without a workspace": { ...session, workspace_id: null, role: null },
  "an embed token": { kind: "embed_token" } as unknown as Actor,
  "an API key": { kind: "api_key" } as unknown as Actor,
  bootstrap: { kind: "bootstrap" },
} as const satisfies Record<string, Actor>;

describe("an access row", () => {
  for (const [row, name, refused] of [
    ["projects.change", "an owner's key", undefined],
    ["projects.change", "a test key", "test_refused"],
    ["projects.change", "an admin", undefined],
    ["projects.change", "a member", "member_is_read_only"],
    ["projects.change", "a session without a workspace", "no_active_workspace"],
    ["resources.read", "a session without a workspace", "no_active_workspace"],
    ["resources.read", "an embed token", "needs_vendor"],
    ["resources.read", "bootstrap", "unusable_credential"],
    ["members.write", "an admin's key", "owner_only"],
    ["members.write", "an admin", "owner_only"],
    ["members.write", "a member", "member_is_read_only"],
    ["members.write", "a test key", "test_refused"],
    ["members.write", "an owner", undefined],
    ["machine.use", "an owner", "needs_secret_key"],
    ["machine.use", "a session without a workspace", "needs_secret_key"],
    ["machine.use", "an embed token", "needs_secret_key"],
    ["machine.use", "a test key", undefined],
    ["auth.own", "an owner's key", "needs_session"],
    ["auth.own", "a test key", "needs_session"],
    ["auth.own", "a session without a workspace", undefined],
    ["workspaces.create", "an owner's key", "needs_session_or_bootstrap"],
    ["workspaces.create", "bootstrap", undefined],
    ["embed.use", "an owner", "needs_embed_token"],
    ["embed.use", "an embed token", undefined],
    ["holder.use", "an API key", undefined],
    ["holder.use", "an owner's key", "needs_api_key"],
    ["holder.use", "a member", "needs_api_key"],
    ["holder.revoke", "an embed token", "needs_api_key"],
    ["holder.revoke", "bootstrap", "unusable_credential"],
    ["resources.read", "an API key", "unusable_credential"],
    ["public", "a member", undefined],
  ] as const satisfies readonly (readonly [AccessName, keyof typeof who, string | undefined])[]) {
    it(`${row} ${refused === undefined ? "admits" : `responds ${refused} to`} ${name}`, () => {
      expect(refusal(access[row], who[name])?.failure).toBe(refused);
    });
  }
});
