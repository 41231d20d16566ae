// The holder of an API key: what the key shows of itself, and that its holder can stop it and, where allowed, rotate
// it.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  expectRefusal,
  sharedInstance,
  testInstance,
  type Json,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { formatApiKey, formatCredential } from "../../../src/kernel/credentials.ts";
import { createKeyrack } from "../../../src/sdk/index.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";
import { mistyped } from "../../../harness/mistyped.ts";

type AuditRow = { action: string; actor_type: string; actor_id: string; target_id: string; payload: Json };

for (const backend of runBackends) {
  describe(`the holder of a key on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const allowRotation = (workspace: Workspace) =>
      workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_policy: { holder_rotate: true } });
    const audit = async (workspace: Workspace): Promise<AuditRow[]> =>
      (await workspace.call("sk_owner", "GET /v1/audit_logs?limit=200&actor_type=api_key")).body.data;

    it("sees the key's own facts and nothing of the vendor, and leaves no trace", async () => {
      const workspace = await instance.workspace();
      const limits = [{ id: "rpm", limit: 5, window_ms: 60_000, algorithm: "fixed", scope: "key" }];
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { default_rate_limits: limits });
      const key = await workspace.mint({ name: "CI", scopes: ["read"], meta: { secret: "plan" } });
      const { status, body } = await instance.call(key.key, "GET /v1/self");
      expect([status, body]).toEqual([
        200,
        {
          object: "self",
          key_id: key.id,
          env: "live",
          display_prefix: key.display_prefix,
          name: "CI",
          scopes: ["read"],
          rate_limits: limits,
          address_restricted: false,
          expires_at: null,
          quarantined_at: null,
          rotated_from: null,
          replaced: false,
          rotatable: false,
          created_at: key.created_at,
        },
      ]);
      const head = await fetch(`${instance.url}/v1/self`, {
        method: "HEAD",
        headers: { authorization: `Bearer ${key.key}` },
      });
      expect(head.status).toBe(200);
      expect(await audit(workspace)).toEqual([]);
      expect((await workspace.call("sk_owner", `GET /v1/keys/${key.id}`)).body.last_used_at).toBeNull();
    });

    it("learns what a verifier would answer", async () => {
      const workspace = await instance.workspace();
      const expired = await workspace.mint({ expires_at: new Date(instance.clock.now() + 1_000).toISOString() });
      const [revoked, disabled, orphan] = [
        await workspace.mint(),
        await workspace.mint(),
        await workspace.mint({ name: "orphan" }),
      ];
      instance.clock.advance(1_000);
      await workspace.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, {});
      await workspace.call("sk_owner", `POST /v1/keys/${disabled.id}/disable`, {});
      const look = (key: string) => instance.call(key, "GET /v1/self");
      expectRefusal(await look(expired.key), 401, "expired_key");
      expectRefusal(await look(disabled.key), 403, "key_disabled");
      expect((await look(orphan.key)).status).toBe(200);
      await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/suspend`, {});
      for (const { key } of [orphan, disabled]) expectRefusal(await look(key), 403, "tenant_suspended");
      await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/resume`, {});
      await workspace.call("sk_owner", `DELETE /v1/tenants/${workspace.tenant_id}`);
      const never = formatCredential("api_key", "live", new Uint8Array(24).fill(9));
      const chosen = formatApiKey("acme", "test", new Uint8Array(24).fill(9));
      const broken = [never, chosen].map(mistyped);
      const refusals = [revoked.key, orphan.key, never, chosen, ...broken, "kr_live_x", "acme_live_x"];
      const answers = new Set<string>();
      for (const key of refusals) {
        const reply = await look(key);
        expectRefusal(reply, 401, "invalid_key");
        answers.add(reply.text);
      }
      expect(answers.size).toBe(1);
    });

    it("accepts the key as the bearer only, and no other kind of credential", async () => {
      const workspace = await instance.workspace();
      const { key } = await workspace.mint();
      expectRefusal(
        await instance.call(null, "GET /v1/self", undefined, { headers: { "x-api-key": key } }),
        401,
        "unauthenticated",
      );
      for (const bearer of [workspace.keys.sk_owner, workspace.keys.sk_test]) {
        const reply = await instance.call(bearer, "POST /v1/self/revoke", {});
        expectRefusal(reply, 403, "forbidden");
        expect(reply.body.error.message).toBe("This endpoint accepts an API key only.");
      }
      const { status, headers } = await fetch(`${instance.url}/v1/self`, {
        method: "OPTIONS",
        headers: { origin: "https://evil.example.com", "access-control-request-method": "GET" },
      });
      expect([status, headers.get("allow")]).toEqual([204, "GET, HEAD, OPTIONS"]);
      expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
      expectRefusal(await instance.call(key, "GET /v1/workspace"), 401, "invalid_key");
      expectRefusal(await instance.call(key, `POST /v1/keys`, {}), 401, "invalid_key");
    });

    it("revokes the key: when the answer arrives every node refuses it", async () => {
      const workspace = await instance.workspace();
      const { key, id } = await workspace.mint();
      const node = createKeyrack({
        url: instance.url,
        secretKey: workspace.keys.sk_owner,
        projectId: workspace.project_id,
      });
      try {
        await node.ready();
        expect(node.verify(key).ok).toBe(true);
        const { status, body } = await instance.call(key, "POST /v1/self/revoke?wait=true", {
          reason: "pushed to GitHub",
        });
        expect(node.verify(key)).toMatchObject({ ok: false, code: "invalid_key" });
        expect([status, body]).toEqual([
          200,
          {
            object: "self",
            key_id: id,
            revoked_at: expect.any(String),
            revoked_reason: "pushed to GitHub",
            propagation: { complete: true, waited_ms: expect.any(Number) },
          },
        ]);
      } finally {
        await node.close();
      }
      const again = await instance.call(key, "POST /v1/self/revoke", { reason: "again" });
      expect([again.status, again.body.revoked_reason]).toEqual([200, "pushed to GitHub"]);
      expect(await audit(workspace)).toMatchObject([
        {
          action: "api_key.revoked",
          actor_id: id,
          target_id: id,
          payload: { env: "live", reason: "pushed to GitHub", by: "holder" },
        },
      ]);
      expect((await workspace.call("sk_owner", "GET /v1/audit_logs/chain")).body.verified).toBe(true);
    });

    it("revokes a key in any state", async () => {
      const workspace = await instance.workspace();
      const expired = await workspace.mint({ expires_at: new Date(instance.clock.now() + 1_000).toISOString() });
      instance.clock.advance(1_000);
      const [disabled, revoked] = [await workspace.mint(), await workspace.mint({ name: "revoked" })];
      await workspace.call("sk_owner", `POST /v1/keys/${disabled.id}/disable`, {});
      await workspace.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, { reason: "by the vendor" });
      const suspended = await workspace.mint({ name: "suspended" });
      await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/suspend`, {});
      for (const { key } of [expired, disabled, suspended])
        expect((await instance.call(key, "POST /v1/self/revoke", {})).body.revoked_reason).toBe(
          "revoked by its holder",
        );
      expect((await instance.call(revoked.key, "POST /v1/self/revoke", {})).body.revoked_reason).toBe("by the vendor");
      expect((await audit(workspace)).map(({ target_id }) => target_id)).toEqual([
        expired.id,
        disabled.id,
        suspended.id,
      ]);
      const never = formatCredential("api_key", "live", new Uint8Array(24).fill(9));
      expectRefusal(await instance.call(never, "POST /v1/self/revoke", {}), 401, "invalid_key");
    });

    it("rotates the key only where the project allows it, and once while a successor works", async () => {
      const workspace = await instance.workspace();
      const quotas = [{ id: "calls", amount: 10, refill: "none" }];
      const key = await workspace.mint({ scopes: ["read"], meta: { plan: "pro" }, quotas });
      const rotate = (bearer: string, headers = {}) =>
        instance.call(bearer, "POST /v1/self/rotate", { overlap_hours: 1 }, { headers });
      const refused = await rotate(key.key);
      expectRefusal(refused, 403, "forbidden");
      expect(refused.body.error.message).toBe("Keys of this project cannot be rotated by their holder.");
      expect((await allowRotation(workspace)).body.key_policy).toMatchObject({ holder_rotate: true });
      expect((await instance.call(key.key, "GET /v1/self")).body.rotatable).toBe(true);
      const idempotent = { "idempotency-key": "one" };
      const rotated = await rotate(key.key, idempotent);
      expect(rotated.body).toMatchObject({
        rotated_from: key.id,
        scopes: ["read"],
        meta: {},
        previous_key: { meta: {} },
      });
      for (const shown of [rotated.body, rotated.body.previous_key]) expect(shown).not.toHaveProperty("quotas");
      expect((await rotate(key.key, idempotent)).body).toEqual(rotated.body);
      expectRefusal(await rotate(key.key), 409, "conflict");
      const self = (await instance.call(key.key, "GET /v1/self")).body;
      expect([self.replaced, self.rotatable]).toEqual([true, false]);
      expect((await instance.call(rotated.body.key, "GET /v1/self")).body.rotated_from).toBe(key.id);
      expect((await workspace.call("sk_owner", `GET /v1/keys/${rotated.body.id}`)).body.meta).toEqual({ plan: "pro" });
      expect(await audit(workspace)).toMatchObject([
        { action: "api_key.rotated", actor_id: key.id, payload: { successor_id: rotated.body.id, by: "holder" } },
      ]);
    });

    it("gives the answer of a rotation that ended the key at once again, and to no other request", async () => {
      const workspace = await instance.workspace();
      await allowRotation(workspace);
      const { key } = await workspace.mint();
      const rotate = (idempotencyKey?: string) =>
        instance.call(
          key,
          "POST /v1/self/rotate",
          { overlap_hours: 0 },
          {
            headers: idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey },
          },
        );
      const rotated = await rotate("one");
      expect(rotated.status).toBe(200);
      const again = await rotate("one");
      expect([again.status, again.body]).toEqual([200, rotated.body]);
      for (const other of ["two", undefined]) expectRefusal(await rotate(other), 401, "expired_key");
      await instance.call(key, "POST /v1/self/revoke", {});
      expectRefusal(await rotate("one"), 401, "invalid_key");
    });
  });
}

