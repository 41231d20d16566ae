// What all endpoints have in common: routing, methods, media types, size limits, headers, the error envelope and the
// order of the checks.
import { beforeAll, describe, expect, it, vi } from "vitest";
import { endpoints } from "../../src/api/index.ts";
import { sendRaw } from "../../harness/processes/raw-http.ts";
import { expectRefusal, sharedInstance, testInstance, type Workspace } from "../../harness/instances/test-instance.ts";

const instance = sharedInstance("sqlite");
let workspace: Workspace;
beforeAll(async () => {
  workspace = await instance.workspace();
});

describe("large responses", () => {
  it("are all pages of lists, those without has_more too", () => {
    const large = endpoints.filter(({ hasLargeResponse }) => hasLargeResponse);
    expect(large.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        "GET /v1/keys",
        "GET /v1/keys/{id}/quotas/{quota_id}/grants",
        "GET /v1/tenants/{id}/quotas/{quota_id}/grants",
      ]),
    );
    expect(large.filter(({ method }) => method !== "GET")).toEqual([]);
    const names = large.map(({ name }) => name);
    expect(names).not.toContain("GET /v1/policy/snapshot"); // the page cache has its own share
    expect(names).not.toContain("GET /v1/nodes"); // it waits for slots of its own
  });
});

