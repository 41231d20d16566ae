// Plans: their records, and what they give the keys of their tenants on nodes.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { createKeyrack } from "../../../src/sdk/index.ts";

const rule = (id: string, limit = 5): Json => ({ id, limit, window_ms: 60_000, algorithm: "sliding", scope: "key" });

for (const backend of runBackends) {
  describe(`plans on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const ok = async (workspace: Workspace, route: string, body?: Json): Promise<Json> => {
      const reply = await workspace.call("sk_owner", route, body);
      expect([200, 201], reply.text).toContain(reply.status);
      return reply.body;
    };
    const newPlan = async (workspace: Workspace, fields: Json = {}): Promise<string> =>
      (await ok(workspace, "POST /v1/plans", { name: "Pro", slug: "pro", ...fields })).id as string;
    const onPlan = (workspace: Workspace, plan_id: string | null, tenant = workspace.tenant_id): Promise<Json> =>
      ok(workspace, `PATCH /v1/tenants/${tenant}`, { plan_id });
    const want = (workspace: Workspace, more: Json = {}): Json => {
      return { project_id: workspace.project_id, tenant_id: workspace.tenant_id, env: "live", ...more };
    };
    const snapshot = async (workspace: Workspace, project = workspace.project_id): Promise<Json[]> =>
      (await ok(workspace, `GET /v1/policy/snapshot?project_id=${project}`)).keys as Json[];
    const served = async (workspace: Workspace, id: string): Promise<Json | undefined> =>
      (await snapshot(workspace)).find(({ key_id }) => key_id === id);
    const effective = async (workspace: Workspace, id: string): Promise<Json> =>
      (await ok(workspace, `GET /v1/keys/${id}?include=effective`)).effective as Json;
    const version = async (workspace: Workspace, project = workspace.project_id): Promise<number> =>
      (await ok(workspace, `GET /v1/projects/${project}`)).policy_version as number;

    it("are created, listed newest first, changed field by field, and deleted when no tenant uses them", async () => {
      const workspace = await instance.workspace();
      const made = await ok(workspace, "POST /v1/plans", { name: "Free", slug: "free" });
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
      instance.clock.advance(1);
      const pro = await newPlan(workspace, { rate_limits: [rule("r")], scopes: ["a"], max_keys: 3, key_ttl_days: 30 });
      expect(((await ok(workspace, "GET /v1/plans")).data as Json[]).map(({ slug }) => slug)).toEqual(["pro", "free"]);
      expectRefusal(
        await workspace.call("sk_owner", "POST /v1/plans", { name: "X", slug: "pro" }),
        409,
        "conflict",
        "slug",
      );
      const changed = await ok(workspace, `PATCH /v1/plans/${pro}`, { slug: "team", scopes: null, meta: { tier: 2 } });
      expect(changed).toMatchObject({ name: "Pro", slug: "team", scopes: null, max_keys: 3, meta: { tier: 2 } });
      await ok(workspace, `PATCH /v1/plans/${pro}`, { slug: "team" });
      expect(await ok(workspace, `GET /v1/plans/${pro}`)).toEqual(changed);
      await onPlan(workspace, pro);
      expect((await ok(workspace, `GET /v1/plans/${pro}`)).tenants).toBe(1);
      const used = await workspace.call("sk_owner", `DELETE /v1/plans/${pro}`);
      expectRefusal(used, 409, "conflict");
      expect(used.body.error.message).toBe("This plan is in use. Move its tenants to another plan first.");
      await ok(workspace, `DELETE /v1/tenants/${workspace.tenant_id}`);
      expect(await ok(workspace, `DELETE /v1/plans/${pro}`)).toEqual({ object: "plan", id: pro, deleted: true });
      expectRefusal(await workspace.call("sk_owner", `GET /v1/plans/${pro}`), 404, "not_found");
      expect((await workspace.actions()).filter((action) => action.startsWith("plan."))).toEqual([
        "plan.created",
        "plan.created",
        "plan.updated",
        "plan.deleted",
      ]);
      const { data } = await ok(workspace, "GET /v1/audit_logs?action=plan.updated");
      expect((data as Json[]).map(({ payload }) => payload)).toEqual([
        { slug: { old: "pro", new: "team" }, scopes: { old: ["a"], new: null }, meta: { changed: true } },
      ]);
    });

    it("belong to their workspace; a test key reads them and changes nothing", async () => {
      const [workspace, other] = [await instance.workspace(), await instance.workspace()];
      const plan = await newPlan(workspace);
      expectRefusal(await other.call("sk_owner", `GET /v1/plans/${plan}`), 404, "not_found");
      for (const route of ["POST /v1/tenants", `PATCH /v1/tenants/${other.tenant_id}`]) {
        const body = { plan_id: plan, ...(route.startsWith("POST") && { external_id: "x" }) };
        const reply = await other.call("sk_owner", route, body);
        expectRefusal(reply, 404, "not_found");
        expect(reply.body.error.message).toBe("No such plan.");
      }
      expect((await workspace.call("sk_test", `GET /v1/plans/${plan}`)).status).toBe(200);
      expectRefusal(await workspace.call("sk_test", `PATCH /v1/plans/${plan}`, { name: "x" }), 403, "forbidden");
    });

    it("give a key its own limits, else those of its tenant, its plan or its project, on nodes and in the answer", async () => {
      const workspace = await instance.workspace();
      await ok(workspace, `PATCH /v1/projects/${workspace.project_id}`, { default_rate_limits: [rule("project")] });
      const key = (await workspace.mint()).id;
      const ids = async (): Promise<unknown[]> => {
        const { rate_limits, rate_limits_source } = await effective(workspace, key);
        expect((await served(workspace, key))?.rate_limits).toEqual(rate_limits);
        return [rate_limits_source, ...(rate_limits as Json[]).map(({ id }) => id)];
      };
      expect(await ids()).toEqual(["project", "project"]);
      const plan = await newPlan(workspace);
      await onPlan(workspace, plan);
      expect(await ids()).toEqual(["project", "project"]);
      await ok(workspace, `PATCH /v1/plans/${plan}`, { rate_limits: [rule("plan")] });
      expect(await ids()).toEqual(["plan", "plan"]);
      await ok(workspace, `PATCH /v1/tenants/${workspace.tenant_id}`, { rate_limits: [] });
      expect(await ids()).toEqual(["tenant"]);
      await ok(workspace, `PATCH /v1/keys/${key}`, { rate_limits: [rule("key")] });
      expect(await ids()).toEqual(["key", "key"]);
      await ok(workspace, `PATCH /v1/keys/${key}`, { rate_limits: null });
      const tenant = await ok(workspace, `PATCH /v1/tenants/${workspace.tenant_id}`, {
        rate_limits: null,
        plan_id: null,
      });
      expect([Object.keys(tenant).filter((name) => /plan|limits/.test(name)), await ids()]).toEqual([
        [],
        ["project", "project"],
      ]);
    });

    it("bound the scopes of new keys, and take those of existing keys out of the feed until they allow them", async () => {
      const workspace = await instance.workspace();
      const key = (await workspace.mint({ scopes: ["c", "a", "b"] })).id;
      const plan = await newPlan(workspace, { scopes: ["a", "c"] });
      await onPlan(workspace, plan);
      expect(await effective(workspace, key)).toMatchObject({
        scopes: ["c", "a"],
        dropped_scopes: ["b"],
        plan_id: plan,
        plan_name: "Pro",
        project_name: (await ok(workspace, `GET /v1/projects/${workspace.project_id}`)).name,
      });
      expect((await served(workspace, key))?.scopes).toEqual(["c", "a"]);
      expect((await ok(workspace, `GET /v1/keys/${key}`)).scopes).toEqual(["c", "a", "b"]);
      const refused = await workspace.call("sk_owner", "POST /v1/keys", want(workspace, { scopes: ["a", "x"] }));
      expectRefusal(refused, 400, "invalid_request", "scopes[1]");
      const edit = (scopes: string[]) => workspace.call("sk_owner", `PATCH /v1/keys/${key}`, { scopes });
      expectRefusal(await edit(["b", "x"]), 400, "invalid_request", "scopes[1]");
      expect((await edit(["b", "a"])).status).toBe(200);
      expect((await served(workspace, key))?.scopes).toEqual(["a"]);
      await ok(workspace, `PATCH /v1/plans/${plan}`, { scopes: [] });
      expect((await served(workspace, key))?.scopes).toEqual([]);
      await ok(workspace, `PATCH /v1/plans/${plan}`, { scopes: null });
      expect((await served(workspace, key))?.scopes).toEqual(["b", "a"]);
    });

    it("raise the version of each project once, however many tenants use them, and only for limits and scopes", async () => {
      const workspace = await instance.workspace();
      const second = (await ok(workspace, "POST /v1/projects", { name: "S", slug: "second" })).id as string;
      const unused = (await ok(workspace, "POST /v1/projects", { name: "U", slug: "unused" })).id as string;
      const plan = await newPlan(workspace);
      for (let i = 0; i < 5; i++) {
        const tenant_id = (await ok(workspace, "POST /v1/tenants", { external_id: `t${i}`, plan_id: plan })).id;
        await workspace.mint({ tenant_id });
        await workspace.mint({ tenant_id, project_id: second });
      }
      const versions = (): Promise<number[]> =>
        Promise.all([workspace.project_id, second, unused].map((id) => version(workspace, id)));
      const [a = 0, b = 0, c = 0] = await versions();
      await ok(workspace, `PATCH /v1/plans/${plan}`, {
        name: "P",
        slug: "ppp",
        max_keys: 9,
        key_ttl_days: 9,
        meta: { a: 1 },
      });
      expect(await versions()).toEqual([a, b, c]);
      await ok(workspace, `PATCH /v1/plans/${plan}`, { rate_limits: [rule("plan")] });
      expect(await versions()).toEqual([a + 1, b + 1, c]);
      const since = await ok(workspace, `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${a}`);
      expect(since.object).toBe("policy_snapshot");
      const other = await newPlan(workspace, { slug: "other" });
      await ok(workspace, `PATCH /v1/plans/${other}`, { rate_limits: [] });
      expect(await versions()).toEqual([a + 1, b + 1, c]);
    });

    it("bring a tenant's change to its keys alone, as changes of one version", async () => {
      const workspace = await instance.workspace();
      const plan = await newPlan(workspace, { rate_limits: [rule("plan")] });
      const other = (await ok(workspace, "POST /v1/tenants", { external_id: "other" })).id;
      const [key, test] = [await workspace.mint(), await workspace.mint({ env: "test" })];
      await workspace.mint({ tenant_id: other });
      const at = await version(workspace);
      await onPlan(workspace, plan);
      const { changes } = await ok(workspace, `GET /v1/policy/delta?project_id=${workspace.project_id}&since=${at}`);
      expect((changes as Json[]).map(({ key_id, rate_limits }) => [key_id, rate_limits])).toEqual([
        [key.id, [rule("plan")]],
        [test.id, [rule("plan")]],
      ]);
      expect(await version(workspace)).toBe(at + 1);
      await onPlan(workspace, plan);
      expect(await version(workspace)).toBe(at + 1);
    });

    it("is in force on every node of every project when a change with wait=true is answered", async () => {
      const workspace = await instance.workspace();
      const second = (await ok(workspace, "POST /v1/projects", { name: "S", slug: "second" })).id as string;
      const plan = await newPlan(workspace);
      await onPlan(workspace, plan);
      const projects = [workspace.project_id, second].toSorted();
      const keys: Awaited<ReturnType<Workspace["mint"]>>[] = [];
      for (const project_id of projects) keys.push(await workspace.mint({ project_id, scopes: ["a", "b"] }));
      const nodes = projects.map((projectId) =>
        createKeyrack({
          url: instance.url,
          secretKey: workspace.keys.sk_owner,
          projectId,
          nodeId: `node-${projectId}`,
        }),
      );
      const held = () =>
        nodes.map((node, i) => ["a", "b"].filter((scope) => node.verify(keys[i]!.key, { scopes: [scope] }).ok));
      try {
        await Promise.all(nodes.map((node) => node.ready()));
        await instance.app.services.nodes.flushed();
        const change = { rate_limits: [rule("plan")], scopes: ["b"] };
        for (let round = 0; round < 2; round++) {
          const { propagation } = (await ok(workspace, `PATCH /v1/plans/${plan}?wait=true`, change)) as {
            propagation: Json;
          };
          expect(propagation).toMatchObject({ complete: true, acked_nodes: 2, total_nodes: 2 });
          expect((propagation.projects as Json[]).map(({ project_id }) => project_id)).toEqual(projects);
          expect(held()).toEqual([["b"], ["b"]]);
        }
        const left = await ok(workspace, `PATCH /v1/tenants/${workspace.tenant_id}?wait=true`, { plan_id: null });
        expect(left.propagation).toMatchObject({ complete: true, total_nodes: 2 });
        expect(held()).toEqual([
          ["a", "b"],
          ["a", "b"],
        ]);
      } finally {
        await Promise.all(nodes.map((node) => node.close()));
      }
      const none = await ok(workspace, `PATCH /v1/tenants/${workspace.tenant_id}?wait=true`, { name: "n" });
      expect(none.propagation).toMatchObject({ complete: true, projects: [] });
    });
  });
}
