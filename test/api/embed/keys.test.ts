// The embed plane: a tenant's own keys only, within what the token grants, and only for registered origins.
import { describe, expect, it } from "vitest";
import { endpoints } from "../../../src/api/index.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { ALL_SCOPES, embed, ORIGIN } from "../../../harness/instances/embed.ts";
import { expectRefusal, sharedInstance, testInstance, type Reply } from "../../../harness/instances/test-instance.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

const NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057";
const EXPOSED = "request-id, retry-after, ratelimit, ratelimit-policy";
const corsOf = ({ headers }: Reply): string[] =>
  [...headers.keys()].filter((name) => name.startsWith("access-control"));

for (const backend of runBackends) {
  describe(`the embed plane on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("returns what the token grants", async () => {
      const e = await embed(instance, { env: "test" });
      expect((await e.call("GET /v1/embed/session")).body).toEqual({
        object: "embed_session",
        project: { id: e.workspace.project_id, name: "API", slug: "api" },
        env: "test",
        test_mode: true,
        tenant: { id: e.workspace.tenant_id, external_id: "customer", name: null },
        scopes: ALL_SCOPES,
        default_ttl_days: null,
        scope_catalogue: [],
        expires_at: e.minted.expires_at,
        expires_in: expect.any(Number),
        suspended: false,
        accepts_idempotency_key: true,
      });
    });

    it("of a suspended tenant reads and revokes, but creates and rotates nothing", async () => {
      const e = await embed(instance);
      const { id } = (await e.call("POST /v1/embed/keys", {})).body;
      await e.workspace.call("sk_owner", `POST /v1/tenants/${e.workspace.tenant_id}/suspend`, {});
      expect((await e.call("GET /v1/embed/session")).body.suspended).toBe(true);
      for (const route of ["POST /v1/embed/keys", `POST /v1/embed/keys/${id}/rotate`]) {
        const refused = await e.call(route, {});
        expectRefusal(refused, 409, "conflict");
        expect(refused.body.error.message).toBe("This tenant is suspended.");
      }
      expect((await e.call("GET /v1/embed/keys")).body.data).toHaveLength(1);
      expect((await e.call(`POST /v1/embed/keys/${id}/revoke`, {})).status).toBe(200);
    });

    it("creates, lists, rotates and revokes the tenant's keys, and names the token in the audit log", async () => {
      const e = await embed(instance);
      const made = await e.call("POST /v1/embed/keys", { name: "CI", scopes: ["orders:read"] });
      expect(made.status).toBe(201);
      expect(made.body).toMatchObject({
        object: "api_key",
        project_id: e.workspace.project_id,
        tenant_id: e.workspace.tenant_id,
        env: "live",
        name: "CI",
        scopes: ["orders:read"],
        meta: {},
        rate_limits: null,
        expires_at: null,
        key_shown_once: true,
      });
      expect(made.body.key).toMatch(/^kr_live_/);
      const { id } = made.body;
      const once = { headers: { origin: ORIGIN, "idempotency-key": "one-dialog" } };
      const rotate = () =>
        instance.call(e.minted.token, `POST /v1/embed/keys/${id}/rotate`, { overlap_hours: 1 }, once);
      const rotated = await rotate();
      expect((await rotate()).text === rotated.text).toBe(true); // repeated after a lost answer
      expect(rotated.body).toMatchObject({ rotated_from: id, meta: {}, previous_key: { id, meta: {} } });
      expect(rotated.body.previous_key.expires_at).toBe(new Date(instance.clock.now() + HOUR_MS).toISOString());
      const revoked = await e.call(`POST /v1/embed/keys/${id}/revoke`, { reason: "left the team" });
      expect(revoked.body).toMatchObject({ id, revoked_reason: "left the team", meta: {} });
      expect((await e.call(`POST /v1/embed/keys/${id}/revoke`)).body).toEqual(revoked.body);
      const shown = await e.call("GET /v1/embed/keys");
      expect(shown.body.data.map((key: { id: string }) => key.id)).toEqual([rotated.body.id]);
      expect((await e.call("GET /v1/embed/keys?include_revoked=true")).body.data).toHaveLength(2);
      const { body: log } = await e.workspace.call("sk_owner", "GET /v1/audit_logs?limit=200");
      const mine = (log.data as { actor_type: string; action: string; actor_id: string; payload: object }[]).filter(
        ({ actor_type }) => actor_type === "embed_token",
      );
      expect(mine.map(({ action }) => action)).toEqual(["api_key.created", "api_key.rotated", "api_key.revoked"]);
      for (const row of mine) {
        expect(row.actor_id).toBe(e.workspace.tenant_id);
        expect(row.payload).toMatchObject({ jti: e.minted.jti });
      }
    });

    it("hides the vendor's meta and every key of another tenant, project or environment", async () => {
      const e = await embed(instance);
      const mine = await e.workspace.mint({ meta: { plan: "secret" } });
      const tenant = await e.workspace.call("sk_owner", "POST /v1/tenants", { external_id: "other" });
      const project = await e.workspace.call("sk_owner", "POST /v1/projects", { name: "B", slug: "other" });
      const foreign = [
        await e.workspace.mint({ tenant_id: tenant.body.id }),
        await e.workspace.mint({ project_id: project.body.id }),
        await e.workspace.mint({ env: "test" }),
        { id: NOWHERE },
        await (await embed(instance)).workspace.mint(),
      ];
      const { body } = await e.call("GET /v1/embed/keys?include_revoked=true");
      expect(body.data).toHaveLength(1);
      expect(body.data[0]).toMatchObject({ id: mine.id, meta: {} });
      const before = await e.workspace.actions();
      for (const { id } of foreign) {
        expectRefusal(await e.call(`POST /v1/embed/keys/${id}/rotate`), 404, "not_found");
        expectRefusal(await e.call(`POST /v1/embed/keys/${id}/revoke`), 404, "not_found");
        expectRefusal(await e.call(`GET /v1/embed/keys/${id}/usage`), 404, "not_found");
      }
      expect(await e.workspace.actions()).toEqual(before);
    });

    it("returns usage of exactly the requested days, oldest first, today last", async () => {
      const e = await embed(instance);
      const { id } = await e.workspace.mint();
      const { body } = await e.call(`GET /v1/embed/keys/${id}/usage?days=7`);
      expect(body).toMatchObject({ object: "usage", key_id: id, days: 7 });
      expect(body.data).toHaveLength(7);
      expect(body.data.at(-1).day).toBe(new Date(instance.clock.now()).toISOString().slice(0, 10));
      expectRefusal(await e.call(`GET /v1/embed/keys/${id}/usage?days=91`), 400, "invalid_request", "days");
    });

    const scoped: [string, string[], string[]][] = [
      ["GET /v1/embed/keys", ["keys:write"], ["keys:read"]],
      [`GET /v1/embed/keys/${NOWHERE}/usage`, [], ["keys:read"]],
      ["POST /v1/embed/keys", ["keys:read"], ["keys:write"]],
      [`POST /v1/embed/keys/${NOWHERE}/rotate`, ["keys:read"], ["keys:write"]],
      [`POST /v1/embed/keys/${NOWHERE}/revoke`, ["keys:read", "key_scope:a"], ["keys:write"]],
    ];
    for (const [route, scopes, missing_scopes] of scoped) {
      it(`${route.replace(NOWHERE, "{id}")} requires ${missing_scopes[0]}, checked before anything else`, async () => {
        const e = await embed(instance, { scopes });
        const reply = await e.call(route, route.startsWith("POST") ? { nonsense: 1 } : undefined);
        expectRefusal(reply, 403, "insufficient_scope");
        expect(reply.body.error.missing_scopes).toEqual(missing_scopes);
        expect(reply.headers.get("www-authenticate")).toBe(
          `Bearer realm="keyrack", error="insufficient_scope", scope="${missing_scopes[0]}"`,
        );
        expect((await e.call("GET /v1/embed/session")).status).toBe(200);
      });
    }

    it("puts only granted scopes on a key, when creating and when rotating", async () => {
      const e = await embed(instance);
      const more = await e.call("POST /v1/embed/keys", { scopes: ["orders:read", 'admin "\r\n', "orders:delete"] });
      expectRefusal(more, 403, "insufficient_scope");
      expect(more.body.error.missing_scopes).toEqual(['key_scope:admin "\r\n', "key_scope:orders:delete"]);
      expect(more.headers.get("www-authenticate")).toBe('Bearer realm="keyrack", error="insufficient_scope"');
      const { id } = await e.workspace.mint({ scopes: ["admin"] });
      const rotate = await e.call(`POST /v1/embed/keys/${id}/rotate`);
      expectRefusal(rotate, 403, "insufficient_scope");
      expect(rotate.body.error.missing_scopes).toEqual(["key_scope:admin"]);
      expect((await e.call(`POST /v1/embed/keys/${id}/revoke`)).status).toBe(200);
    });

    it("allows at most 100 active keys per tenant, project and environment, also concurrently", async () => {
      const e = await embed(instance);
      await Promise.all(Array.from({ length: 97 }, () => e.workspace.mint()));
      const replies = await Promise.all(Array.from({ length: 8 }, () => e.call("POST /v1/embed/keys", {})));
      expect(replies.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
        201,
        201,
        201,
        ...Array(5).fill(409),
      ]);
      const { id } = replies.find(({ status }) => status === 201)?.body ?? {};
      expect((await e.call(`POST /v1/embed/keys/${id}/rotate`)).status).toBe(200);
      expectRefusal(await e.call("POST /v1/embed/keys", {}), 409, "conflict");
    });

    it("rotates a key once while its successor is active, and never an expired or revoked one", async () => {
      const e = await embed(instance);
      const { id } = await e.workspace.mint();
      const first = await e.call(`POST /v1/embed/keys/${id}/rotate`, { overlap_hours: 168 });
      expectRefusal(await e.call(`POST /v1/embed/keys/${id}/rotate`), 409, "conflict");
      await e.call(`POST /v1/embed/keys/${first.body.id}/revoke`);
      expectRefusal(await e.call(`POST /v1/embed/keys/${first.body.id}/rotate`), 409, "conflict");
      expect((await e.call(`POST /v1/embed/keys/${id}/rotate`, { overlap_hours: 0 })).status).toBe(200);
      expectRefusal(await e.call(`POST /v1/embed/keys/${id}/rotate`), 409, "conflict");
    });

    it("takes no tenant, project or environment from a request", async () => {
      const e = await embed(instance);
      for (const name of ["tenant_id", "project_id", "env", "meta", "rate_limits", "expires_at"]) {
        expectRefusal(await e.call("POST /v1/embed/keys", { [name]: NOWHERE }), 400, "invalid_request", name);
      }
      expectRefusal(await e.call(`GET /v1/embed/keys?tenant_id=${NOWHERE}`), 400, "invalid_request", "tenant_id");
      expectRefusal(await e.call("GET /v1/embed/keys?limit=101"), 400, "invalid_request", "limit");
    });

    it("responds to a preflight from any registered origin without a token, and from no other", async () => {
      const e = await embed(instance);
      for (const path of ["session", "keys", `keys/${NOWHERE}/rotate`]) {
        const ok = await instance.call(null, `OPTIONS /v1/embed/${path}`, undefined, { headers: { origin: ORIGIN } });
        expect(ok.status).toBe(204);
        expect(Object.fromEntries(corsOf(ok).map((name) => [name, ok.headers.get(name)]))).toEqual({
          "access-control-allow-origin": ORIGIN,
          "access-control-allow-methods": "GET, POST",
          "access-control-allow-headers": "authorization, content-type, idempotency-key",
          "access-control-max-age": "600",
        });
        expect(ok.headers.get("vary")).toBe("origin");
      }
      for (const origin of ["https://evil.example", "null", undefined, "https://app.example.com/x"]) {
        const no = await instance.call(null, "OPTIONS /v1/embed/keys", undefined, {
          headers: origin ? { origin } : {},
        });
        expectRefusal(no, 403, "origin_not_allowed");
        expect(corsOf(no)).toEqual([]);
      }
      await e.workspace.call("sk_owner", "PATCH /v1/workspace", { embed_origins: ["https://only.example"] });
      const only = await instance.call(null, "OPTIONS /v1/embed/keys", undefined, {
        headers: { origin: "https://only.example" },
      });
      expect(only.status).toBe(204);
      await e.workspace.call("sk_owner", "PATCH /v1/workspace", { embed_origins: [] });
      const gone = await instance.call(null, "OPTIONS /v1/embed/keys", undefined, {
        headers: { origin: "https://only.example" },
      });
      expectRefusal(gone, 403, "origin_not_allowed");
    });

    it("lets the page read responses and errors, and never allows credentials", async () => {
      const e = await embed(instance);
      const replies = [
        await e.call("GET /v1/embed/session"),
        await e.call("GET /v1/embed/keys?limit=0"),
        await e.call(`POST /v1/embed/keys/${NOWHERE}/rotate`),
        await e.call("DELETE /v1/embed/keys"),
        await instance.call(null, "GET /v1/embed/session", undefined, { headers: { origin: ORIGIN } }),
        await instance.call(e.workspace.keys.sk_owner, "GET /v1/embed/session", undefined, {
          headers: { origin: ORIGIN },
        }),
      ];
      expect(replies.map(({ status }) => status)).toEqual([200, 400, 404, 405, 401, 403]);
      for (const reply of replies) {
        expect(reply.headers.get("access-control-allow-origin")).toBe(ORIGIN);
        expect(reply.headers.get("access-control-expose-headers")).toBe(EXPOSED);
        expect(reply.headers.get("access-control-allow-credentials")).toBeNull();
        expect(reply.headers.get("cross-origin-resource-policy")).toBe("cross-origin");
        expect(reply.headers.get("vary")).toBe("origin");
      }
    });

    it("sends no cross-origin header elsewhere, except * on the JWKS and the portal's script", async () => {
      await embed(instance);
      for (const { method, path, cors } of endpoints.filter((endpoint) => endpoint.cors !== "embed")) {
        for (const verb of [method, "OPTIONS"]) {
          const route = `${verb} ${path.replace(/\{\w+\}/g, NOWHERE)}`;
          const reply = await instance.call(null, route, undefined, { headers: { origin: ORIGIN } });
          expect([route, ...corsOf(reply)]).toEqual([route, ...(cors ? ["access-control-allow-origin"] : [])]);
        }
      }
    });
  });

  it(`another process on ${backend} applies an origin, a revocation and a compromised key at once`, async () => {
    if (backend === "sqlite") return; // SQLite has one process per database
    await using one = await testInstance(backend, { flags: { public_url: "https://keys.example.com" } });
    await using two = await testInstance(backend, { beside: one, flags: { public_url: "https://keys.example.com" } });
    const e = await embed(one);
    const headers = { origin: ORIGIN };
    const onTwo = (): Promise<Reply> => two.call(e.minted.token, "GET /v1/embed/session", undefined, { headers });
    expect((await two.call(null, "OPTIONS /v1/embed/keys", undefined, { headers })).status).toBe(204);
    expect((await onTwo()).status).toBe(200);
    await e.workspace.call("sk_owner", `POST /v1/tenants/${e.workspace.tenant_id}/embed_tokens/revoke`);
    expectRefusal(await onTwo(), 401, "invalid_embed_token");
    await e.workspace.call("sk_owner", "PATCH /v1/workspace", { embed_origins: [] });
    expect((await two.call(null, "OPTIONS /v1/embed/keys", undefined, { headers })).status).toBe(403);
  });

  it.runIf(backend === "sqlite")("a tenant gets 120 requests and 30 writes a minute", async () => {
    await using instance = await testInstance(backend, { flags: { throttle: "on" } });
    const e = await embed(instance);
    instance.clock.set(Math.ceil(instance.clock.now() / 60_000) * 60_000);
    const { body } = await e.mint();
    const call = (route: string): Promise<Reply> => e.call(route, undefined, { token: body.token });
    for (let i = 0; i < 30; i++) expect((await call(`POST /v1/embed/keys/${NOWHERE}/revoke`)).status).toBe(404);
    const write = await call(`POST /v1/embed/keys/${NOWHERE}/revoke`);
    expectRefusal(write, 429, "rate_limited");
    expect(write.headers.get("ratelimit-policy")).toBe('"embed-writes";q=30;w=60');
    expect(write.headers.get("retry-after")).toBe("60");
    expect(write.headers.get("access-control-allow-origin")).toBe(ORIGIN);
    for (let i = 31; i < 120; i++) expect((await call("GET /v1/embed/session")).status).toBe(200);
    const read = await call("GET /v1/embed/session");
    expectRefusal(read, 429, "rate_limited");
    expect(read.headers.get("ratelimit-policy")).toBe('"embed";q=120;w=60');
    const other = await embed(instance);
    expect((await other.call("GET /v1/embed/session")).status).toBe(200);
    instance.clock.advance(60_000);
    expect((await call("GET /v1/embed/session")).status).toBe(200);
  });
}
