// No id of one workspace works in another: every route that takes one is tried with it.
import { beforeAll, describe, expect, it } from "vitest";
import { access } from "../../src/http/access.ts";
import { endpoints } from "../../src/api/index.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { memberOf, team } from "../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, type Workspace } from "../../harness/instances/test-instance.ts";

const QUOTA = "monthly";

const taking = endpoints.filter(({ path, access: row }) => path.includes("{") && access[row].rules.sk_owner === "Y");

for (const backend of runBackends) {
  describe(`across workspaces on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let stranger: Workspace;
    const ids: Record<string, string> = {};
    let key = "";
    beforeAll(async () => {
      stranger = await instance.workspace();
      const ours = await team(instance);
      key = ours.key;
      const make = async (route: string, body: object) => (await instance.call(key, route, body)).body.id as string;
      ids.projects = await make("POST /v1/projects", { name: "P", slug: "ppp" });
      ids.tenants = await make("POST /v1/tenants", { external_id: "t" });
      const want = { project_id: ids.projects, tenant_id: ids.tenants, env: "live" };
      ids.keys = await make("POST /v1/keys", want);
      ids.secret_keys = await make("POST /v1/secret_keys", { env: "live" });
      ids.invites = await make("POST /v1/invites", { email: "guest@example.com", role: "member" });
      const quotas = [{ id: QUOTA, amount: 10, refill: "none" }];
      await instance.call(key, `PATCH /v1/tenants/${ids.tenants}`, { quotas });
      await instance.call(key, `PATCH /v1/keys/${ids.keys}`, { quotas });
      ids.quota_grants = await make(`POST /v1/tenants/${ids.tenants}/quotas/${QUOTA}/grants`, { units: 1 });
      ids.plans = await make("POST /v1/plans", { name: "Gold", slug: "gold" });
      ids.members = (await memberOf(instance, ours, "member")).id;
    });

    for (const { name, method, path } of taking) {
      if (access[endpoints.find((one) => one.name === name)?.access ?? "public"].open) continue;
      it(`${name} finds nothing by another workspace's id`, async () => {
        const noun = path.split("/")[2] ?? "";
        expect(ids[noun], noun).toBeTypeOf("string");
        const before = (await instance.call(key, "GET /v1/audit_logs/checkpoint")).body.size;
        const route = `${method} ${path.replace("{quota_id}", QUOTA).replace(/\{\w+\}/, ids[noun] ?? "")}`;
        const changes = noun === "members" ? { role: "admin" } : { name: "x" };
        const body = method === "PATCH" ? changes : path.endsWith("/grants") ? { units: 1 } : {};
        const reply = await stranger.call(
          "sk_owner",
          route,
          method === "GET" || method === "DELETE" ? undefined : body,
        );
        expectRefusal(reply, 404, "not_found");
        expect((await instance.call(key, "GET /v1/audit_logs/checkpoint")).body.size).toBe(before);
      });
    }
  });
}
