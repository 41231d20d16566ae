// How the push looks for hours that have changed: fairly, and without holding up other work.
import { describe, expect, it, vi } from "vitest";
import { PartMaker } from "../../../src/domain/metering/parts.ts";
import { changedHourAfter } from "../../../src/store/queries/metering.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectNoScan } from "../../../harness/databases/plans.ts";
import { sharedInstance } from "../../../harness/instances/test-instance.ts";

for (const backend of runBackends) {
  describe(`parts of the push on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("takes workspaces in turn, however many hours one of them has", async () => {
      const [workspace, other] = [await instance.workspace(), await instance.workspace()];
      const hours = [1, 2, 3].map((hour) => `(${hour}, '${workspace.id}', 1, 0)`);
      const rows = [...hours, `(9, '${other.id}', 1, 0)`].join();
      await instance.sql(`insert into usage_hours (hour, workspace_id, changes, changed_at) values ${rows}`);
      const { read } = instance.app.services.store;
      const looked: unknown[] = [];
      const spy = vi.spyOn(read, "all").mockImplementation((query) => {
        if (query.sql.includes("usage_groups")) looked.push(query.values[0]);
        return Object.getPrototypeOf(read).all.call(read, query);
      });
      await new PartMaker(instance.app.services).makeParts();
      spy.mockRestore();
      expect(new Set(looked.slice(0, 2))).toEqual(new Set([workspace.id, other.id]));
      expect(looked).toHaveLength(4);
    });

    it.runIf(backend === "sqlite")("lets other work run while it looks through tenants without requests", async () => {
      const workspace = await instance.workspace();
      const group = (n: number): string => `(${1_000_000 + n}, '${workspace.id}', 'tenant', 'p', 'live', 't${n}', '')`;
      const groups = Array.from({ length: 1_000 }, (_, n) => group(n)).join();
      await instance.sql(
        `insert into usage_groups (id, workspace_id, kind, project_id, env, tenant, name) values ${groups}`,
      );
      await instance.sql(
        `insert into usage_hours (hour, workspace_id, changes, changed_at) values (0, '${workspace.id}', 1, 0)`,
      );
      const { read } = instance.app.services.store;
      let [reads, most] = [0, 0];
      const spy = vi.spyOn(read, "all").mockImplementation((query) => {
        if (reads++ === 0) setImmediate(() => void (reads = 0));
        most = Math.max(most, reads);
        return Object.getPrototypeOf(read).all.call(read, query);
      });
      expect(await new PartMaker(instance.app.services).makeParts()).toBe(0);
      spy.mockRestore();
      expect(most).toBeLessThan(10);
    });

    it("finds the next hour through an index", async () => {
      await expectNoScan(instance.target, (on) =>
        changedHourAfter.all(on, { workspace_id: "w", before: 9, changedBefore: 9 }),
      );
    });
  });
}
