// The balances that a tenant's browser may read.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { embed } from "../../../harness/instances/embed.ts";
import { expectRefusal, sharedInstance } from "../../../harness/instances/test-instance.ts";

for (const backend of runBackends) {
  describe(`quotas in the portal on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("shows what is left of the tenant's quotas in the token's environment, and nothing about its keys", async () => {
      const e = await embed(instance);
      const { workspace } = e;
      expect((await e.call("GET /v1/embed/quotas")).body).toEqual({ object: "list", data: [] });
      const quotas = [{ id: "calls", amount: 10, refill: "none" }];
      await workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}`, { quotas });
      const key = await workspace.mint({ quotas: [{ id: "own", amount: 1, refill: "none" }] });
      const charge = {
        project_id: workspace.project_id,
        env: "live",
        key_id: key.id,
        limits: [],
        quotas: true,
        cost: 1,
      };
      expect((await workspace.call("sk_owner", "POST /v1/ratelimit/check", charge)).status).toBe(200);
      const left = (remaining: number) => ({
        object: "quota_balance",
        id: "calls",
        amount: 10,
        refill: "none",
        resets_at: null,
        remaining,
        exceeded: false,
      });
      expect((await e.call("GET /v1/embed/quotas")).body.data).toEqual([left(9)]);
      const test = (await e.mint({ env: "test" })).body.token as string;
      expect((await e.call("GET /v1/embed/quotas", undefined, { token: test })).body.data).toEqual([left(10)]);
      const blind = (await e.mint({ scopes: ["keys:write"] })).body.token as string;
      expectRefusal(await e.call("GET /v1/embed/quotas", undefined, { token: blind }), 403, "insufficient_scope");
    });
  });
}
