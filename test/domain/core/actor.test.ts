// What an actor implies: its audit columns, the environment it is confined to, and owner scope.
import { describe, expect, it } from "vitest";
import {
  actorColumns,
  confinedTo,
  hasOwnerScope,
  ANONYMOUS,
  SYSTEM,
  type Actor,
} from "../../../src/domain/core/actor.ts";

const key = {
  kind: "secret_key",
  id: "k",
  workspace_id: "w",
  owner_scope: false,
  expires_at: null,
  restriction: null,
} as const;
const session = { kind: "session", id: "s", user_id: "u", workspace_id: "w" } as const;

describe("an actor", () => {
  for (const [who, actor, columns, confined, owner] of [
    ["an owner's key", { ...key, env: "live", owner_scope: true }, ["secret_key", "k"], null, true],
    ["an admin's key", { ...key, env: "live" }, ["secret_key", "k"], null, false],
    ["a test key", { ...key, env: "test" }, ["secret_key", "k"], "test", false],
    ["an owner", { ...session, role: "owner" }, ["user", "u"], null, true],
    ["an admin", { ...session, role: "admin" }, ["user", "u"], null, false],
    ["a member", { ...session, role: "member" }, ["user", "u"], null, false],
    ["a person without a workspace", { ...session, workspace_id: null, role: null }, ["user", "u"], null, false],
    ["a person without a session", { kind: "user", user_id: "u" }, ["user", "u"], null, false],
    ["an embed token", { kind: "embed_token", tenant_id: "t", env: "test" }, ["embed_token", "t"], null, false],
    ["bootstrap", { kind: "bootstrap" }, ["bootstrap", null], null, true],
    ["a scanner", { kind: "scanner" }, ["scanner", null], null, false],
    ["the system", SYSTEM, ["system", null], null, true],
    ["anonymous", ANONYMOUS, ["system", null], null, false],
  ] as const) {
    it(`${who} is recorded as ${columns[0]}, sees ${confined ?? "both environments"}${owner ? ", has owner scope" : ""}`, () => {
      const it = actor as Actor;
      const { actor_type, actor_id } = actorColumns(it);
      expect([[actor_type, actor_id], confinedTo(it), hasOwnerScope(it)]).toEqual([columns, confined, owner]);
    });
  }
});
