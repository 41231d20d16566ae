// Quotas of records: those of test credentials never use up the places of live.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { testInstance, type TestInstance } from "../../../harness/instances/test-instance.ts";

for (const back of backends) {
  describe(`quotas on ${back}`, () => {
    let r: TestInstance;
    beforeAll(async () => {
      r = await testInstance(back);
    });
    afterAll(() => r[Symbol.asyncDispose]());

    it("counts projects and tenants of test credentials apart from those of live", async () => {
      const w = await r.workspace();
      const create = async (as: "sk_owner" | "sk_test", noun: "projects" | "tenants"): Promise<number> => {
        const name = r.app.services.newId();
        const body = noun === "projects" ? { name, slug: `s${name}` } : { external_id: name };
        return (await w.call(as, `POST /v1/${noun}`, body)).status;
      };
      const rows = Array.from({ length: 249 + 998 }, (_, i) => {
        const id = r.app.services.newId();
        return `('${id}', '${w.id}', 'p', 's${id}', '${i < 249 ? "test" : "live"}', 1, 1)`;
      });
      const fields = "id, workspace_id, name, slug, created_env, created_at, updated_at";
      await r.sql(`insert into projects (${fields}) values ${rows.join()}`);
      expect([await create("sk_test", "projects"), await create("sk_test", "projects")]).toEqual([201, 409]);
      expect([await create("sk_owner", "projects"), await create("sk_owner", "projects")]).toEqual([201, 409]);
      expect(
        r.app.services.shares
          .of("quotas")
          .owners()
          .map(({ owner, refused }) => [owner.id, refused]),
      ).toEqual(
        expect.arrayContaining([
          [`${w.id}/live`, 1],
          [`${w.id}/test`, 1],
        ]),
      );
      await r.sql(`update workspaces set tenant_count = 999999, test_tenant_count = 249999 where id = '${w.id}'`);
      expect([await create("sk_test", "tenants"), await create("sk_test", "tenants")]).toEqual([201, 409]);
      expect([await create("sk_owner", "tenants"), await create("sk_owner", "tenants")]).toEqual([201, 409]);
    });

    it("returns the place of a tenant to the environment that created it, also when live deletes it", async () => {
      const w = await r.workspace();
      const { body } = await w.call("sk_test", "POST /v1/tenants", { external_id: "of-test" });
      const counts = async () =>
        (await r.sql(`select tenant_count, test_tenant_count from workspaces where id = '${w.id}'`))[0];
      const before = await counts();
      await w.call("sk_owner", `DELETE /v1/tenants/${body.id}`);
      expect(before).toMatchObject({ test_tenant_count: 1 });
      expect(await counts()).toEqual({ ...before, test_tenant_count: 0 });
    });
  });
}
