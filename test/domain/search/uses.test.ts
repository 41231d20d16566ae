// The index of last uses, when two processes take turns in receiving a key's telemetry.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";
import { ingest } from "../../../src/domain/ingest/ingest.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends)
  describe(`the index of last uses on ${backend}`, () => {
    it("has one row of a key, whichever process indexed its last use", async () => {
      await using one = await testServices(backend);
      // SQLite has one process.
      await using two = backend === "postgres" ? await one.another() : null;
      const ctx = await vendorOf(one.services);
      const { id: project_id } = await createProject(ctx, { name: "API", slug: "api" });
      const { id: tenant_id } = await createTenant(ctx, { external_id: "t" });
      const { id: key_id } = await createKey(ctx, { project_id, tenant_id, env: "live" });
      const use = async ({ services }: TestServices, request_id: string): Promise<void> => {
        const ts = new Date(one.clock.now()).toISOString();
        const event = telemetryEvent({ ts, project_id, tenant_id, key_id, request_id });
        const bytes = Buffer.from(JSON.stringify(telemetryBatch([event])));
        const { receipt } = await ingest({ ...ctx, services }, async () => ({ bytes }));
        expect(receipt.accepted).toBe(1);
      };
      for (let day = 0; day < 6; day++) {
        one.clock.advance(DAY_MS);
        for (const [i, process] of (day % 2 === 0 ? [one, two] : [two, one]).entries())
          if (process) await use(process, `${day}-${i}`);
        const rows = await one.sql("select term from search_terms where kind = 'live.used' and id = $1", [key_id]);
        expect(rows, `day ${day}`).toHaveLength(1);
      }
      // Days on which only one of them is asked, then the other.
      for (const process of [one, one, two ?? one, two ?? one, one]) {
        one.clock.advance(DAY_MS);
        await use(process, `alone-${one.clock.now()}`);
        const rows = await one.sql("select term from search_terms where kind = 'live.used' and id = $1", [key_id]);
        expect(rows).toHaveLength(1);
      }
    });
  });
