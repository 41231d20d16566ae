// Secret keys with permissions and projects: what each may do, and that none becomes more powerful.
import { beforeAll, describe, expect, it } from "vitest";
import { endpoints } from "../../../src/api/index.ts";
import { PERMISSIONS, type Permission } from "../../../src/domain/core/actor.ts";
import { access } from "../../../src/http/access.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  expectRefusal,
  sharedInstance,
  testInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";

const NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057";
const LACKS = "This secret key lacks a permission for this.";

/** Stated here again, because the table is under test. "itself": what every restricted key may do with itself. */
function neededFor(method: string, path: string): Permission | "itself" | "unrestricted" {
  if (/^\/v1\/(policy|ratelimit|idempotency|ingest)\//.test(path)) return "verify";
  if (path === "/v1/embed_tokens") return "portal";
  if (/^\/v1\/secret_keys\/\{id\}\/(rotate|revoke)$/.test(path)) return "itself";
  if (/^\/v1\/(members|invites)/.test(path)) return "unrestricted";
  if (method === "GET" || path === "/v1/keys/lookup") return "read";
  if (/^\/v1\/(keys|tenants|bulk|quota_grants)(\/|$)/.test(path)) return "manage";
  return "unrestricted";
}

const grants = (permission: Permission, needed: string): boolean =>
  needed === "itself" || needed === permission || (needed === "read" && permission === "manage");

const forSecretKeys = endpoints.filter((each) => {
  const { rules, open } = access[each.access];
  return !open && rules.sk_admin !== "-";
});

it("a refusal for want of a permission is logged once a minute, with the key and the endpoint, then counted", async () => {
  await using instance = await testInstance("sqlite");
  const workspace = await instance.workspace();
  const mint = async () =>
    (await workspace.call("sk_owner", "POST /v1/secret_keys", { env: "live", permissions: ["verify"] })).body;
  const [first, second] = [await mint(), await mint()];
  for (const { key } of [first, first, second]) await instance.call(key, "GET /v1/projects");
  instance.app.services.securityLog.flush();
  const lines = instance.logs.map((line) => JSON.parse(line)).filter(({ failure }) => failure === "lacks_permission");
  expect(lines).toMatchObject([
    { endpoint: "GET /v1/projects", status: 403, actor_type: "secret_key", actor_id: first.id },
    { endpoint: "GET /v1/projects", status: 403, actor_type: "secret_key", actor_id: second.id },
    { event: "refused, more of the same", count: 1 },
  ]);
});

for (const backend of runBackends) {
  describe(`a restricted secret key on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let workspace: Workspace;
    const bearers = {} as Record<Permission, string>;
    const mint = async (more: object) =>
      (await workspace.call("sk_owner", "POST /v1/secret_keys", { env: "live", ...more })).body as {
        id: string;
        key: string;
      };
    beforeAll(async () => {
      workspace = await instance.workspace();
      for (const permission of PERMISSIONS) bearers[permission] = (await mint({ permissions: [permission] })).key;
    });

    for (const { name, method, path } of forSecretKeys) {
      it(`may call ${name} with the permission for it, and with no other`, async () => {
        const needed = neededFor(method, path);
        const route = `${method} ${path.replace(/\{\w+\}/g, NOWHERE)}`;
        const body = method === "GET" || method === "DELETE" ? undefined : {};
        const got: Record<string, boolean> = {};
        for (const permission of PERMISSIONS) {
          const reply = await instance.call(bearers[permission], route, body);
          got[permission] = reply.body?.error?.message !== LACKS;
          if (got[permission]) continue;
          const message = needed === "unrestricted" ? "needs an unrestricted key" : `needs ${needed}`;
          expectRefusal(reply, 403, "forbidden");
          expect(reply.body.error.details).toEqual([{ path: "permissions", message }]);
        }
        expect(got).toEqual(Object.fromEntries(PERMISSIONS.map((each) => [each, grants(each, needed)])));
      });
    }

    it("shows its permissions, in responses and in the audit log, and never has an owner's authority", async () => {
      const minted = await mint({ permissions: ["manage", "verify"], project_ids: [workspace.project_id] });
      expect(minted).toMatchObject({ permissions: ["manage", "verify"], project_ids: [workspace.project_id] });
      const { body } = await workspace.call("sk_owner", "GET /v1/audit_logs?limit=200");
      const row = body.data.find(({ target_id }: { target_id: string }) => target_id === minted.id);
      expect(row.payload).toMatchObject({ permissions: ["manage", "verify"], project_ids: [workspace.project_id] });
      expectRefusal(
        await instance.call(minted.key, "POST /v1/invites", { email: "a@example.com", role: "owner" }),
        403,
        "forbidden",
      );
    });

    it("cannot create secret keys; rotates and revokes itself only, and its successor is as restricted", async () => {
      const other = await mint({});
      const key = await mint({ permissions: ["manage"], project_ids: [workspace.project_id] });
      expectRefusal(await instance.call(key.key, "POST /v1/secret_keys", { env: "live" }), 403, "forbidden");
      for (const action of ["rotate", "revoke"])
        expectRefusal(await instance.call(key.key, `POST /v1/secret_keys/${other.id}/${action}`, {}), 404, "not_found");
      expectRefusal(await instance.call(key.key, `GET /v1/secret_keys/${other.id}`), 404, "not_found");
      const { body: list } = await instance.call(key.key, "GET /v1/secret_keys");
      expect(list.data.map(({ id }: { id: string }) => id)).toEqual([key.id]);
      for (const filter of ["state=quarantined", "env=test"])
        expect((await instance.call(key.key, `GET /v1/secret_keys?${filter}`)).body.data).toEqual([]);
      const { body: rotated } = await instance.call(key.key, `POST /v1/secret_keys/${key.id}/rotate`, {
        overlap_hours: 0,
      });
      expect(rotated).toMatchObject({ permissions: ["manage"], project_ids: [workspace.project_id] });
      const byOwner = await workspace.call("sk_owner", `POST /v1/secret_keys/${rotated.id}/rotate`, {
        overlap_hours: 0,
      });
      expect(byOwner.body).toMatchObject({ permissions: ["manage"], project_ids: [workspace.project_id] });
      expect((await instance.call(byOwner.body.key, `POST /v1/secret_keys/${byOwner.body.id}/revoke`, {})).status).toBe(
        200,
      );
      expect((await instance.call(byOwner.body.key, "GET /v1/projects")).status).toBe(401);
      expect((await instance.call(other.key, "GET /v1/projects")).status).toBe(200);
    });

    it("of one project knows no other project", async () => {
      const { body: elsewhere } = await workspace.call("sk_owner", "POST /v1/projects", {
        name: "Other",
        slug: "other-api",
      });
      const want = { tenant_id: workspace.tenant_id, env: "live" };
      const { body: foreign } = await workspace.call("sk_owner", "POST /v1/keys", {
        ...want,
        project_id: elsewhere.id,
      });
      const own = await workspace.mint();
      const permissions = ["verify", "portal", "manage"];
      const { key } = await mint({ permissions, project_ids: [workspace.project_id] });
      const ask = (route: string, body?: object) => instance.call(key, route, body);
      const ids = async (route: string): Promise<string[]> =>
        (await ask(route)).body.data.map(({ id }: { id: string }) => id);
      expect(await ids("GET /v1/projects")).toEqual([workspace.project_id]);
      const listed = await ids("GET /v1/keys?limit=200");
      expect([listed.includes(own.id), listed.includes(foreign.id)]).toEqual([true, false]);
      const limits = [{ id: "m", limit: 1, window_ms: 60_000, algorithm: "sliding", scope: "key" }];
      const limited = { project_id: elsewhere.id, env: "live", key_id: foreign.id, limits };
      for (const [route, body] of [
        [`GET /v1/projects/${elsewhere.id}`],
        [`GET /v1/keys/${foreign.id}`],
        [`PATCH /v1/keys/${foreign.id}`, { name: "x" }],
        [`POST /v1/keys/${foreign.id}/rotate`, {}],
        [`POST /v1/keys/${foreign.id}/revoke`, {}],
        [`GET /v1/keys/${foreign.id}/usage`],
        [`GET /v1/usage/series?key_id=${foreign.id}`],
        ["POST /v1/keys", { ...want, project_id: elsewhere.id }],
        ["POST /v1/embed_tokens", { ...want, project_id: elsewhere.id, scopes: ["keys:read"] }],
        [`GET /v1/policy/snapshot?project_id=${elsewhere.id}`],
        [`GET /v1/policy/delta?project_id=${elsewhere.id}&since=1`],
        [`GET /v1/nodes?project_id=${elsewhere.id}`],
        [`GET /v1/propagation?project_id=${elsewhere.id}&version=1`],
        ["POST /v1/ratelimit/check", limited],
        ["POST /v1/ratelimit/lease", { ...limited, want: 1 }],
      ] as [string, object?][]) {
        const reply = await ask(route, body);
        expect([route, reply.status]).toEqual([route, 404]);
      }
      expect((await workspace.call("sk_owner", `GET /v1/keys/${foreign.id}`)).body).toMatchObject({
        revoked_at: null,
        name: null,
      });
      expect((await ask(`GET /v1/policy/snapshot?project_id=${workspace.project_id}`)).status).toBe(200);
      expect((await ask(`GET /v1/usage/series?key_id=${own.id}`)).status).toBe(200);
      expect((await ask("POST /v1/keys", { ...want, project_id: workspace.project_id })).status).toBe(201);
    });

    it("of one project gets no report about the whole workspace, and changes no tenant", async () => {
      const { key } = await mint({ permissions: ["manage"], project_ids: [workspace.project_id] });
      for (const [route, body] of [
        ["GET /v1/usage/billing"],
        ["GET /v1/audit_logs"],
        [`PATCH /v1/tenants/${workspace.tenant_id}`, { name: "x" }],
        [`DELETE /v1/tenants/${workspace.tenant_id}`],
        [`POST /v1/tenants/${workspace.tenant_id}/embed_tokens/revoke`, {}],
      ] as [string, object?][]) {
        const reply = await instance.call(key, route, body);
        expectRefusal(reply, 403, "forbidden");
        expect(reply.body.error.details, route).toEqual([{ path: "permissions", message: "needs no project_ids" }]);
      }
      expect((await instance.call(key, "POST /v1/tenants", { external_id: "made-by-restricted" })).status).toBe(201);
      expect((await instance.call(key, "GET /v1/audit_logs/chain")).status).toBe(200);
    });

    it("of one project cannot report events of another", async () => {
      const { body: elsewhere } = await workspace.call("sk_owner", "POST /v1/projects", {
        name: "Third",
        slug: "third-api",
      });
      const { key } = await mint({ permissions: ["verify"], project_ids: [workspace.project_id] });
      const event = (project_id: string) =>
        telemetryEvent({ ts: new Date(instance.clock.now()).toISOString(), project_id, request_id: `r-${project_id}` });
      const send = (...projects: string[]) =>
        instance.call(key, "POST /v1/ingest/batch", telemetryBatch(projects.map(event)));
      expect((await send(workspace.project_id)).status).toBe(202);
      const refused = await send(workspace.project_id, elsewhere.id);
      expectRefusal(refused, 400, "invalid_request");
      expect(refused.body.error.details).toEqual([
        { path: "events[1].project_id", message: "is not a project of this secret key" },
      ]);
    });

    for (const [why, body, path] of [
      ["no permission", { permissions: [] }, "permissions"],
      ["an unknown permission", { permissions: ["admin"] }, "permissions[0]"],
      ["a repeated permission", { permissions: ["read", "read"] }, "permissions"],
      ["projects without permissions", { project_ids: [NOWHERE] }, "permissions"],
      ["no project", { permissions: ["read"], project_ids: [] }, "project_ids"],
    ] as const) {
      it(`is not created with ${why}`, async () => {
        const reply = await workspace.call("sk_owner", "POST /v1/secret_keys", { env: "live", ...body });
        expectRefusal(reply, 400, "invalid_request");
        expect(reply.body.error.details[0].path).toBe(path);
      });
    }

    it("is not created for a project that does not exist, and nothing is written", async () => {
      const count = async () => (await workspace.call("sk_owner", "GET /v1/secret_keys")).body.data.length as number;
      const before = await count();
      const body = { env: "live", permissions: ["read"], project_ids: [NOWHERE] };
      expectRefusal(await workspace.call("sk_owner", "POST /v1/secret_keys", body), 404, "not_found");
      expect(await count()).toBe(before);
    });
  });
}
