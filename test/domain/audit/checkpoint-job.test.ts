// The scheduled job that signs checkpoints.
import { describe, expect, it } from "vitest";
import { runCheckpoints } from "../../../src/domain/audit/checkpoints.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { dropAppendOnly } from "../../../harness/databases/raw-sql.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";

for (const backend of runBackends) {
  describe(`the checkpoint job on ${backend}`, () => {
    it("signs every chain with new rows, and no other", async () => {
      await using fixture = await testServices(backend);
      const [one, two] = [await vendorOf(fixture.services), await vendorOf(fixture.services)];
      expect(await runCheckpoints(fixture.services)).toBe(2);
      expect(await runCheckpoints(fixture.services)).toBe(0);
      await createTenant(two, { external_id: "t" });
      expect(await runCheckpoints(fixture.services)).toBe(1);
      const rows = await fixture.sql("select workspace_id, seq from audit_checkpoints order by workspace_id, seq");
      expect(rows).toEqual([
        { workspace_id: one.actor.workspace_id, seq: 2 },
        { workspace_id: two.actor.workspace_id, seq: 2 },
        { workspace_id: two.actor.workspace_id, seq: 3 },
      ]);
    });

    it("skips chains with fewer new rows than requested", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      expect(await runCheckpoints(fixture.services, { rows: 3 })).toBe(0);
      await createTenant(ctx, { external_id: "t" });
      expect(await runCheckpoints(fixture.services, { rows: 3 })).toBe(1);
    });

    it("signs the other chains when one is broken, and logs which one", async () => {
      await using fixture = await testServices(backend);
      const [bad, good] = [await vendorOf(fixture.services), await vendorOf(fixture.services)];
      await dropAppendOnly(fixture.target);
      await fixture.sql("delete from audit_log where seq = 1 and workspace_id = $1", [bad.actor.workspace_id]);
      expect(await runCheckpoints(fixture.services)).toBe(1);
      const rows = await fixture.sql("select workspace_id from audit_checkpoints");
      expect(rows).toEqual([{ workspace_id: good.actor.workspace_id }]);
      const errors = fixture.logged.filter(({ level }) => level === "error");
      expect(errors).toMatchObject([
        { event: "audit_checkpoint_failed", fields: { workspace_id: bad.actor.workspace_id } },
      ]);
    });
  });
}
