// Copies of checkpoints in the data dir and in the log.
import { existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createCheckpoint, latestCheckpoint } from "../../../src/domain/audit/checkpoints.ts";
import type { Services } from "../../../src/domain/core/context.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedServices, testServices, vendorOf } from "../../../harness/instances/test-services.ts";

function fileOf(services: Services, workspace_id: string): string {
  return join(services.settings.data_dir, "checkpoints", `${workspace_id}.txt`);
}

for (const backend of runBackends) {
  describe(`copies of checkpoints on ${backend}`, () => {
    const shared = sharedServices(backend);

    it("are appended to a private file per chain", async () => {
      const fixture = shared();
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      const first = await latestCheckpoint(fixture.services, workspace_id);
      await createTenant(ctx, { external_id: "t" });
      const second = await latestCheckpoint(fixture.services, workspace_id);
      await createCheckpoint(fixture.services, workspace_id); // unchanged: no second copy
      const file = fileOf(fixture.services, workspace_id);
      expect(readFileSync(file, "utf8")).toBe(`${first.note}\n${second.note}\n`);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(statSync(join(fixture.services.settings.data_dir, "checkpoints")).mode & 0o777).toBe(0o700);
    });

    it("are skipped without a data dir, and a failed copy does not fail the checkpoint", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      rmSync(fixture.services.settings.data_dir, { recursive: true });
      await latestCheckpoint(fixture.services, workspace_id);
      expect(existsSync(fixture.services.settings.data_dir)).toBe(false);
      const settings = { ...fixture.services.settings, data_dir: "/dev/null" };
      await createTenant(ctx, { external_id: "t" });
      expect(await createCheckpoint({ ...fixture.services, settings }, workspace_id)).toMatchObject({ size: 3 });
      expect(fixture.logged.map(({ level, event }) => `${level} ${event}`)).toContain("warn audit_checkpoint_file");
    });

    it("are logged with the signed note and nothing but the chain and its head", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      const { note } = await latestCheckpoint(fixture.services, workspace_id);
      const [head] = await fixture.sql("select seq, hash from audit_heads");
      expect(fixture.logged).toEqual([
        {
          level: "info",
          event: "audit_checkpoint",
          fields: { workspace_id, head_seq: head?.seq, head_hash: head?.hash, note },
        },
      ]);
    });
  });
}
