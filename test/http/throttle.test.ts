// Unauthenticated endpoints are throttled per network; the cap per credential is off by default.
import { expect, it } from "vitest";
import { testInstance, type Reply } from "../../harness/instances/test-instance.ts";

function expectLimited(reply: Reply, policy: string): void {
  expect(reply.status).toBe(429);
  expect(reply.body.error.code).toBe("rate_limited");
  expect(Number(reply.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect(reply.headers.get("ratelimit")).toMatch(/^"[a-z_]+";r=0;t=\d+$/);
  expect(reply.headers.get("ratelimit-policy")).toBe(policy);
}

it("creating workspaces by bootstrap token is limited to 60 calls a minute per network, before the token is checked", async () => {
  await using instance = await testInstance("sqlite", { flags: { throttle: "on" } });
  const attempt = () => instance.call("krboot_wrong", "POST /v1/workspaces", {});
  for (let i = 0; i < 60; i++) expect((await attempt()).status).toBe(401);
  expectLimited(await attempt(), '"bootstrap";q=60;w=60');
  expectLimited(
    await instance.call(instance.app.bootstrap.token, "POST /v1/workspaces", { name: "A", slug: "abc" }),
    '"bootstrap";q=60;w=60',
  );
  instance.clock.advance(60_000);
  expect(
    (await instance.call(instance.app.bootstrap.token, "POST /v1/workspaces", { name: "A", slug: "abc" })).status,
  ).toBe(201);
});

it("X-Forwarded-For counts only from a trusted proxy", async () => {
  await using behindProxy = await testInstance("sqlite", { flags: { throttle: "on", trust_proxy: "127.0.0.0/8" } });
  const attempt = (address: string) =>
    behindProxy.call(null, "POST /v1/workspaces", {}, { headers: { "x-forwarded-for": `${address}, 127.0.0.9` } });
  for (let i = 0; i < 61; i++) await attempt("203.0.113.7");
  expect((await attempt("203.0.113.99")).status).toBe(429);
  expect((await attempt("198.51.100.1")).status).toBe(401);
  await using direct = await testInstance("sqlite", { flags: { throttle: "on" } });
  for (let i = 0; i < 61; i++) {
    await direct.call(null, "POST /v1/workspaces", {}, { headers: { "x-forwarded-for": `10.0.${i}.1` } });
  }
  expect(
    (await direct.call(null, "POST /v1/workspaces", {}, { headers: { "x-forwarded-for": "10.9.9.9" } })).status,
  ).toBe(429);
});

it("the cap per credential counts each credential separately", async () => {
  await using instance = await testInstance("sqlite", { flags: { throttle: "on", vendor_per_minute: "20" } });
  const workspace = await instance.workspace();
  instance.clock.advance(60_000);
  for (let i = 0; i < 20; i++) expect((await workspace.call("sk_owner", "GET /v1/workspace")).status).toBe(200);
  expectLimited(await workspace.call("sk_owner", "GET /v1/workspace"), '"vendor";q=20;w=60');
  expect((await workspace.call("sk_test", "GET /v1/workspace")).status).toBe(200);
});

it("the audit chain is verified at most six times a minute in each environment", async () => {
  await using instance = await testInstance("sqlite", { flags: { throttle: "on" } });
  const workspace = await instance.workspace();
  for (let i = 0; i < 6; i++) expect((await workspace.call("sk_test", "GET /v1/audit_logs/chain")).status).toBe(200);
  expectLimited(await workspace.call("sk_test", "GET /v1/audit_logs/chain"), '"audit_chain";q=6;w=60');
  for (let i = 0; i < 6; i++) expect((await workspace.call("sk_owner", "GET /v1/audit_logs/chain")).status).toBe(200);
  expectLimited(await workspace.call("sk_owner", "GET /v1/audit_logs/chain"), '"audit_chain";q=6;w=60');
});
