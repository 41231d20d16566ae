// Payloads of the audit log that a test key may not read: those that count keys of the live environment.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testInstance, type Json } from "../../../harness/instances/test-instance.ts";

for (const backend of runBackends) {
  describe(`a test key on ${backend}`, () => {
    it("reads that a tenant or project was suspended, resumed or deleted, but not how many keys that met", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      await workspace.mint();
      await workspace.mint();
      const end = (route: string, body?: object) => workspace.call("sk_owner", route, body);
      expect((await end(`POST /v1/tenants/${workspace.tenant_id}/suspend`, { reason: "unpaid" })).status).toBe(200);
      expect((await end(`POST /v1/tenants/${workspace.tenant_id}/resume`, {})).status).toBe(200);
      expect((await end(`DELETE /v1/tenants/${workspace.tenant_id}`)).status).toBe(200);
      expect((await end(`DELETE /v1/projects/${workspace.project_id}`)).status).toBe(200);
      const payloads = async (as: "sk_owner" | "sk_test", query: string) => {
        const { body } = await workspace.call(as, `GET /v1/audit_logs?limit=200${query}`);
        const rows = (body.data as Json[]).filter(({ action }) => /resumed|suspended|deleted/.test(String(action)));
        return rows.map(({ action, payload }) => [action, payload]);
      };
      expect(await payloads("sk_owner", "")).toEqual([
        ["tenant.suspended", { reason: "unpaid", keys: 2 }],
        ["tenant.resumed", { keys: 2 }],
        ["tenant.deleted", { revoked_keys: 2 }],
        ["project.deleted", { revoked_keys: 0 }],
      ]);
      const withheld = ["tenant.suspended", "tenant.resumed", "tenant.deleted", "project.deleted"].map((action) => [
        action,
        {},
      ]);
      expect(await payloads("sk_test", "")).toEqual(withheld);
      expect(await payloads("sk_test", "&action=tenant.*")).toEqual(withheld.slice(0, 3));
      const { text } = await workspace.call("sk_test", "GET /v1/audit_logs/export");
      expect(text).toContain("tenant.suspended");
      expect(text).not.toMatch(/unpaid|"keys"|revoked_keys/);
    });
  });
}
