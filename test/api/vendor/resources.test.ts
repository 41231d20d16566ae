// Workspaces, projects, tenants, secret keys and environments over HTTP, on every database.
import { beforeEach, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

const NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057";
const limit = { id: "r", limit: 5, window_ms: 1000, algorithm: "fixed", scope: "tenant" };

for (const backend of runBackends) {
  describe(`resources on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let w: Workspace;
    beforeEach(async () => {
      w = await instance.workspace();
    });

    it("creates a workspace without members, and its first secret key, for the bootstrap token", async () => {
      const reply = await instance.call(instance.app.bootstrap.token, "POST /v1/workspaces", {
        name: "Acme",
        slug: `acme-${w.slug}`,
        billing_email: "pay@acme.example",
        env: "test",
      });
      expect(reply.status).toBe(201);
      expect(Object.keys(reply.body)).toEqual(["workspace", "secret_key", "membership"]);
      expect(reply.body.membership).toBeNull();
      expect(reply.body.workspace).toMatchObject({
        object: "workspace",
        billing_email: "pay@acme.example",
        embed_origins: [],
      });
      expect(reply.body.secret_key).toMatchObject({ env: "test", key_shown_once: true });
      expect(reply.body.secret_key.key).toMatch(/^krsk_test_/);
      const log = await instance.call(reply.body.secret_key.key, "GET /v1/audit_logs");
      expect(log.body.data.map(({ action, seq }: { action: string; seq: number }) => `${seq} ${action}`)).toEqual([
        "1 workspace.created",
        "2 secret_key.created",
      ]);
      expect("actor" in log.body.data[0]).toBe(false);
    });

    for (const [why, body, path] of [
      ["no name", { slug: "abc" }, "name"],
      ["a slug in capitals", { name: "A", slug: "ABC" }, "slug"],
      ["a slug of two", { name: "A", slug: "ab" }, "slug"],
      ["a slug ending in a hyphen", { name: "A", slug: "abc-" }, "slug"],
      ["an address that is none", { name: "A", slug: "abc", billing_email: "nobody" }, "billing_email"],
    ] as const) {
      it(`rejects a workspace with ${why}`, async () => {
        expectRefusal(await w.call("bootstrap", "POST /v1/workspaces", body), 400, "invalid_request", path);
      });
    }

    it("responds 409 naming a taken slug, and leaves no audit chain", async () => {
      const before = await instance.sql("select count(*) as n from audit_heads");
      expectRefusal(
        await w.call("bootstrap", "POST /v1/workspaces", { name: "A", slug: w.slug }),
        409,
        "conflict",
        "slug",
      );
      expect(await instance.sql("select count(*) as n from audit_heads")).toEqual(before);
    });

    it("creates one workspace when eight race for a slug", async () => {
      const replies = await Promise.all(
        Array.from({ length: 8 }, () =>
          w.call("bootstrap", "POST /v1/workspaces", { name: "R", slug: `race-${w.slug}` }),
        ),
      );
      expect(replies.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
        201, 409, 409, 409, 409, 409, 409, 409,
      ]);
    });

    it("records which workspace fields changed but never an origin's text", async () => {
      const reply = await w.call("sk_admin", "PATCH /v1/workspace", {
        name: "New",
        billing_email: "secret-mail@x.example",
        embed_origins: ["https://app.example.com", "http://localhost:3000"],
      });
      expect(reply.body).toMatchObject({
        name: "New",
        embed_origins: ["https://app.example.com", "http://localhost:3000"],
      });
      for (const same of [{ name: "New" }, { embed_origins: ["https://APP.example.com:443", "http://localhost:3000"] }])
        expect((await w.call("sk_owner", "PATCH /v1/workspace", same)).body).toEqual(reply.body);
      expect(await w.actions()).toEqual(["workspace.updated"]);
      const log = await w.call("sk_owner", "GET /v1/audit_logs?limit=200");
      expect(log.text).not.toContain("secret-mail");
      expect(log.body.data.at(-1).payload.billing_email).toEqual({ changed: true });
      const cleared = await w.call("sk_owner", "PATCH /v1/workspace", { billing_email: null });
      expect(cleared.body.billing_email).toBeNull();
    });

    it("logs an origin without encryption once, when it is added", async () => {
      const embed_origins = [`http://${w.slug}.example.com`];
      const lines = () => instance.logs.filter((line) => line.includes(embed_origins[0] ?? "")).length;
      for (let n = 0; n < 3; n++) await w.call("sk_owner", "PATCH /v1/workspace", { embed_origins });
      expect(lines()).toBe(1);
    });

    for (const origins of [
      ["https://a.example/"],
      ["https://*.example.com"],
      ["ftp://a.example"],
      ["https://A.example", "https://a.example:443"],
      ["http://a:99999"],
      Array.from({ length: 21 }, (_, i) => `https://h${i}.example`),
    ]) {
      it(`rejects the embed origins ${JSON.stringify(origins).slice(0, 50)}`, async () => {
        const reply = await w.call("sk_owner", "PATCH /v1/workspace", { embed_origins: origins });
        expect(reply.status).toBe(400);
        expect(reply.body.error.details[0].path).toMatch(/^embed_origins/);
      });
    }

    it("creates, shows, lists, changes and deletes a project, and frees its slug", async () => {
      const made = await w.call("sk_owner", "POST /v1/projects", {
        name: "P",
        slug: "ppp",
        default_rate_limits: [limit],
      });
      expect(made.status).toBe(201);
      expect(made.body).toMatchObject({ object: "project", policy_version: 1, default_rate_limits: [limit] });
      const { id } = made.body;
      expect((await w.call("sk_test", `GET /v1/projects/${id}`)).body).toEqual(made.body);
      const list = await w.call("sk_owner", "GET /v1/projects");
      expect(list.body.data.map((p: { id: string }) => p.id)).toEqual([id, w.project_id]);
      expectRefusal(await w.call("sk_owner", "POST /v1/projects", { name: "Q", slug: "ppp" }), 409, "conflict", "slug");
      const named = await w.call("sk_owner", `PATCH /v1/projects/${id}`, { name: "Other" });
      expect(named.body).toMatchObject({ name: "Other", policy_version: 1 });
      const limits = await w.call("sk_owner", `PATCH /v1/projects/${id}`, { default_rate_limits: [] });
      expect(limits.body).toMatchObject({ policy_version: 2, default_rate_limits: [] });
      expect(
        (await w.call("sk_owner", `PATCH /v1/projects/${id}`, { default_rate_limits: [] })).body.policy_version,
      ).toBe(2);
      await w.mint({ project_id: id });
      const gone = await w.call("sk_owner", `DELETE /v1/projects/${id}`);
      expect(gone.body).toEqual({ object: "project", id, deleted: true, revoked_keys: 1 });
      for (const route of [`GET /v1/projects/${id}`, `DELETE /v1/projects/${id}`]) {
        expectRefusal(await w.call("sk_owner", route), 404, "not_found");
      }
      expect((await w.call("sk_owner", "POST /v1/projects", { name: "Q", slug: "ppp" })).status).toBe(201);
      expect(await w.actions()).toEqual([
        "project.created",
        "project.updated",
        "project.updated",
        "api_key.created",
        "project.deleted",
        "project.created",
      ]);
    });

    it("creates, shows, lists and changes a tenant and raises its epoch; external_id is permanent", async () => {
      const made = await w.call("sk_test", "POST /v1/tenants", { external_id: "t", name: "T", meta: { plan: "pro" } });
      expect(made.status).toBe(201);
      expect(made.body).toMatchObject({ object: "tenant", embed_epoch: 1, meta: { plan: "pro" } });
      const { id } = made.body;
      expectRefusal(await w.call("sk_owner", "POST /v1/tenants", { external_id: "t" }), 409, "conflict", "external_id");
      expectRefusal(
        await w.call("sk_owner", `PATCH /v1/tenants/${id}`, { external_id: "u" }),
        400,
        "invalid_request",
        "external_id",
      );
      instance.clock.advance(5);
      const edited = await w.call("sk_owner", `PATCH /v1/tenants/${id}`, { name: null, meta: {} });
      expect(edited.body).toMatchObject({ name: null, meta: {} });
      expect(edited.body.updated_at > made.body.updated_at).toBe(true);
      const epoch = await w.call("sk_owner", `POST /v1/tenants/${id}/embed_tokens/revoke`);
      expect(epoch.body).toEqual({ object: "tenant", id, embed_epoch: 2, embed_tokens_revoked: true });
      for (const [method, path] of [
        ["PATCH", ""],
        ["DELETE", ""],
        ["POST", "/embed_tokens/revoke"],
      ]) {
        const body = method === "DELETE" ? undefined : {};
        expectRefusal(await w.call("sk_test", `${method} /v1/tenants/${id}${path}`, body), 403, "forbidden");
      }
      expect(await w.actions()).toEqual(["tenant.created", "tenant.updated", "tenant.embed_tokens_revoked"]);
    });

    it("frees a deleted tenant's external_id and its place under the quota", async () => {
      await instance.sql(`update workspaces set tenant_count = 999999 where id = '${w.id}'`);
      const last = await w.call("sk_owner", "POST /v1/tenants", { external_id: "last" });
      expect(last.status).toBe(201);
      expectRefusal(await w.call("sk_owner", "POST /v1/tenants", { external_id: "more" }), 409, "conflict");
      await w.call("sk_owner", `DELETE /v1/tenants/${last.body.id}`);
      expect((await w.call("sk_owner", "POST /v1/tenants", { external_id: "last" })).status).toBe(201);
    });

    it("lists revoked secret keys too, and only test ones to a test key", async () => {
      const made = await w.call("sk_owner", "POST /v1/secret_keys", { env: "live", name: "ci", meta: { a: 1 } });
      expect(made.body).toMatchObject({ object: "secret_key", name: "ci", meta: { a: 1 }, key_shown_once: true });
      expect("scopes" in made.body).toBe(false);
      const revoked = await w.call("sk_owner", `POST /v1/secret_keys/${made.body.id}/revoke`, { reason: "old" });
      expect(revoked.body).toMatchObject({ revoked_reason: "old" });
      expectRefusal(await instance.call(made.body.key, "GET /v1/workspace"), 401, "invalid_key");
      const all = await w.call("sk_owner", "GET /v1/secret_keys");
      expect(all.body.data.map((k: { id: string }) => k.id)).toContain(made.body.id);
      const test = await w.call("sk_test", "GET /v1/secret_keys");
      expect(test.body.data.map((k: { env: string }) => k.env)).toEqual(["test"]);
      expectRefusal(await w.call("sk_test", "GET /v1/secret_keys?env=live"), 403, "forbidden");
      expectRefusal(await w.call("sk_test", `GET /v1/secret_keys/${made.body.id}`), 404, "not_found");
      expectRefusal(await w.call("sk_test", `POST /v1/secret_keys/${made.body.id}/revoke`), 403, "forbidden");
      expectRefusal(await w.call("sk_test", "POST /v1/secret_keys", { env: "live" }), 403, "forbidden");
      expectRefusal(await w.call("sk_owner", `GET /v1/secret_keys/${NOWHERE}`), 404, "not_found");
    });

    it("lets a rotated secret key overlap, then expire", async () => {
      const { body } = await w.call("sk_owner", `POST /v1/secret_keys/${w.keyIds.sk_owner}/rotate`, {
        overlap_hours: 1,
      });
      expect(body).toMatchObject({ rotated_from: w.keyIds.sk_owner, expires_at: null });
      expect((await instance.call(w.keys.sk_owner, "GET /v1/workspace")).status).toBe(200);
      instance.clock.advance(HOUR_MS);
      expectRefusal(await instance.call(w.keys.sk_owner, "GET /v1/workspace"), 401, "invalid_key");
      expect((await instance.call(body.key, "GET /v1/workspace")).status).toBe(200);
      const now = await instance.call(body.key, `POST /v1/secret_keys/${body.id}/rotate`, { overlap_hours: 0 });
      expectRefusal(await instance.call(body.key, "GET /v1/workspace"), 401, "invalid_key");
      expect((await instance.call(now.body.key, `POST /v1/secret_keys/${now.body.id}/revoke`)).status).toBe(200);
      expectRefusal(await instance.call(now.body.key, "GET /v1/workspace"), 401, "invalid_key");
    });

    it("lets only owner-scope credentials grant owner scope", async () => {
      const scope = async (id: string) =>
        (await instance.sql(`select owner_scope from secret_keys where id = '${id}'`))[0]?.owner_scope;
      const byOwner = await w.call("sk_owner", "POST /v1/secret_keys", { env: "live" });
      const byAdmin = await w.call("sk_admin", "POST /v1/secret_keys", { env: "live" });
      const taken = await w.call("sk_admin", `POST /v1/secret_keys/${byOwner.body.id}/rotate`);
      expect(await scope(byOwner.body.id)).toBe(1);
      expect(await scope(byAdmin.body.id)).toBe(0);
      expect(await scope(taken.body.id)).toBe(0);
    });

    it("updates last_used_at at most once a minute, outside the request", async () => {
      const used = async () => (await w.call("sk_admin", `GET /v1/secret_keys/${w.keyIds.sk_owner}`)).body.last_used_at;
      await w.call("sk_owner", "GET /v1/workspace");
      const first = await expectEventually(used);
      instance.clock.advance(30_000);
      await w.call("sk_owner", "GET /v1/workspace");
      expect(await used()).toBe(first);
      instance.clock.advance(31_000);
      await w.call("sk_owner", "GET /v1/workspace");
      await expect.poll(used).not.toBe(first);
    });

    it("lists live and test, of which only live is billable", async () => {
      expect((await w.call("sk_test", "GET /v1/environments")).body).toEqual({
        object: "list",
        data: [
          { object: "environment", name: "live", billable: true },
          { object: "environment", name: "test", billable: false },
        ],
      });
    });

    it("rejects a project or secret key over its quota", async () => {
      const now = instance.clock.now();
      await fill(
        "projects",
        999,
        (i) => `('${id(i)}','${w.id}','n','s${i}',1,1,'[]',${now},${now})`,
        "id,workspace_id,name,slug,policy_version,min_delta_version,default_rate_limits,created_at,updated_at",
      );
      expectRefusal(await w.call("sk_owner", "POST /v1/projects", { name: "x", slug: "xxx" }), 409, "conflict");
    });

    it("counts the secret keys of test and live apart", async () => {
      const now = instance.clock.now();
      const keys = (env: string, from: number, n: number) =>
        fill(
          "secret_keys",
          n,
          (i) => `('${id(from + i)}','${w.id}','${env}','${w.id}${from + i}','p',0,${now})`,
          "id,workspace_id,env,lookup_hash,display_prefix,owner_scope,created_at",
        );
      await keys("test", 0, 999);
      expectRefusal(await w.call("sk_test", "POST /v1/secret_keys", { env: "test" }), 409, "conflict");
      expect((await w.call("sk_owner", "POST /v1/secret_keys", { env: "live" })).status).toBe(201);
      await keys("live", 2_000, 997);
      expectRefusal(await w.call("sk_owner", "POST /v1/secret_keys", { env: "live" }), 409, "conflict");
    });

    const id = (i: number): string => `${w.id.slice(0, -6)}${i.toString(16).padStart(6, "0")}`;
    async function fill(table: string, n: number, row: (i: number) => string, columns: string): Promise<void> {
      await instance.sql(
        `insert into ${table} (${columns}) values ${Array.from({ length: n }, (_, i) => row(i)).join(",")}`,
      );
    }
    async function expectEventually(read: () => Promise<string | null>): Promise<string | null> {
      await expect.poll(read).not.toBeNull();
      return read();
    }
  });
}
