// Plans: their records, and what they give the keys of their tenants on nodes.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { createKeyrack } from "../../../src/sdk/index.ts";

const rule = (id: string, limit = 5): Json => ({ id, limit, window_ms: 60_000, algorithm: "sliding", scope: "key" });

for (const back of backends) {
  describe(`plans on ${back}`, () => {
    const r = sharedInstance(back);

    const ok = async (w: Workspace, route: string, body?: Json): Promise<Json> => {
      const reply = await w.call("sk_owner", route, body);
      expect([200, 201], reply.text).toContain(reply.status);
      return reply.body;
    };
    const newPlan = async (w: Workspace, fields: Json = {}): Promise<string> =>
      (await ok(w, "POST /v1/plans", { name: "Pro", slug: "pro", ...fields })).id as string;
    const onPlan = (w: Workspace, plan_id: string | null, tenant = w.tenant_id): Promise<Json> =>
      ok(w, `PATCH /v1/tenants/${tenant}`, { plan_id });
    const want = (w: Workspace, more: Json = {}): Json => {
      return { project_id: w.project_id, tenant_id: w.tenant_id, env: "live", ...more };
    };
    const snapshot = async (w: Workspace, project = w.project_id): Promise<Json[]> =>
      (await ok(w, `GET /v1/policy/snapshot?project_id=${project}`)).keys as Json[];
    const served = async (w: Workspace, id: string): Promise<Json | undefined> =>
      (await snapshot(w)).find(({ key_id }) => key_id === id);
    const effective = async (w: Workspace, id: string): Promise<Json> =>
      (await ok(w, `GET /v1/keys/${id}?include=effective`)).effective as Json;
    const version = async (w: Workspace, project = w.project_id): Promise<number> =>
      (await ok(w, `GET /v1/projects/${project}`)).policy_version as number;

    it("are created, listed newest first, changed field by field, and deleted when no tenant uses them", async () => {
      const w = await r.workspace();
      const made = await ok(w, "POST /v1/plans", { name: "Free", slug: "free" });
      expect(made).toEqual({
        object: "plan",
        id: expect.any(String),
        name: "Free",
        slug: "free",
        rate_limits: null,
        scopes: null,
        max_keys: null,
        key_ttl_days: null,
        quotas: [],
        meta: {},
        tenants: 0,
        created_at: expect.any(String),
        updated_at: expect.any(String),
      });
      r.clock.advance(1);
      const pro = await newPlan(w, { rate_limits: [rule("r")], scopes: ["a"], max_keys: 3, key_ttl_days: 30 });
      expect(((await ok(w, "GET /v1/plans")).data as Json[]).map(({ slug }) => slug)).toEqual(["pro", "free"]);
      expectRefusal(await w.call("sk_owner", "POST /v1/plans", { name: "X", slug: "pro" }), 409, "conflict", "slug");
      const changed = await ok(w, `PATCH /v1/plans/${pro}`, { slug: "team", scopes: null, meta: { tier: 2 } });
      expect(changed).toMatchObject({ name: "Pro", slug: "team", scopes: null, max_keys: 3, meta: { tier: 2 } });
      await ok(w, `PATCH /v1/plans/${pro}`, { slug: "team" });
      expect(await ok(w, `GET /v1/plans/${pro}`)).toEqual(changed);
      await onPlan(w, pro);
      expect((await ok(w, `GET /v1/plans/${pro}`)).tenants).toBe(1);
      const used = await w.call("sk_owner", `DELETE /v1/plans/${pro}`);
      expectRefusal(used, 409, "conflict");
      expect(used.body.error.message).toBe("Tenants still use this plan.");
      await ok(w, `DELETE /v1/tenants/${w.tenant_id}`);
      expect(await ok(w, `DELETE /v1/plans/${pro}`)).toEqual({ object: "plan", id: pro, deleted: true });
      expectRefusal(await w.call("sk_owner", `GET /v1/plans/${pro}`), 404, "not_found");
      expect((await w.actions()).filter((action) => action.startsWith("plan."))).toEqual([
        "plan.created",
        "plan.created",
        "plan.updated",
        "plan.deleted",
      ]);
      const { data } = await ok(w, "GET /v1/audit_logs?action=plan.updated");
      expect((data as Json[]).map(({ payload }) => payload)).toEqual([
        { slug: { old: "pro", new: "team" }, scopes: { old: ["a"], new: null }, meta: { changed: true } },
      ]);
    });

    it("belong to their workspace; a test key reads them and changes nothing", async () => {
      const [w, other] = [await r.workspace(), await r.workspace()];
      const plan = await newPlan(w);
      expectRefusal(await other.call("sk_owner", `GET /v1/plans/${plan}`), 404, "not_found");
      for (const route of ["POST /v1/tenants", `PATCH /v1/tenants/${other.tenant_id}`]) {
        const body = { plan_id: plan, ...(route.startsWith("POST") && { external_id: "x" }) };
        const reply = await other.call("sk_owner", route, body);
        expectRefusal(reply, 404, "not_found");
        expect(reply.body.error.message).toBe("No such plan.");
      }
      expect((await w.call("sk_test", `GET /v1/plans/${plan}`)).status).toBe(200);
      expectRefusal(await w.call("sk_test", `PATCH /v1/plans/${plan}`, { name: "x" }), 403, "forbidden");
    });

    it("give a key its own limits, else those of its tenant, its plan or its project, on nodes and in the answer", async () => {
      const w = await r.workspace();
      await ok(w, `PATCH /v1/projects/${w.project_id}`, { default_rate_limits: [rule("project")] });
      const key = (await w.mint()).id;
      const ids = async (): Promise<unknown[]> => {
        const { rate_limits, rate_limits_source } = await effective(w, key);
        expect((await served(w, key))?.rate_limits).toEqual(rate_limits);
        return [rate_limits_source, ...(rate_limits as Json[]).map(({ id }) => id)];
      };
      expect(await ids()).toEqual(["project", "project"]);
      const plan = await newPlan(w);
      await onPlan(w, plan);
      expect(await ids()).toEqual(["project", "project"]);
      await ok(w, `PATCH /v1/plans/${plan}`, { rate_limits: [rule("plan")] });
      expect(await ids()).toEqual(["plan", "plan"]);
      await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { rate_limits: [] });
      expect(await ids()).toEqual(["tenant"]);
      await ok(w, `PATCH /v1/keys/${key}`, { rate_limits: [rule("key")] });
      expect(await ids()).toEqual(["key", "key"]);
      await ok(w, `PATCH /v1/keys/${key}`, { rate_limits: null });
      const tenant = await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { rate_limits: null, plan_id: null });
      expect([Object.keys(tenant).filter((name) => /plan|limits/.test(name)), await ids()]).toEqual([
        [],
        ["project", "project"],
      ]);
    });

    it("bound the scopes of new keys, and take those of existing keys out of the feed until they allow them", async () => {
      const w = await r.workspace();
      const key = (await w.mint({ scopes: ["c", "a", "b"] })).id;
      const plan = await newPlan(w, { scopes: ["a", "c"] });
      await onPlan(w, plan);
      expect(await effective(w, key)).toMatchObject({
        scopes: ["c", "a"],
        dropped_scopes: ["b"],
        plan_id: plan,
        plan_name: "Pro",
        project_name: (await ok(w, `GET /v1/projects/${w.project_id}`)).name,
      });
      expect((await served(w, key))?.scopes).toEqual(["c", "a"]);
      expect((await ok(w, `GET /v1/keys/${key}`)).scopes).toEqual(["c", "a", "b"]);
      const refused = await w.call("sk_owner", "POST /v1/keys", want(w, { scopes: ["a", "x"] }));
      expectRefusal(refused, 400, "invalid_request", "scopes[1]");
      const edit = (scopes: string[]) => w.call("sk_owner", `PATCH /v1/keys/${key}`, { scopes });
      expectRefusal(await edit(["b", "x"]), 400, "invalid_request", "scopes[1]");
      expect((await edit(["b", "a"])).status).toBe(200);
      expect((await served(w, key))?.scopes).toEqual(["a"]);
      await ok(w, `PATCH /v1/plans/${plan}`, { scopes: [] });
      expect((await served(w, key))?.scopes).toEqual([]);
      await ok(w, `PATCH /v1/plans/${plan}`, { scopes: null });
      expect((await served(w, key))?.scopes).toEqual(["b", "a"]);
    });

    it("raise the version of each project once, however many tenants use them, and only for limits and scopes", async () => {
      const w = await r.workspace();
      const second = (await ok(w, "POST /v1/projects", { name: "S", slug: "second" })).id as string;
      const unused = (await ok(w, "POST /v1/projects", { name: "U", slug: "unused" })).id as string;
      const plan = await newPlan(w);
      for (let i = 0; i < 5; i++) {
        const tenant_id = (await ok(w, "POST /v1/tenants", { external_id: `t${i}`, plan_id: plan })).id;
        await w.mint({ tenant_id });
        await w.mint({ tenant_id, project_id: second });
      }
      const versions = (): Promise<number[]> => Promise.all([w.project_id, second, unused].map((id) => version(w, id)));
      const [a = 0, b = 0, c = 0] = await versions();
      await ok(w, `PATCH /v1/plans/${plan}`, { name: "P", slug: "ppp", max_keys: 9, key_ttl_days: 9, meta: { a: 1 } });
      expect(await versions()).toEqual([a, b, c]);
      await ok(w, `PATCH /v1/plans/${plan}`, { rate_limits: [rule("plan")] });
      expect(await versions()).toEqual([a + 1, b + 1, c]);
      const since = await ok(w, `GET /v1/policy/delta?project_id=${w.project_id}&since=${a}`);
      expect(since.object).toBe("policy_snapshot");
      const other = await newPlan(w, { slug: "other" });
      await ok(w, `PATCH /v1/plans/${other}`, { rate_limits: [] });
      expect(await versions()).toEqual([a + 1, b + 1, c]);
    });

    it("bring a tenant's change to its keys alone, as changes of one version", async () => {
      const w = await r.workspace();
      const plan = await newPlan(w, { rate_limits: [rule("plan")] });
      const other = (await ok(w, "POST /v1/tenants", { external_id: "other" })).id;
      const [key, test] = [await w.mint(), await w.mint({ env: "test" })];
      await w.mint({ tenant_id: other });
      const at = await version(w);
      await onPlan(w, plan);
      const { changes } = await ok(w, `GET /v1/policy/delta?project_id=${w.project_id}&since=${at}`);
      expect((changes as Json[]).map(({ key_id, rate_limits }) => [key_id, rate_limits])).toEqual([
        [key.id, [rule("plan")]],
        [test.id, [rule("plan")]],
      ]);
      expect(await version(w)).toBe(at + 1);
      await onPlan(w, plan);
      expect(await version(w)).toBe(at + 1);
    });

    it("is in force on every node of every project when a change with wait=true is answered", async () => {
      const w = await r.workspace();
      const second = (await ok(w, "POST /v1/projects", { name: "S", slug: "second" })).id as string;
      const plan = await newPlan(w);
      await onPlan(w, plan);
      const projects = [w.project_id, second].toSorted();
      const keys: Awaited<ReturnType<Workspace["mint"]>>[] = [];
      for (const project_id of projects) keys.push(await w.mint({ project_id, scopes: ["a", "b"] }));
      const nodes = projects.map((projectId) =>
        createKeyrack({ url: r.url, secretKey: w.keys.sk_owner, projectId, nodeId: `node-${projectId}` }),
      );
      const held = () =>
        nodes.map((node, i) => ["a", "b"].filter((scope) => node.verify(keys[i]!.key, { scopes: [scope] }).ok));
      try {
        await Promise.all(nodes.map((node) => node.ready()));
        await r.app.services.nodes.flushed();
        const change = { rate_limits: [rule("plan")], scopes: ["b"] };
        for (let round = 0; round < 2; round++) {
          const { propagation } = (await ok(w, `PATCH /v1/plans/${plan}?wait=true`, change)) as { propagation: Json };
          expect(propagation).toMatchObject({ complete: true, acked_nodes: 2, total_nodes: 2 });
          expect((propagation.projects as Json[]).map(({ project_id }) => project_id)).toEqual(projects);
          expect(held()).toEqual([["b"], ["b"]]);
        }
        const left = await ok(w, `PATCH /v1/tenants/${w.tenant_id}?wait=true`, { plan_id: null });
        expect(left.propagation).toMatchObject({ complete: true, total_nodes: 2 });
        expect(held()).toEqual([
          ["a", "b"],
          ["a", "b"],
        ]);
      } finally {
        await Promise.all(nodes.map((node) => node.close()));
      }
      const none = await ok(w, `PATCH /v1/tenants/${w.tenant_id}?wait=true`, { name: "n" });
      expect(none.propagation).toMatchObject({ complete: true, projects: [] });
    });
  });
}
