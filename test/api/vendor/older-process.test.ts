// Beside a process of an earlier release on one PostgreSQL, everything that it would not enforce is refused: one row
// for each feature of the version gate.
import { beforeAll, describe, expect, it } from "vitest";
import type { versionGate, VersionGate } from "../../../src/domain/core/version-gate.ts";
import { connectPostgres } from "../../../src/store/postgres/client.ts";
import { postgresUrl } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";

type Feature = typeof versionGate extends VersionGate<infer F> ? F : never;
/** `key` and `tenant` stand for ids. */
type Call = readonly [route: string, body: Json];

const CIDRS = { allowed_cidrs: ["10.0.0.0/8"] };
const QUOTAS = { quotas: [{ id: "calls", amount: 10, refill: "monthly" }] };
const LIMITS = { rate_limits: [{ id: "m", limit: 7, window_ms: 60_000, algorithm: "fixed", scope: "tenant" }] };

/** Deferred revocation refuses nothing: while an earlier process is connected it is not used. */
const refused: Record<Exclude<Feature, "deferred revocation">, Call[]> = {
  "address lists": [
    ["POST /v1/keys", { env: "live", ...CIDRS }],
    ["PATCH /v1/keys/key", CIDRS],
    ["POST /v1/tenants", { external_id: "addresses", ...CIDRS }],
    ["PATCH /v1/tenants/tenant", CIDRS],
  ],
  "disabled keys": [
    ["POST /v1/bulk/keys", { action: "disable", filter: { all: true } }],
    ["POST /v1/keys/key/disable", {}],
  ],
  "key lifetimes": [
    ["POST /v1/projects", { name: "Lives", slug: "lives", key_policy: { max_ttl_days: 30 } }],
    ["PATCH /v1/projects/project", { key_policy: { max_ttl_days: 30 } }],
  ],
  "key prefixes": [
    ["POST /v1/projects", { name: "Prefixes", slug: "prefixes", key_prefix: "acmeone" }],
    ["PATCH /v1/projects/project", { key_prefix: "acmetwo" }],
  ],
  plans: [
    ["POST /v1/plans", { name: "Free", slug: "free" }],
    ["POST /v1/tenants", { external_id: "limits", ...LIMITS }],
    ["PATCH /v1/tenants/tenant", LIMITS],
  ],
  quotas: [
    ["POST /v1/keys", { env: "live", ...QUOTAS }],
    ["PATCH /v1/keys/key", QUOTAS],
    ["POST /v1/tenants", { external_id: "quotas", ...QUOTAS }],
    ["PATCH /v1/tenants/tenant", QUOTAS],
  ],
  "restricted secret keys": [["POST /v1/secret_keys", { env: "live", permissions: ["verify"] }]],
  "suspended tenants": [["POST /v1/tenants/tenant/suspend", {}]],
};

describe.runIf(postgresUrl)("beside a process of an earlier release", () => {
  const instance = sharedInstance("postgres");
  let workspace: Workspace;
  let key: { id: string };
  let older: { end(): Promise<void> };
  beforeAll(async () => {
    workspace = await instance.workspace();
    key = await workspace.mint();
    if (instance.target.kind !== "postgres") throw new Error("not PostgreSQL");
    older = await connectPostgres(instance.target.url, { application_name: "keyrack" }); // as 0.1 names itself
    instance.clock.advance(1_000);
  });

  const send = ([route, body]: Call) => {
    const { project_id, tenant_id } = workspace;
    const ids: Record<string, string> = { key: key.id, tenant: tenant_id, project: project_id };
    const path = route.replace(/(?<=\/)(?:key|tenant|project)(?=\/|$)/, (name) => ids[name] ?? "");
    return workspace.call("sk_owner", path, route === "POST /v1/keys" ? { project_id, tenant_id, ...body } : body);
  };

  for (const [feature, calls] of Object.entries(refused))
    it.each(calls)(`${feature}: refuses %s`, async (...call) => {
      const reply = await send(call);
      expectRefusal(reply, 409, "conflict");
      expect(reply.body.error.message).toBe("An older Keyrack process is still connected. Finish the upgrade first.");
    });

  it("deferred revocation: revokes every key of a deleted tenant at once", async () => {
    const tenant = (await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "many" })).body as {
      id: string;
    };
    const { id } = await workspace.mint({ tenant_id: tenant.id });
    const copied = "workspace_id, project_id, tenant_id, env, display_prefix, scopes, created_at, policy_version, meta";
    await instance.sql(
      `insert into api_keys (id, lookup_hash, ${copied})
       select lpad(to_hex(i), 8, '0') || '-0000-7000-8000-' || substr(id, 25), lookup_hash || i, ${copied}
       from api_keys, generate_series(1, 1200) i where id = $1`,
      [id],
    );
    expect((await workspace.call("sk_owner", `DELETE /v1/tenants/${tenant.id}`)).body.revoked_keys).toBe(1_201);
    const working = "select count(*) as n from api_keys where tenant_id = $1 and revoked_at is null";
    expect(Number((await instance.sql(working, [tenant.id]))[0]?.n)).toBe(0);
  });

  it("does everything else, and these too once that process is gone", async () => {
    for (const call of [
      ["POST /v1/projects", { name: "Plain", slug: "plain", key_prefix: "kr", key_policy: { holder_rotate: true } }],
      ["POST /v1/tenants", { external_id: "plain" }],
      ["POST /v1/keys", { env: "live" }],
      ["POST /v1/secret_keys", { env: "live" }],
    ] as const)
      expect((await send(call)).status, call[0]).toBe(201);
    await older.end();
    const [first, ...others] = Object.values(refused).flat() as [Call, ...Call[]];
    await expect
      .poll(async () => {
        instance.clock.advance(1_000); // the gate looks once a second
        return (await send(first)).status;
      })
      .toBe(201);
    // A suspended tenant and disabled keys accept all of them.
    for (const call of others) expect((await send(call)).status, call[0]).toBeLessThan(300);
  });
});
