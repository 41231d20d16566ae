// Quotas of keys, tenants and plans: their definitions, balances and grants, and which nodes get a metered key.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";

type Made = Json & { id: string };

const quota = (fields: Json = {}): Json => ({ id: "calls", amount: 10, refill: "monthly", ...fields });
const complete = (fields: Json = {}): Json => ({ ...quota(), day: 1, time_zone: "UTC", overage: "deny", ...fields });

for (const backend of runBackends) {
  describe(`quotas on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const ok = async (w: Workspace, route: string, body?: Json): Promise<Made> => {
      const reply = await w.call("sk_owner", route, body);
      expect([200, 201], reply.text).toContain(reply.status);
      return reply.body as Made;
    };
    const want = (w: Workspace, more: Json = {}): Json => {
      return { project_id: w.project_id, tenant_id: w.tenant_id, env: "live", ...more };
    };
    const newKey = (w: Workspace, more: Json = {}): Promise<Made> => ok(w, "POST /v1/keys", want(w, more));
    const check = (w: Workspace, key_id: unknown, more: Json = {}): Promise<Json> => {
      const { project_id } = w;
      return ok(w, "POST /v1/ratelimit/check", { project_id, env: "live", key_id, limits: [], quotas: true, ...more });
    };
    const balances = async (w: Workspace, path: string): Promise<Json[]> =>
      (await ok(w, `GET /v1/${path}/quotas`)).data as Json[];
    const served = async (w: Workspace, id: unknown, caps?: string): Promise<Json | undefined> => {
      const query = `project_id=${w.project_id}${caps ? `&caps=${caps}` : ""}`;
      const { keys } = await ok(w, `GET /v1/policy/snapshot?${query}`);
      return (keys as Json[]).find(({ key_id }) => key_id === id);
    };
    const version = async (w: Workspace): Promise<number> =>
      (await ok(w, `GET /v1/projects/${w.project_id}`)).policy_version as number;

    it("are completed, replaced whole, and absent where there are none", async () => {
      const w = await instance.workspace();
      const key = await newKey(w, { quotas: [quota()] });
      expect(key.quotas).toEqual([complete()]);
      const weekly = quota({ refill: "weekly", day: 7, time_zone: "Europe/Berlin", overage: "report" });
      expect((await ok(w, `PATCH /v1/keys/${key.id}`, { quotas: [weekly] })).quotas).toEqual([weekly]);
      expect("quotas" in (await ok(w, `PATCH /v1/keys/${key.id}`, { quotas: null }))).toBe(false);
      expect("quotas" in (await newKey(w))).toBe(false);
      const tenant = await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { quotas: [quota({ refill: "none" })] });
      expect(tenant.quotas).toEqual([complete({ refill: "none", day: null })]);
      const { data } = await ok(w, "GET /v1/audit_logs?limit=10&after_seq=0&order=desc&action=tenant.updated");
      expect((data as Json[])[0]?.payload).toEqual({ quotas: { old: null, new: tenant.quotas } });
    });

    it.each<[string, unknown, string]>([
      ["five of them", Array.from({ length: 5 }, (_, i) => quota({ id: `q${i}` })), "quotas"],
      ["two with one id", [quota(), quota()], "quotas"],
      ["an amount above 1e12", [quota({ amount: 1e12 + 1 })], "quotas[0].amount"],
      ["no refill", [{ id: "calls", amount: 1 }], "quotas[0].refill"],
      ["a day of a daily quota", [quota({ refill: "daily", day: 1 })], "quotas[0].day"],
      ["the eighth day of a week", [quota({ refill: "weekly", day: 8 })], "quotas[0].day"],
      ["day 0 of a month", [quota({ refill: "monthly", day: 0 })], "quotas[0].day"],
      ["an offset as time zone", [quota({ time_zone: "+02:00" })], "quotas[0].time_zone"],
      ["an id with capitals", [quota({ id: "Calls" })], "quotas[0].id"],
    ])("are refused with %s", async (_what, quotas, path) => {
      const w = await instance.workspace();
      const refused = await w.call("sk_owner", "POST /v1/keys", want(w, { quotas }));
      expectRefusal(refused, 400, "invalid_request", path);
      expect(refused.body.error.details).toHaveLength(1);
    });

    it("show their balance for a key and for a tenant, by environment", async () => {
      const w = await instance.workspace();
      await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { quotas: [quota({ id: "all", amount: 100 })] });
      const key = await newKey(w, { quotas: [quota()] });
      await check(w, key.id, { cost: 3 });
      const [own, shared] = await balances(w, `keys/${key.id}`);
      expect(own).toMatchObject({
        id: "calls",
        scope: "key",
        source: "key",
        env: "live",
        spent: 3,
        remaining: 7,
        held: 0,
      });
      expect(shared).toMatchObject({ id: "all", scope: "tenant", source: "tenant", spent: 3, remaining: 97 });
      expect(await balances(w, `tenants/${w.tenant_id}`)).toEqual([shared]);
      const test = await w.call("sk_test", `GET /v1/tenants/${w.tenant_id}/quotas`);
      expect((test.body.data as Json[])[0]).toMatchObject({ env: "test", spent: 0, remaining: 100 });
      const live = await w.call("sk_test", `GET /v1/tenants/${w.tenant_id}/quotas?env=live`);
      expectRefusal(live, 403, "forbidden");
      expectRefusal(await w.call("sk_test", `GET /v1/keys/${key.id}/quotas`), 404, "not_found");
      const other = await instance.workspace();
      expectRefusal(await other.call("sk_owner", `GET /v1/keys/${key.id}/quotas`), 404, "not_found");
      expectRefusal(await other.call("sk_owner", `GET /v1/tenants/${w.tenant_id}/quotas`), 404, "not_found");
    });

    it("come from the plan unless the tenant has its own, and an empty list is none", async () => {
      const w = await instance.workspace();
      const plan = await ok(w, "POST /v1/plans", { name: "Pro", slug: "pro", quotas: [quota()] });
      expect(plan.quotas).toEqual([complete()]);
      await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { plan_id: plan.id });
      const key = await newKey(w);
      expect((await balances(w, `keys/${key.id}`))[0]).toMatchObject({ scope: "tenant", source: "plan", amount: 10 });
      await ok(w, `PATCH /v1/plans/${plan.id}`, { quotas: [quota({ amount: 20 })] });
      expect((await check(w, key.id)).quotas).toMatchObject([{ amount: 20, remaining: 19 }]);
      const { effective } = await ok(w, `GET /v1/keys/${key.id}?include=effective`);
      expect((effective as Json).quotas).toEqual([{ id: "calls", scope: "tenant", source: "plan" }]);
      await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { quotas: [] });
      expect(await balances(w, `keys/${key.id}`)).toEqual([]);
    });

    it("share their balance with every key that rotation makes, the vendor's or the holder's", async () => {
      const w = await instance.workspace();
      await ok(w, `PATCH /v1/projects/${w.project_id}`, { key_policy: { holder_rotate: true } });
      const key = await newKey(w, { quotas: [quota({ amount: 2 })] });
      await check(w, key.id, { cost: 2 });
      const successor = await ok(w, `POST /v1/keys/${key.id}/rotate`, {});
      const third = await ok(w, `POST /v1/keys/${successor.id}/rotate`, {});
      expect(third.quotas).toEqual(key.quotas);
      const { status, body: byHolder } = await instance.call(String(third.key), "POST /v1/self/rotate", {});
      expect(status).toBe(200);
      for (const { id } of [third, byHolder])
        expect(await check(w, id)).toMatchObject({ allowed: false, limited_quota: "calls" });
    });

    it("are not charged, and today's fields are answered, unless the caller asks", async () => {
      const w = await instance.workspace();
      const key = await newKey(w, { quotas: [quota({ amount: 0 })] });
      const rule = { id: "r", limit: 5, window_ms: 60_000, algorithm: "fixed", scope: "key" };
      const plain = await check(w, key.id, { limits: [rule], quotas: false });
      const fields = ["object", "allowed", "limited_policy", "retry_after_seconds", "store", "policies"];
      expect([plain.allowed, Object.keys(plain)]).toEqual([true, fields]);
      const { project_id } = w;
      const body = { project_id, env: "live", key_id: key.id, limits: [] };
      expectRefusal(await w.call("sk_owner", "POST /v1/ratelimit/check", body), 400, "invalid_request", "limits");
      const owed = await w.call("sk_owner", "POST /v1/ratelimit/check", { ...body, limits: [rule], owed: 1 });
      expectRefusal(owed, 400, "invalid_request", "owed");
    });

    it("charge no key of another workspace, environment or project", async () => {
      const w = await instance.workspace();
      const key = await newKey(w, { quotas: [quota()] });
      const other = await instance.workspace();
      expect((await check(other, key.id)).quotas).toEqual([]);
      const asTest = { project_id: w.project_id, env: "test", key_id: key.id, limits: [], quotas: true };
      expect((await w.call("sk_test", "POST /v1/ratelimit/check", asTest)).body.quotas).toEqual([]);
      expect((await balances(w, `keys/${key.id}`))[0]?.spent).toBe(0);
    });

    it("keep a key from nodes that do not charge them, unless they only report", async () => {
      const w = await instance.workspace();
      const key = await newKey(w);
      const before = await version(w);
      await ok(w, `PATCH /v1/keys/${key.id}`, { quotas: [quota({ overage: "report" })] });
      expect([await served(w, key.id, "quotas"), await served(w, key.id)]).toMatchObject([{ metered: true }, {}]);
      expect("metered" in ((await served(w, key.id)) ?? {})).toBe(false);
      await ok(w, `PATCH /v1/keys/${key.id}`, { quotas: [quota()] });
      expect([await served(w, key.id), (await served(w, key.id, "quotas"))?.metered]).toEqual([undefined, true]);
      expect(await version(w)).toBe(before + 2);
      await ok(w, `PATCH /v1/keys/${key.id}`, { quotas: [quota({ amount: 11 }), quota({ id: "more" })] });
      expect(await version(w)).toBe(before + 2);
      const delta = await ok(w, `GET /v1/policy/delta?project_id=${w.project_id}&since=${before}`);
      expect(delta.changes).toMatchObject([{ change: "remove", key_id: key.id, reason: "unsupported" }]);
      await ok(w, `PATCH /v1/keys/${key.id}`, { quotas: null });
      expect(await served(w, key.id)).toBeDefined();
      await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { quotas: [quota()] });
      expect([await served(w, key.id), (await served(w, key.id, "quotas"))?.metered]).toEqual([undefined, true]);
    });

    it("name the live nodes from which their keys are withheld", async () => {
      const w = await instance.workspace();
      const poll = (node: string, caps: string) =>
        ok(w, `GET /v1/policy/snapshot?project_id=${w.project_id}&node=${node}${caps}`);
      await poll("old", "&caps=disabled");
      await poll("new", "&caps=disabled,quotas");
      await instance.app.services.nodes.flushed();
      const { warnings } = await newKey(w, { quotas: [quota()] });
      expect(warnings).toEqual([{ path: "quotas", message: expect.stringContaining("1 of 2 live nodes") }]);
      for (const query of [`project_id=${w.project_id}`, "view=fleet"]) {
        const nodes = (await ok(w, `GET /v1/nodes?${query}`)).data as Json[];
        const lacking = nodes.map(({ node_id, missing_caps, withheld_keys }) => [
          node_id,
          { missing_caps, withheld_keys },
        ]);
        expect(Object.fromEntries(lacking), query).toEqual({
          new: { missing_caps: [], withheld_keys: 0 },
          old: { missing_caps: ["quotas"], withheld_keys: 1 },
        });
      }
      const tenant = await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { quotas: [quota()] });
      expect(tenant.warnings).toMatchObject([{ path: "quotas" }]);
      const plan_id = (await ok(w, "POST /v1/plans", { name: "Pro", slug: "pro", quotas: [quota()] })).id;
      const onPlan = await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { quotas: null, plan_id });
      expect(onPlan.warnings).toMatchObject([{ path: "quotas" }]);
      expect((await newKey(w, {})).warnings).toMatchObject([{ path: "quotas" }]);
    });

    it("grow by grants, which a reference makes safe to repeat, and shrink when one is voided", async () => {
      const w = await instance.workspace();
      await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { quotas: [quota({ amount: 1 })] });
      const key = await newKey(w);
      await check(w, key.id);
      expect((await check(w, key.id)).allowed).toBe(false);
      const path = `POST /v1/tenants/${w.tenant_id}/quotas/calls/grants`;
      const first = await w.call("sk_owner", path, { units: 5, reference: "invoice-1", reason: "paid" });
      const grantId = first.body.id as string;
      expect([first.status, first.body.remaining, first.body.scope, first.body.key_id]).toEqual([
        201,
        5,
        "tenant",
        null,
      ]);
      const again = await w.call("sk_owner", path, { units: 5, reference: "invoice-1" });
      expect([again.status, again.headers.get("idempotent-replayed"), again.body.id]).toEqual([
        200,
        "true",
        first.body.id,
      ]);
      const other = await w.call("sk_owner", path, { units: 6, reference: "invoice-1" });
      expectRefusal(other, 409, "conflict", "reference");
      expect(await check(w, key.id, { cost: 2 })).toMatchObject({ allowed: true, quotas: [{ remaining: 3 }] });
      expect((await balances(w, `tenants/${w.tenant_id}`))[0]).toMatchObject({ granted: 3, spent: 3, remaining: 3 });
      const voided = await ok(w, `POST /v1/quota_grants/${grantId}/void`, {});
      expect([voided.remaining, typeof voided.voided_at]).toEqual([0, "string"]);
      expect(await ok(w, `POST /v1/quota_grants/${grantId}/void`, {})).toEqual(voided);
      expect((await check(w, key.id)).allowed).toBe(false);
      const list = await ok(w, `GET /v1/tenants/${w.tenant_id}/quotas/calls/grants`);
      expect([(list.data as Json[]).map(({ id }) => id), list.next_cursor]).toEqual([[first.body.id], null]);
      const { data } = await ok(w, "GET /v1/audit_logs?limit=10&order=desc&action=quota_grant.*");
      expect((data as Json[]).map(({ action, payload }) => [action, payload])).toEqual([
        ["quota_grant.voided", { env: "live", remaining: 3 }],
        [
          "quota_grant.created",
          {
            env: "live",
            quota_id: "calls",
            units: 5,
            expires_at: null,
            reference: "invoice-1",
            tenant_id: w.tenant_id,
          },
        ],
      ]);
    });

    it("show a test key the grants of test in the audit log, and none of live", async () => {
      const w = await instance.workspace();
      await ok(w, `PATCH /v1/tenants/${w.tenant_id}`, { quotas: [quota()] });
      const grants = `POST /v1/tenants/${w.tenant_id}/quotas/calls/grants`;
      const live = await ok(w, grants, { units: 5, reference: "invoice-17" });
      const test = await ok(w, grants, { units: 7, env: "test" });
      await ok(w, `POST /v1/quota_grants/${live.id}/void`, {});
      const seenBy = async (as: "sk_owner" | "sk_test", query: string): Promise<unknown[]> => {
        const { data } = (await w.call(as, `GET /v1/audit_logs?limit=200${query}`)).body as { data: Json[] };
        return data.filter(({ target_type }) => target_type === "quota_grant").map(({ target_id }) => target_id);
      };
      for (const query of ["", "&order=desc", "&action=quota_grant.*", `&target_id=${live.id}`]) {
        expect(await seenBy("sk_owner", query), query).toContain(live.id);
        expect(await seenBy("sk_test", query), query).toEqual(query.includes("target_id") ? [] : [test.id]);
      }
      const exported = await w.call("sk_test", "GET /v1/audit_logs/export");
      expect([exported.text.includes(test.id), exported.text.includes(live.id)]).toEqual([true, false]);
    });

    it("refuse grants to what does not apply, in the past, and beyond the environment", async () => {
      const w = await instance.workspace();
      const key = await newKey(w, { quotas: [quota()] });
      const grants = (id: string, of = "calls"): string => `POST /v1/keys/${id}/quotas/${of}/grants`;
      expectRefusal(await w.call("sk_owner", grants(key.id, "other"), { units: 1 }), 404, "not_found");
      const past = await w.call("sk_owner", grants(key.id), { units: 1, expires_at: "2020-01-01T00:00:00Z" });
      expectRefusal(past, 400, "invalid_request", "expires_at");
      expectRefusal(await w.call("sk_test", grants(key.id), { units: 1 }), 403, "forbidden");
      const other = await instance.workspace();
      expectRefusal(await other.call("sk_owner", grants(key.id), { units: 1 }), 404, "not_found");
      const grant = await ok(w, grants(key.id), { units: 1 });
      const { data } = await ok(w, `GET /v1/keys/${key.id}/quotas/calls/grants?limit=1`);
      expect(data).toEqual([grant]);
      expectRefusal(await other.call("sk_owner", `POST /v1/quota_grants/${grant.id}/void`, {}), 404, "not_found");
      expectRefusal(await w.call("sk_test", `POST /v1/quota_grants/${grant.id}/void`, {}), 403, "forbidden");
    });
  });
}