describe("routes and methods", () => {
  for (const path of ["/v1", "/v1/keyz", "/v1/keys/", "/V1/keys", "/v1//keys", "/v1/keys/a/b/c", "/%00"]) {
    it(`${path} is no route, before any credential`, async () => {
      const reply = await instance.call(null, `GET ${path}`);
      expectRefusal(reply, 404, "not_found");
      expect(reply.body.error.message).toBe("No such route.");
    });
  }

  it("a wrong method is 405 with Allow, before any credential", async () => {
    for (const method of ["PUT", "DELETE", "PATCH"]) {
      const reply = await instance.call(null, `${method} /v1/keys`);
      expectRefusal(reply, 405, "method_not_allowed");
      expect(reply.headers.get("allow")).toBe("GET, HEAD, OPTIONS, POST");
    }
    const traced = await sendRaw(instance.url, "TRACE /v1/keys HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    expect(traced.map(({ status }) => status)).toEqual([405]);
  });

  it("HEAD works wherever GET does, without a body", async () => {
    const head = await workspace.call("sk_owner", "HEAD /v1/workspace");
    const get = await workspace.call("sk_owner", "GET /v1/workspace");
    expect(head).toMatchObject({ status: 200, text: "" });
    expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"));
    for (const { method, path } of endpoints) {
      if (method === "GET")
        expect((await instance.call(null, `HEAD ${path.replace("{id}", "x")}`)).status, path).not.toBe(405);
    }
  });

  it("OPTIONS is 204 with Allow and no CORS", async () => {
    const reply = await instance.call(null, "OPTIONS /v1/workspace", undefined, {
      headers: { origin: "https://evil.example" },
    });
    expect(reply.status).toBe(204);
    expect(reply.headers.get("allow")).toBe("GET, HEAD, OPTIONS, PATCH");
    expect([...reply.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});

describe("the headers of every response", () => {
  for (const [what, as, route, body] of [
    ["a success", "sk_owner", "GET /v1/workspace", undefined],
    ["a creation", "sk_owner", "POST /v1/tenants", { external_id: "hdr" }],
    ["a refusal", "sk_owner", "POST /v1/tenants", {}],
    ["an unknown route", null, "GET /nowhere", undefined],
    ["a probe", null, "GET /healthz", undefined],
  ] as const) {
    it(`${what} carries a fresh request id, no-store and the security headers, and no cookie`, async () => {
      const headers = { cookie: "session=1", "x-request-id": "mine", traceparent: "00-1-2-3" };
      const first = await workspace.call(as, route, body, { headers });
      const second = await workspace.call(as, route, body, { headers });
      expect(Object.fromEntries(first.headers)).toMatchObject({
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "content-type": "application/json; charset=utf-8",
      });
      expect(first.headers.get("set-cookie")).toBeNull();
      expect(first.headers.get("request-id")).toMatch(/^[0-9a-f-]{36}$/);
      expect(first.headers.get("request-id")).not.toBe(second.headers.get("request-id"));
    });
  }
});

describe("media and size", () => {
  for (const [why, type, status] of [
    ["json", "application/json", 201],
    ["json with its charset", 'application/json; charset="UTF-8"', 201],
    ["no type", "", 415],
    ["a form", "application/x-www-form-urlencoded", 415],
    ["another charset", "application/json; charset=latin1", 415],
    ["a json dialect", "application/merge-patch+json", 415],
  ] as const) {
    it(`a body sent as ${why} gets ${status}`, async () => {
      const reply = await workspace.call("sk_owner", "POST /v1/tenants", undefined, {
        raw: JSON.stringify({ external_id: `media: ${why}` }),
        headers: { "content-type": type },
      });
      expect(reply.status).toBe(status);
    });
  }

  it("an encoded body is refused with the accepted encoding", async () => {
    const reply = await workspace.call(
      "sk_owner",
      "POST /v1/tenants",
      { external_id: "gz" },
      { headers: { "content-encoding": "gzip" } },
    );
    expectRefusal(reply, 415, "unsupported_media_type");
    expect(reply.headers.get("accept-encoding")).toBe("identity");
  });

  it("a body past 256 KiB is 413 by its length, and while it streams", async () => {
    const big = JSON.stringify({ external_id: "x".repeat(257 * 1024) });
    expectRefusal(
      await workspace.call("sk_owner", "POST /v1/tenants", undefined, { raw: big }),
      413,
      "payload_too_large",
    );
    const chunk = `${(64 * 1024).toString(16)}\r\n${"x".repeat(64 * 1024)}\r\n`;
    const head = `POST /v1/tenants HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${workspace.keys.sk_owner}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`;
    const [response] = await sendRaw(instance.url, head + chunk.repeat(6));
    expect(response?.status).toBe(413);
    expect(response?.head.toLowerCase()).toContain("connection: close");
  });

  it("a body that fits to the byte is read", async () => {
    const frame = JSON.stringify({ external_id: "fits", name: "" }).length;
    const pad = " ".repeat(256 * 1024 - frame);
    const reply = await workspace.call("sk_owner", "POST /v1/tenants", undefined, {
      raw: `{"external_id":"fits","name":"n"}${pad.slice(0, -1)}`,
    });
    expect(reply.status).toBe(201);
  });
});

describe("bodies that are not valid", () => {
  const deep = `${'{"meta":'.repeat(40)}1${"}".repeat(40)}`;
  for (const [why, text] of [
    ["not JSON", "{"],
    ["an array", "[]"],
    ["a string", '"x"'],
    ["null", "null"],
    ["40 levels deep", deep],
    ["not UTF-8", Buffer.from([0x7b, 0xff, 0x7d]).toString("latin1")],
    ["a byte order mark", "\ufeff{}"],
    ["a huge number", '{"external_id":"a","meta":{"n":1e400}}'],
    ["an integer past 53 bits", '{"external_id":"a","meta":{"n":9007199254740993}}'],
    ["a NUL deep inside", '{"external_id":"a","meta":{"n":["\\u0000"]}}'],
    ["a NUL in a name of a field", '{"external_id":"a","meta":{"\\u0000":1}}'],
    ["a lone surrogate", '{"external_id":"\\ud800"}'],
    ["a number past 53 bits as the whole body", "1e400"],
    ["a NUL in a name at the top", '{"\\u0000":1}'],
  ] as const) {
    it(`${why}: 400, one envelope, nothing written`, async () => {
      expectRefusal(
        await workspace.call("sk_owner", "POST /v1/tenants", undefined, { raw: text }),
        400,
        "invalid_request",
      );
    });
  }

  it("__proto__ in a body pollutes nothing and is an unknown field", async () => {
    const reply = await workspace.call("sk_owner", "POST /v1/tenants", undefined, {
      raw: '{"external_id":"p","__proto__":{"x":1}}',
    });
    expectRefusal(reply, 400, "invalid_request", "__proto__");
    expect(({} as { x?: number }).x).toBeUndefined();
    const meta = await workspace.call("sk_owner", "POST /v1/tenants", undefined, {
      raw: '{"external_id":"p","meta":{"__proto__":{"x":1}}}',
    });
    expect(meta.text).toContain('"meta":{"__proto__":{"x":1}}');
  });

  it("a refusal never repeats the value it refuses, and lists at most 20", async () => {
    const secret = "krsk_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXc18e6e29";
    const reply = await workspace.call("sk_owner", "POST /v1/keys", {
      project_id: secret,
      tenant_id: secret,
      env: secret,
      name: [secret],
    });
    expectRefusal(reply, 400, "invalid_request", "project_id", "tenant_id", "env", "name");
    expect(reply.text).not.toContain(secret);
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`f${i}`, 1]));
    expect((await workspace.call("sk_owner", "POST /v1/tenants", many)).body.error.details).toHaveLength(20);
  });

  it("a POST that needs nothing takes no body, an empty one, or {}", async () => {
    for (const options of [{}, { raw: "" }, { raw: "{}" }]) {
      const { id } = await workspace.mint();
      expect((await workspace.call("sk_owner", `POST /v1/keys/${id}/revoke`, undefined, options)).status).toBe(200);
    }
  });
});

describe("the order of the checks", () => {
  const ID = "01900000-0000-7000-8000-000000000000";
  const EXPIRED = '"env":"live","expires_at":"2001-01-01T00:00:00Z"';
  const EXPIRED_KEY = `{"project_id":"${ID}","tenant_id":"${ID}",${EXPIRED}}`;
  for (const [why, as, route, options, status] of [
    ["route before method", null, "PUT /v1/nowhere", {}, 404],
    ["method before credential", null, "PUT /v1/workspace", {}, 405],
    ["credential before media", null, "POST /v1/tenants", { raw: "<x>", headers: { "content-type": "text/xml" } }, 401],
    [
      "role before media",
      "sk_test",
      "PATCH /v1/workspace",
      { raw: "<x>", headers: { "content-type": "text/xml" } },
      403,
    ],
    ["media before body", "sk_owner", "POST /v1/tenants", { raw: "<x>", headers: { "content-type": "text/xml" } }, 415],
    ["body before environment", "sk_test", "POST /v1/keys", { raw: '{"env":"live"}' }, 400],
    ["expiry before environment", "sk_test", "POST /v1/keys", { raw: EXPIRED_KEY }, 400],
    ["a secret key's expiry before environment", "sk_test", "POST /v1/secret_keys", { raw: `{${EXPIRED}}` }, 400],
    ["a webhook's configuration before its query", null, "POST /v1/webhooks/scanner/secret_scanning?x=1", {}, 404],
    ["path before lookup", "sk_owner", "GET /v1/keys/seven", {}, 400],
  ] as const) {
    it(why, async () => {
      expect((await workspace.call(as, route, undefined, options)).status).toBe(status);
    });
  }

  it("a path id that is no UUID is named as the route names it; upper case is the same id", async () => {
    expectRefusal(await workspace.call("sk_owner", "GET /v1/keys/seven"), 400, "invalid_request", "id");
    expectRefusal(await workspace.call("sk_owner", "PATCH /v1/members/seven", {}), 400, "invalid_request", "userId");
    const { id } = await workspace.mint();
    expect((await workspace.call("sk_owner", `GET /v1/keys/${id.toUpperCase()}`)).body.id).toBe(id);
  });
});

describe("what is not HTTP", () => {
  for (const [why, text, status] of [
    ["garbage", "\x16\x03\x01 hello\r\n\r\n", 400],
    ["no Host", "GET /healthz HTTP/1.1\r\n\r\n", 400],
    ["headers past 16 KiB", `GET /healthz HTTP/1.1\r\nhost: x\r\nx: ${"y".repeat(20_000)}\r\n\r\n`, 431],
    [
      "two lengths",
      "POST /v1/keys HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
      400,
    ],
  ] as const) {
    it(`${why} gets ${status} with the envelope and a closed connection`, async () => {
      const [response] = await sendRaw(instance.url, text);
      expect(response?.status).toBe(status);
      expect(JSON.parse(response?.body ?? "")).toMatchObject({ error: { code: "invalid_request" } });
    });
  }
});

describe("GET", () => {
  it("writes no audit row on any endpoint", async () => {
    const own = await instance.workspace();
    const key = await own.mint();
    const before = await own.actions();
    for (const { method, path } of endpoints) {
      if (method === "GET") await own.call("sk_owner", `GET ${path.replace("{id}", key.id)}`);
    }
    expect(await own.actions()).toEqual(before);
  });
});

it("a refusal that cannot be logged is sent as a 500", async () => {
  // Of its own: the tests above have used up the lines of this minute.
  await using own = await testInstance("sqlite");
  const acme = await own.workspace();
  const log = vi.spyOn(own.app.services.log, "info").mockImplementation(() => {
    throw new Error("cannot log");
  });
  for (const call of [
    own.call(null, "GET /v1/keys"), // before the credential is resolved
    own.call("krsk_x", "POST /v1/keys", {}),
    acme.call("sk_test", "PATCH /v1/workspace", { name: "x" }), // after the credential is resolved
  ])
    expectRefusal(await call, 500, "internal_error");
  log.mockRestore();
  expect((await acme.call("sk_owner", "GET /v1/workspace")).status).toBe(200);
});
