// Embed tokens: minting, verification from the JWKS alone, and every token that must be rejected.
import { createPublicKey, verify } from "node:crypto";
import { createLocalJWKSet, jwtVerify } from "jose";
import { beforeAll, describe, expect, it } from "vitest";
import { EMBED_TYP } from "../../../src/domain/embed/tokens.ts";
import { PUBLISH_MS, rotateSigningKey } from "../../../src/domain/embed/signing-keys.ts";
import { SYSTEM } from "../../../src/domain/core/actor.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  ALL_SCOPES,
  claimsOf,
  embed,
  forge,
  ORIGIN,
  signingKey,
  strangerKey,
  unsigned,
  type Embed,
} from "../../../harness/instances/embed.ts";
import {
  expectRefusal,
  sharedInstance,
  testInstance,
  type Json,
  type TestInstance,
} from "../../../harness/instances/test-instance.ts";

const NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057";

for (const backend of runBackends) {
  describe(`POST /v1/embed_tokens on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("returns exactly the contract's fields, valid for five minutes, and writes no audit row", async () => {
      const e = await embed(instance);
      const before = await e.workspace.actions();
      const { status, body } = await e.mint();
      expect(status).toBe(201);
      const iat = Math.floor(instance.clock.now() / 1000) * 1000;
      const at = (seconds: number): string => new Date(iat + seconds * 1000).toISOString();
      expect(body).toEqual({
        object: "embed_token",
        token: expect.stringMatching(/^eyJ[\w-]+\.[\w-]+\.[\w-]+$/),
        jti: expect.any(String),
        kid: expect.stringMatching(/^[\w-]{43}$/),
        project_id: e.workspace.project_id,
        env: "live",
        tenant_id: e.workspace.tenant_id,
        tenant_external_id: "customer",
        scopes: ALL_SCOPES,
        audience: [ORIGIN, "http://localhost:3000"],
        epoch: 1,
        issued_at: at(0),
        expires_at: at(300),
        expires_in: 300,
        refresh_after: at(240),
      });
      expect(await e.workspace.actions()).toEqual(before);
    });

    it("grants keys:read by default, and normalises the origin", async () => {
      const e = await embed(instance);
      const { body } = await e.mint({
        scopes: undefined,
        origins: ["HTTPS://App.Example.com:443".replace("HTTPS", "https")],
      });
      expect(body.scopes).toEqual(["keys:read"]);
      expect(body.audience).toEqual([ORIGIN]);
    });

    it("verifies with jose and with node:crypto from the JWKS alone", async () => {
      const e = await embed(instance);
      const { body: jwks } = await instance.call(null, "GET /.well-known/jwks.json");
      const { token } = e.minted;
      const { payload, protectedHeader } = await jwtVerify(token, createLocalJWKSet(jwks), {
        issuer: instance.app.services.publicUrl,
        audience: ORIGIN,
        typ: EMBED_TYP,
        algorithms: ["EdDSA"],
        currentDate: new Date(instance.clock.now()),
      });
      expect(protectedHeader).toEqual({ alg: "EdDSA", kid: e.minted.kid, typ: EMBED_TYP });
      expect(payload).toMatchObject({ sub: e.workspace.tenant_id, wid: e.workspace.id, ext: "customer", env: "live" });
      const [head = "", claims = "", signature = ""] = token.split(".");
      const jwk = (jwks.keys as { kid: string }[]).find(({ kid }) => kid === e.minted.kid);
      const key = createPublicKey({ key: jwk as never, format: "jwk" });
      expect(verify(null, Buffer.from(`${head}.${claims}`), key, Buffer.from(signature, "base64url"))).toBe(true);
    });

    const refused: [string, Json, number, string, ...string[]][] = [
      ["an origin that is not registered", { origins: ["https://evil.example"] }, 400, "invalid_request", "origins"],
      [
        "one unregistered among good ones",
        { origins: [ORIGIN, "https://x.example"] },
        400,
        "invalid_request",
        "origins",
      ],
      ["no origin at all", { origins: [] }, 400, "invalid_request", "origins"],
      ["21 origins", { origins: Array(21).fill(ORIGIN) }, 400, "invalid_request", "origins"],
      ["an unknown scope", { scopes: ["keys:admin"] }, 400, "invalid_request", "scopes[0]"],
      ["an empty key scope", { scopes: ["key_scope:"] }, 400, "invalid_request", "scopes[0]"],
      ["33 scopes", { scopes: Array(33).fill("keys:read") }, 400, "invalid_request", "scopes"],
      ["a scope of 221 characters", { scopes: [`key_scope:${"x".repeat(211)}`] }, 400, "invalid_request", "scopes[0]"],
      [
        "scopes that make the token longer than a header holds",
        { scopes: Array.from({ length: 32 }, (_n, i) => `key_scope:${String.fromCodePoint(0x1f600 + i).repeat(200)}`) },
        400,
        "invalid_request",
        "scopes",
      ],
      ["an unknown project", { project_id: NOWHERE }, 404, "not_found"],
      ["an unknown tenant", { tenant_id: NOWHERE }, 404, "not_found"],
      ["a field it does not know", { ttl: 900 }, 400, "invalid_request", "ttl"],
    ];
    for (const [why, body, status, code, ...paths] of refused) {
      it(`refuses ${why}`, async () => {
        const e = await embed(instance);
        expectRefusal(await e.mint(body), status, code, ...paths);
      });
    }

    it("refuses any Origin header, even null", async () => {
      const e = await embed(instance);
      for (const origin of [ORIGIN, "null", "https://evil.example", "x"]) {
        const reply = await e.mint({}, { origin });
        expectRefusal(reply, 403, "origin_not_allowed");
        expect(reply.headers.get("access-control-allow-origin")).toBeNull();
      }
    });

    it("rejects a workspace without origins, and a test key that asks for live", async () => {
      const workspace = await instance.workspace();
      const body = { project_id: workspace.project_id, tenant_id: workspace.tenant_id, env: "live" };
      expectRefusal(await workspace.call("sk_owner", "POST /v1/embed_tokens", body), 400, "invalid_request", "origins");
      expectRefusal(await workspace.call("sk_test", "POST /v1/embed_tokens", body), 403, "forbidden");
    });

    it("refuses a revoked secret key at once", async () => {
      const e = await embed(instance);
      await e.workspace.call("sk_owner", `POST /v1/secret_keys/${e.workspace.keyIds.sk_owner}/revoke`);
      expectRefusal(await e.mint(), 401, "invalid_key");
    });

    it("refuses another workspace's tenant", async () => {
      const [e, other] = [await embed(instance), await embed(instance)];
      expectRefusal(await e.mint({ tenant_id: other.workspace.tenant_id }), 404, "not_found");
      expectRefusal(await e.mint({ project_id: other.workspace.project_id }), 404, "not_found");
    });
  });

  describe(`an embed token on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let e: Embed;
    beforeAll(async () => {
      e = await embed(instance);
    });

    const now = (): number => Math.floor(instance.clock.now() / 1000);
    const bad: [string, () => Promise<string> | string][] = [
      ["signed by an unknown key", () => forge(instance, e, { key: strangerKey() })],
      ["with an unknown kid", () => forge(instance, e, { header: { kid: "A".repeat(43) } })],
      ["signed by the standby, which has never signed anything", () => bySibling(instance, e)],
      ["with alg none", () => unsigned({ alg: "none", kid: e.minted.kid, typ: EMBED_TYP }, claimsOf(e.minted.token))],
      ["with no signature", () => `${e.minted.token.split(".").slice(0, 2).join(".")}.`],
      ["with another alg in its header", () => swapHeader(e, { alg: "HS256" })],
      ["with alg Ed25519", () => swapHeader(e, { alg: "Ed25519" })],
      ["of another typ", () => forge(instance, e, { header: { typ: "JWT" } })],
      ["with no typ", () => forge(instance, e, { header: { typ: undefined } })],
      ["that brings its own key", () => forge(instance, e, { header: { jwk: { kty: "OKP" } } })],
      ["that names a key by URL", () => forge(instance, e, { header: { jku: "https://evil.example/jwks" } })],
      ["that names a certificate", () => forge(instance, e, { header: { x5u: "https://evil.example/x5u" } })],
      ["from another issuer", () => forge(instance, e, { claims: { iss: "https://evil.example" } })],
      ["with an expired time", () => forge(instance, e, { claims: { exp: now() } })],
      ["of the future", () => forge(instance, e, { claims: { nbf: now() + 6 } })],
      ["with an audience that is no list", () => forge(instance, e, { claims: { aud: ORIGIN } })],
      ["of another tenant", () => forge(instance, e, { claims: { sub: NOWHERE } })],
      ["of another project", () => forge(instance, e, { claims: { pid: NOWHERE } })],
      ["of another workspace", () => forge(instance, e, { claims: { wid: NOWHERE } })],
      ["of another epoch", () => forge(instance, e, { claims: { epoch: 2 } })],
      ["of an environment that is none", () => forge(instance, e, { claims: { env: "prod" } })],
      ["with a changed claim", () => swapClaims(e, { scopes: ["keys:write"] })],
      ["cut short", () => e.minted.token.slice(0, -4)],
      ["that is only dots", () => "eyJ.."],
    ];
    for (const [why, make] of bad) {
      it(`is rejected ${why}`, async () => {
        const reply = await e.call("GET /v1/embed/session", undefined, { token: await make() });
        expectRefusal(reply, 401, "invalid_embed_token");
        expect(reply.headers.get("www-authenticate")).toBe('Bearer realm="keyrack", error="invalid_token"');
        expect(reply.headers.get("access-control-allow-origin")).toBe(ORIGIN);
      });
    }

    it("is accepted as minted, and up to five seconds early", async () => {
      expect((await e.call("GET /v1/embed/session")).status).toBe(200);
      const early = await forge(instance, e, { claims: { nbf: now() + 5 } });
      expect((await e.call("GET /v1/embed/session", undefined, { token: early })).status).toBe(200);
    });

    it("is not accepted on the vendor plane", async () => {
      expectRefusal(await e.call("GET /v1/keys"), 403, "forbidden");
      expectRefusal(await e.call("GET /v1/keys", undefined, { origin: null }), 403, "forbidden");
    });

    const origins: [string, string | null][] = [
      ["no origin", null],
      ["an unregistered origin", "https://evil.example"],
      ["null", "null"],
      ["a registered origin that is not in its audience", "http://localhost:3000"],
      ["a look-alike", "https://app.example.com.evil.example"],
      ["another port", "https://app.example.com:8443"],
    ];
    for (const [why, origin] of origins) {
      it(`is rejected from ${why}`, async () => {
        const { body } = await e.mint({ origins: [ORIGIN] });
        const reply = await e.call("GET /v1/embed/session", undefined, { token: body.token, origin });
        expectRefusal(reply, 403, "origin_not_allowed");
        const known = origin === "http://localhost:3000";
        expect(reply.headers.get("access-control-allow-origin")).toBe(known ? origin : null);
      });
    }

    it("expires to the second", async () => {
      await using instance = await testInstance(backend);
      const e = await embed(instance);
      const { exp } = claimsOf(e.minted.token) as { exp: number };
      instance.clock.set(exp * 1000 - 1);
      expect((await e.call("GET /v1/embed/session")).body).toMatchObject({ expires_in: 0 });
      instance.clock.set(exp * 1000);
      expectRefusal(await e.call("GET /v1/embed/session"), 401, "invalid_embed_token");
    });

    it("stops working when the tenant's tokens are revoked, the tenant or project is deleted, or the origin is removed", async () => {
      const enders: [string, unknown, number][] = [
        [`POST /v1/tenants/TENANT/embed_tokens/revoke`, {}, 401],
        [`DELETE /v1/tenants/TENANT`, undefined, 401],
        [`DELETE /v1/projects/PROJECT`, undefined, 401],
        [`PATCH /v1/workspace`, { embed_origins: ["http://localhost:3000"] }, 403],
      ];
      for (const [route, body, status] of enders) {
        const e = await embed(instance);
        const { tenant_id, project_id } = e.workspace;
        expect((await e.call("GET /v1/embed/session")).status).toBe(200);
        const done = route.replace("TENANT", tenant_id).replace("PROJECT", project_id);
        expect((await e.workspace.call("sk_owner", done, body)).status).toBe(200);
        const reply = await e.call("GET /v1/embed/session");
        expectRefusal(reply, status, status === 401 ? "invalid_embed_token" : "origin_not_allowed");
      }
    });

    it("survives a rotation of the signing key and stops at once with a compromised one", async () => {
      await using instance = await testInstance(backend);
      const e = await embed(instance);
      const ctx = { services: instance.app.services, actor: SYSTEM };
      instance.clock.advance(PUBLISH_MS); // the standby has been published long enough to sign at once
      const { body: before } = await e.mint();
      await rotateSigningKey(ctx);
      expect((await e.call("GET /v1/embed/session", undefined, { token: before.token })).status).toBe(200);
      const { body: after } = await e.mint();
      expect(after.kid).not.toBe(before.kid);
      await rotateSigningKey(ctx, { compromised: true });
      for (const { token } of [before, after])
        expectRefusal(await e.call("GET /v1/embed/session", undefined, { token }), 401, "invalid_embed_token");
      const { body: last } = await e.mint();
      expect((await e.call("GET /v1/embed/session", undefined, { token: last.token })).status).toBe(200);
    });

    it("is rejected when signed by a retired key after its retirement", async () => {
      await using instance = await testInstance(backend);
      const e = await embed(instance);
      instance.clock.advance(PUBLISH_MS);
      const { body: old } = await e.mint();
      const key = await signingKey(instance, old.kid);
      await rotateSigningKey({ services: instance.app.services, actor: SYSTEM });
      instance.clock.advance(60_000);
      const iat = Math.floor(instance.clock.now() / 1000);
      const late = await forge(instance, { ...e, minted: old }, { key, claims: { iat, nbf: iat, exp: iat + 300 } });
      expectRefusal(await e.call("GET /v1/embed/session", undefined, { token: late }), 401, "invalid_embed_token");
    });
  });
}

async function bySibling(instance: TestInstance, e: Embed): Promise<string> {
  const [row] = await instance.sql("select kid from signing_keys where purpose = 'embed' and active_from is null");
  const kid = String(row?.kid);
  return forge(instance, e, { header: { kid }, key: await signingKey(instance, kid) });
}

function swapHeader(e: Embed, header: object): string {
  const [, claims = "", signature = ""] = e.minted.token.split(".");
  const head = { alg: "EdDSA", kid: e.minted.kid, typ: EMBED_TYP, ...header };
  return `${Buffer.from(JSON.stringify(head)).toString("base64url")}.${claims}.${signature}`;
}

function swapClaims(e: Embed, claims: object): string {
  const [head = "", , signature = ""] = e.minted.token.split(".");
  const changed = { ...claimsOf(e.minted.token), ...claims };
  return `${head}.${Buffer.from(JSON.stringify(changed)).toString("base64url")}.${signature}`;
}
