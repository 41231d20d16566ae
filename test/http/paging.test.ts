// Paging past deleted rows, what paging reveals to a test key, and deleting a tenant with very many keys.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { backends } from "../../harness/databases/backends.ts";
import { expectRefusal, testInstance, type TestInstance } from "../../harness/instances/test-instance.ts";

const KEYS = 40_000;

for (const back of backends) {
  describe(`on ${back}`, () => {
    let r: TestInstance;
    beforeAll(async () => {
      r = await testInstance(back);
    });
    afterAll(() => r[Symbol.asyncDispose]());

    it("a page may start after a row that was deleted meanwhile", async () => {
      const w = await r.workspace();
      const first = await w.call("sk_owner", "POST /v1/tenants", { external_id: "first" });
      const second = await w.call("sk_owner", "POST /v1/tenants", { external_id: "second" });
      await w.call("sk_owner", `DELETE /v1/tenants/${second.body.id}`);
      const tenants = await w.call("sk_owner", `GET /v1/tenants?after=${second.body.id}`);
      expect(tenants.body.data.map(({ id }: { id: string }) => id)).toEqual([first.body.id, w.tenant_id]);
      const project = await w.call("sk_owner", "POST /v1/projects", { name: "P", slug: "ppp" });
      await w.call("sk_owner", `DELETE /v1/projects/${project.body.id}`);
      const projects = await w.call("sk_owner", `GET /v1/projects?after=${project.body.id}`);
      expect(projects.body.data.map(({ id }: { id: string }) => id)).toEqual([w.project_id]);
    });

    it("paging after a live id reveals nothing to a test key: the refusal is that of an unknown id", async () => {
      const w = await r.workspace();
      const other = await r.workspace();
      const live = await w.mint();
      const test = await w.mint({ env: "test" });
      const never = r.app.services.newId();
      const foreign = await other.mint({ env: "test" });
      const refused = await w.call("sk_test", `GET /v1/keys?after=${never}`);
      expectRefusal(refused, 400, "invalid_request", "after");
      for (const id of [live.id, foreign.id])
        expect((await w.call("sk_test", `GET /v1/keys?after=${id}`)).body).toEqual(refused.body);
      expect((await w.call("sk_test", `GET /v1/keys?after=${test.id}`)).status).toBe(200);
      const hidden = await w.call("sk_test", `GET /v1/secret_keys?after=${w.keyIds.sk_owner}`);
      expect(hidden.body).toEqual((await w.call("sk_test", `GET /v1/secret_keys?after=${never}`)).body);
      expect((await w.call("sk_owner", `GET /v1/secret_keys?after=${w.keyIds.sk_owner}`)).status).toBe(200);
    });

    it(`deleting a tenant revokes all of its ${KEYS} keys, in statements of bounded length`, async () => {
      const w = await r.workspace();
      const { id } = await w.mint();
      const values = back === "sqlite" ? "hex(randomblob(16))" : "md5(random()::text || n)";
      const numbers =
        back === "sqlite"
          ? `with recursive s(n) as (select 1 union all select n + 1 from s where n < ${KEYS}) select n from s`
          : `select n from generate_series(1, ${KEYS}) as s(n)`;
      const columns = "workspace_id, project_id, tenant_id, env, display_prefix, created_at, policy_version";
      await r.sql(
        `insert into api_keys (id, lookup_hash, ${columns}) select ${values}, ${values}, ${columns} from (${numbers}) as s cross join (select * from api_keys where id = '${id}') as k`,
      );
      const gone = await w.call("sk_owner", `DELETE /v1/tenants/${w.tenant_id}`);
      expect(gone).toMatchObject({ status: 200, body: { revoked_keys: KEYS + 1 } });
      const [left] = await r.sql(
        `select count(*) as n from api_keys where tenant_id = '${w.tenant_id}' and revoked_at is null`,
      );
      expect(Number(left?.n)).toBe(0);
    });
  });
}