describe("the holder plane", () => {
  it("is throttled by network, by key and by rotations, before the key is looked up", async () => {
    await using instance = await testInstance("sqlite", { flags: { throttle: "on" } });
    const workspace = await instance.workspace();
    const { key } = await workspace.mint();
    const statusesOf = async (count: number, route: string, bearer: string, body?: object) => {
      const statuses: number[] = [];
      for (let i = 0; i < count; i++) statuses.push((await instance.call(bearer, route, body)).status);
      return statuses;
    };
    expect(await statusesOf(6, "POST /v1/self/rotate", key, {})).toEqual([...Array(5).fill(403), 429]);
    instance.clock.advance(MINUTE_MS);
    expect((await statusesOf(31, "GET /v1/self", key)).slice(29)).toEqual([200, 429]);
    instance.clock.advance(MINUTE_MS);
    expect((await statusesOf(61, "GET /v1/self", "kr_live_x")).slice(59)).toEqual([401, 429]);
  });

  it("does not exist where it is off", async () => {
    await using instance = await testInstance("sqlite", { flags: { holder_plane: "off" } });
    const workspace = await instance.workspace();
    const { key } = await workspace.mint();
    for (const route of ["GET /v1/self", "POST /v1/self/revoke", "POST /v1/self/rotate"])
      expectRefusal(await instance.call(key, route, route.startsWith("POST") ? {} : undefined), 404, "not_found");
  });
});
