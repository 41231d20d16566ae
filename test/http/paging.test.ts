// Paging past deleted rows, and what paging reveals to a test key.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../harness/databases/backends.ts";
import { plansOf } from "../../harness/databases/plans.ts";
import { expectRefusal, sharedInstance } from "../../harness/instances/test-instance.ts";
import { listKeys } from "../../src/store/queries/key-list.ts";

for (const backend of runBackends) {
  describe(`on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("a page may start after a row that was deleted meanwhile", async () => {
      const workspace = await instance.workspace();
      const first = await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "first" });
      const second = await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "second" });
      await workspace.call("sk_owner", `DELETE /v1/tenants/${second.body.id}`);
      const tenants = await workspace.call("sk_owner", `GET /v1/tenants?after=${second.body.id}`);
      expect(tenants.body.data.map(({ id }: { id: string }) => id)).toEqual([first.body.id, workspace.tenant_id]);
      const project = await workspace.call("sk_owner", "POST /v1/projects", { name: "P", slug: "ppp" });
      await workspace.call("sk_owner", `DELETE /v1/projects/${project.body.id}`);
      const projects = await workspace.call("sk_owner", `GET /v1/projects?after=${project.body.id}`);
      expect(projects.body.data.map(({ id }: { id: string }) => id)).toEqual([workspace.project_id]);
    });

    it("a later page begins in the index, however many rows are before it", async () => {
      const after = { created_at: 1, id: "i" };
      const plan = await plansOf(instance.target, (on) =>
        listKeys(on, { workspace_id: "w", include_revoked: true, limit: 1, after }),
      );
      expect(plan).toContain(backend === "sqlite" ? "(created_at,id)<(?,?)" : "ROW(created_at, id) < ROW");
    });

    it("paging after a live id reveals nothing to a test key: the refusal is that of an unknown id", async () => {
      const workspace = await instance.workspace();
      const other = await instance.workspace();
      const live = await workspace.mint();
      const test = await workspace.mint({ env: "test" });
      const never = instance.app.services.newId();
      const foreign = await other.mint({ env: "test" });
      const refused = await workspace.call("sk_test", `GET /v1/keys?after=${never}`);
      expectRefusal(refused, 400, "invalid_request", "after");
      for (const id of [live.id, foreign.id])
        expect((await workspace.call("sk_test", `GET /v1/keys?after=${id}`)).body).toEqual(refused.body);
      expect((await workspace.call("sk_test", `GET /v1/keys?after=${test.id}`)).status).toBe(200);
      const hidden = await workspace.call("sk_test", `GET /v1/secret_keys?after=${workspace.keyIds.sk_owner}`);
      expect(hidden.body).toEqual((await workspace.call("sk_test", `GET /v1/secret_keys?after=${never}`)).body);
      expect((await workspace.call("sk_owner", `GET /v1/secret_keys?after=${workspace.keyIds.sk_owner}`)).status).toBe(
        200,
      );
    });
  });
}
