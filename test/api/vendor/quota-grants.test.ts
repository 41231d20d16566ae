// Grants that are delivered again, and how many of them a balance has.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance } from "../../../harness/instances/test-instance.ts";

const quotas = [{ id: "calls", amount: 10, refill: "none" }];

for (const backend of runBackends) {
  describe(`grants of a quota on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("are given once for a reference, also when they are delivered again after they have expired", async () => {
      const workspace = await instance.workspace();
      await workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}`, { quotas });
      const grants = `POST /v1/tenants/${workspace.tenant_id}/quotas/calls/grants`;
      const expires_at = new Date(instance.clock.now() + 60_000).toISOString();
      const body = { units: 5, reference: "invoice-1", expires_at };
      const first = await workspace.call("sk_owner", grants, body);
      expect(first.status).toBe(201);
      instance.clock.advance(120_000);
      const again = await workspace.call("sk_owner", grants, body);
      expect([again.status, again.headers.get("idempotent-replayed"), again.body]).toEqual([200, "true", first.body]);
      expectRefusal(await workspace.call("sk_owner", grants, { ...body, units: 6 }), 409, "conflict", "reference");
      const late = await workspace.call("sk_owner", grants, { ...body, reference: "invoice-2" });
      expectRefusal(late, 400, "invalid_request", "expires_at");
      expect((await workspace.actions()).filter((action) => action === "quota_grant.created")).toHaveLength(1);
    });

    it("are at most a thousand that are unspent, whatever ended before", async () => {
      const workspace = await instance.workspace();
      await workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}`, { quotas });
      const grants = `POST /v1/tenants/${workspace.tenant_id}/quotas/calls/grants`;
      const { id } = (await workspace.call("sk_owner", grants, { units: 5 })).body;
      const columns = (await instance.sql(`select * from quota_grants where id = '${id}'`)).map((row) =>
        Object.keys(row),
      )[0];
      const copied = (n: string): string =>
        (columns ?? []).map((name) => (name === "id" ? `id || '-' || ${n}` : name)).join(", ");
      await instance.sql(`insert into quota_grants (${columns?.join(", ")}) with recursive n(i) as
        (select 1 union all select i + 1 from n where i < 998) select ${copied("i")} from quota_grants, n where id = '${id}'`);
      expect((await workspace.call("sk_owner", grants, { units: 5 })).status).toBe(201);
      const refused = await workspace.call("sk_owner", grants, { units: 5, reference: "invoice-1" });
      expectRefusal(refused, 409, "conflict");
      expect((await workspace.call("sk_owner", grants, { units: 5, env: "test" })).status).toBe(201);
      await workspace.call("sk_owner", `POST /v1/quota_grants/${id}/void`, {});
      expect((await workspace.call("sk_owner", grants, { units: 5, reference: "invoice-1" })).status).toBe(201);
    });
  });
}
