// What a plan allows when a key is made, changed or rotated: how many, how long, with which scopes; on every plane.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { embed } from "../../../harness/instances/embed.ts";
import { plansOf } from "../../../harness/databases/plans.ts";
import { activeKeysOf } from "../../../src/store/queries/keys.ts";
import { countActiveKeys } from "../../../src/store/queries/plans.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

const rule = (id: string, limit = 5): Json => ({ id, limit, window_ms: 60_000, algorithm: "sliding", scope: "key" });

for (const backend of runBackends) {
  describe(`keys of tenants on a plan on ${backend}`, () => {
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

    it("allow no more active keys than max_keys, in each environment, however many ask at once", async () => {
      const workspace = await instance.workspace();
      const plan = await newPlan(workspace, { max_keys: 3 });
      await workspace.mint();
      await onPlan(workspace, plan);
      const create = (more: Json = {}) => workspace.call("sk_owner", "POST /v1/keys", want(workspace, more));
      const replies = await Promise.all(Array.from({ length: 8 }, () => create()));
      expect(replies.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
        201,
        201,
        ...Array<number>(6).fill(409),
      ]);
      const refused = replies.find(({ status }) => status === 409);
      expect(refused?.body.error.message).toBe("This tenant's plan allows no more active keys.");
      expect((await create({ env: "test" })).status).toBe(201);
      const { body: first } = replies.find(({ status }) => status === 201) ?? { body: {} };
      // Rotation is exempt, and the predecessor in its overlap takes no place.
      const rotated = await ok(workspace, `POST /v1/keys/${first.id}/rotate`, { overlap_hours: 24 });
      expectRefusal(await create(), 409, "conflict");
      await ok(workspace, `POST /v1/keys/${String(rotated.id)}/revoke`, {});
      expectRefusal(await create(), 409, "conflict"); // the predecessor takes the place again
      await ok(workspace, `POST /v1/keys/${first.id}/revoke`, {});
      expect((await create()).status).toBe(201);
      await ok(workspace, `PATCH /v1/plans/${plan}`, { max_keys: 1 });
      expect(await snapshot(workspace)).toHaveLength(4);
      expectRefusal(await create(), 409, "conflict");
    });

    it("are counted without reading those that are revoked or have expired", async () => {
      const tenant = { workspace_id: "w", tenant_id: "t", env: "live", now: 5, max: 3 } as const;
      for (const count of [countActiveKeys, activeKeysOf]) {
        const plan = await plansOf(instance.target, (on) => count.all(on, { ...tenant, project_id: "p" }));
        expect(plan).not.toMatch(/SCAN (api_keys|projects)|Seq Scan|api_keys_tenant/);
        if (backend === "postgres") continue; // it takes any index of a table that is almost empty
        expect(plan).toContain("api_keys_working_env");
        expect(plan).toMatch(/env=\? AND expires_at=\?[^]*env=\? AND expires_at>\?/);
      }
    });

    it("count an expired key only when it is made to work again", async () => {
      const workspace = await instance.workspace();
      const key = await workspace.mint({ expires_at: new Date(instance.clock.now() + 1_000).toISOString() });
      await onPlan(workspace, await newPlan(workspace, { max_keys: 1 }));
      instance.clock.advance(2_000);
      await workspace.mint();
      const later = new Date(instance.clock.now() + DAY_MS).toISOString();
      expectRefusal(
        await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}`, { expires_at: later }),
        409,
        "conflict",
      );
    });

    it("bound the life of new keys, edits and successors together with the project", async () => {
      const workspace = await instance.workspace();
      const inDays = (days: number): string => new Date(instance.clock.now() + days * DAY_MS).toISOString();
      const plan = await newPlan(workspace, { key_ttl_days: 10 });
      const before = await workspace.mint();
      await onPlan(workspace, plan);
      const key = await workspace.mint();
      expect(key.expires_at).toBe(inDays(10));
      for (const expires_at of [inDays(11), null])
        expectRefusal(
          await workspace.call("sk_owner", "POST /v1/keys", want(workspace, { expires_at })),
          400,
          "invalid_request",
          "expires_at",
        );
      expectRefusal(
        await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}`, { expires_at: inDays(11) }),
        400,
        "invalid_request",
        "expires_at",
      );
      const rotate = async (id: string): Promise<unknown> =>
        (await ok(workspace, `POST /v1/keys/${id}/rotate`, { overlap_hours: 0 })).expires_at;
      expect(await rotate(before.id)).toBe(inDays(10));
      const policy = (key_policy: Json) => ok(workspace, `PATCH /v1/projects/${workspace.project_id}`, { key_policy });
      await policy({ default_ttl_days: 20, max_ttl_days: 30 });
      expect((await workspace.mint()).expires_at).toBe(inDays(10));
      await policy({ max_ttl_days: 5 });
      expect((await workspace.mint()).expires_at).toBe(inDays(5));
      await policy({ default_ttl_days: 7 });
      const bulk = { action: "rotate", filter: { ids: [key.id] }, overlap_hours: 0 };
      const { data } = await ok(workspace, "POST /v1/bulk/keys", bulk);
      const successor = (data as Json[])[0]?.successor_id as string;
      expect((await ok(workspace, `GET /v1/keys/${successor}`)).expires_at).toBe(inDays(7));
    });

    it("hold in the portal and for holders: no scope outside the ceiling, no key beyond max_keys", async () => {
      const e = await embed(instance);
      const workspace = e.workspace;
      const plan = await newPlan(workspace, { scopes: ["orders:read"], max_keys: 2, key_ttl_days: 10 });
      await onPlan(workspace, plan);
      const session = (await e.call("GET /v1/embed/session")).body;
      expect([session.scopes, session.default_ttl_days]).toEqual([
        ["keys:read", "keys:write", "key_scope:orders:read"],
        10,
      ]);
      const outside = await e.call("POST /v1/embed/keys", { scopes: ["orders:write"] });
      expectRefusal(outside, 403, "insufficient_scope");
      expect(outside.body.error.missing_scopes).toEqual(["key_scope:orders:write"]);
      const made = await e.call("POST /v1/embed/keys", { scopes: ["orders:read"] });
      expect(made.status).toBe(201);
      const both = await Promise.all([1, 2].map(() => e.call("POST /v1/embed/keys", {})));
      expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409]);
      const rotated = await e.call(`POST /v1/embed/keys/${made.body.id}/rotate`, {});
      expect(rotated.status).toBe(200);
      await ok(workspace, `PATCH /v1/plans/${plan}`, { scopes: [], rate_limits: [rule("plan")] });
      const self = await instance.call(rotated.body.key, "GET /v1/self");
      expect(self.body).toMatchObject({ scopes: [], rate_limits: [rule("plan")] });
      const looked = await ok(workspace, "POST /v1/keys/lookup", { key: rotated.body.key, scopes: ["orders:read"] });
      expect([looked.admitted, looked.code]).toEqual([false, "insufficient_scope"]);
    });
  });
}
