// Who is charged: cells, accounts and networks.
import { describe, expect, it } from "vitest";
import { cellOwner, networkOwner, prefixOf } from "../../src/fairness/owners.ts";
import { ownerOf } from "../../src/domain/core/actor.ts";

describe("a cell", () => {
  it("is one environment of a workspace, in the account that created it", () => {
    const ids = [cellOwner("w", "live"), cellOwner("w", "test"), cellOwner("v", "live", "ann")];
    expect(ids.map(({ id, group, evictedFirst }) => [id, group, evictedFirst])).toEqual([
      ["w/live", "w", false],
      ["w/test", "w", true],
      ["v/live", "ann", false],
    ]);
  });
});

describe("a network", () => {
  it("is an IPv4 /24 or an IPv6 /48", () => {
    expect(networkOwner("198.51.100.77").id).toBe("198.51.100.0/24");
    expect(networkOwner("2001:db8:1:2:3:4:5:6").id).toBe(networkOwner("2001:db8:1:ffff::1").id);
    expect(networkOwner("2001:db8:1::1").id).not.toBe(networkOwner("2001:db8:2::1").id);
    expect(networkOwner("::1").id).toBe("0:0:0::/48");
    expect(prefixOf("2001:db8::1", 64)).toBe("2001:db8:0:0::/64");
  });
});

describe("an actor", () => {
  it("is charged to its cell; a session acts in live; a person without a workspace is charged alone", () => {
    const key = {
      kind: "secret_key",
      id: "k",
      workspace_id: "w",
      env: "test",
      owner_scope: false,
      expires_at: null,
      restriction: null,
    };
    const session = { kind: "session", id: "s", user_id: "u", workspace_id: "w", role: "owner" };
    expect(ownerOf(key as never).id).toBe("w/test");
    expect(ownerOf(key as never).group).toBe("w");
    for (const actor of [key, session, { ...key, kind: "embed_token" }])
      expect(ownerOf({ ...actor, account_id: "a" } as never).group, actor.kind).toBe("a");
    expect(ownerOf(session as never).id).toBe("w/live");
    expect(ownerOf({ ...session, workspace_id: null } as never)).toMatchObject({ kind: "person", id: "u" });
    expect(ownerOf({ kind: "system" })).toMatchObject({ kind: "account", id: "system" });
  });
});
