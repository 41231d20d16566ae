// Query plans of searches, lists of tenants, metering and usage series: each walks an index.
import { describe, expect, it } from "vitest";
import { backends } from "../../harness/databases/backends.ts";
import { expectNoScan } from "../../harness/databases/plans.ts";
import { sharedInstance } from "../../harness/instances/test-instance.ts";
import { FIRST_GROUP } from "../../src/store/usage/export-groups.ts";
import { exportPart } from "../../src/store/usage/export.ts";
import { readSeries, type SeriesQuery } from "../../src/store/usage/series.ts";
import type { Source } from "../../src/store/offline/source.ts";
import type { Reader } from "../../src/store/engine/tx.ts";
import { countNetworks, storedNetworks } from "../../src/store/queries/key-networks.ts";
import { keyTexts, walkTexts } from "../../src/store/queries/key-search.ts";
import {
  countUnsettled,
  oldestChangedHour,
  findMeteredHours,
  liveTenantGroups,
  unsettledHours,
  oldestUnsettled,
} from "../../src/store/queries/metering.ts";
import { TO_SEND } from "../../src/store/usage/metered-hours.ts";
import {
  changedKeys,
  versionBehind,
  indexedProjects,
  nextProjects,
  tenantsFrom,
  walkTerms,
} from "../../src/store/queries/search-terms.ts";
import { tenantsByIds, walkTenants } from "../../src/store/queries/tenant-search.ts";
import { findMovedBalances, findUndoneGrants } from "../../src/store/queries/restore.ts";
import { HOUR_MS } from "../../src/kernel/durations.ts";

for (const backend of backends) {
  describe(`query plans on ${backend}`, () => {
    const instance = sharedInstance(backend);

    it("reads every list through an index", async () => {
      const walk = { workspace_id: "w", set: "idle", now: 5, until: 9, usedBefore: 3, isDeleting: true } as const;
      const place = { limit: 50, after: { at: 7, id: "i" } };
      const terms = { workspace_id: "w", kinds: ["live.word", "test.word"], from: "a", below: "b", limit: 50 };
      const after = { term: "a", newest: -1, id: "i" };
      const page = { created_at: 7, id: "i" };
      const reads: ((on: Reader) => Promise<unknown>)[] = [
        (on) => walkTerms(on, { ...terms, direction: "asc", after: null }),
        (on) => walkTerms(on, { ...terms, direction: "asc", after }),
        (on) => walkTerms(on, { ...terms, direction: "desc", after }),
        (on) => keyTexts(on, { ...walk, byTenant: false }, ["a", "b"]),
        (on) => walkTexts(on, { ...walk, ...place, set: "dated", byTenant: false }),
        (on) => walkTexts(on, { ...walk, ...place, set: "allDated", byTenant: false }),
        (on) => walkTexts(on, { ...walk, ...place, tenant_id: "t", env: "test", byTenant: true, isConfined: true }),
        (on) => changedKeys.all(on, { project_id: "p", env: "live", version: 3, last_id: "i", upTo: 9, limit: 50 }),
        (on) => versionBehind.first(on, { project_id: "p", version: 3, keys: 50 }),
        (on) => indexedProjects.all(on, { workspace_id: "w" }),
        (on) => nextProjects.all(on, { after: "a", limit: 50 }),
        (on) => tenantsFrom.all(on, { workspace_id: "w", created_at: 1, last_id: "i", limit: 50 }),
        (on) => tenantsByIds(on, "w", ["a", "b"]),
        (on) => walkTenants(on, { workspace_id: "w", order: { by: "created" }, after: page, limit: 50 }),
        (on) => walkTenants(on, { workspace_id: "w", order: { by: "suspended" }, after: page, limit: 50 }),
        (on) => walkTenants(on, { workspace_id: "w", order: { by: "plan", plan_id: "p" }, after: page, limit: 50 }),
        (on) => oldestChangedHour.all(on, { before: 9, changedBefore: 9 }),
        (on) => liveTenantGroups.all(on, { workspace_id: "w", tenant: "t", project_id: "p", limit: 50 }),
        (on) => findMeteredHours(on, 1, [1, 2]),
        (on) => unsettledHours.all(on, { ...TO_SEND, limit: 50 }),
        (on) => countUnsettled.all(on, TO_SEND),
        (on) => oldestUnsettled.all(on, TO_SEND),
        (on) => storedNetworks(on, [{ key_id: "k", day: 1, network: "n" }]),
        (on) => countNetworks(on, [{ key_id: "k", day: 1 }], { unnamed: ["a", "b"], limit: 1 }),
      ];
      for (const read of reads) await expectNoScan(instance.target, read);
      const filter = { kind: "tenant", projects: null, env: "live" } as const;
      const range = { edges: [0, HOUR_MS, 2 * HOUR_MS], grain: 2 } as const;
      const query: SeriesQuery = {
        workspace_id: "w",
        base: { ...filter, kind: "project" },
        listed: filter,
        group_by: "tenant",
        outcome: null,
        top: 10,
        latency: false,
        range: { ...range, edges: [...range.edges] },
        now: 1,
        head: {},
      };
      /** Answers as if there were groups, so that every read is made. */
      const source = (on: Reader): Source =>
        ({
          kind: instance.target.kind,
          begin: async () => {},
          commit: async () => {},
          rollback: async () => {},
          all: async (sql: string, values: (string | number)[]) => {
            await on.all({ sql: backend === "sqlite" ? sql.replaceAll(/\$\d+/g, "?") : sql, values });
            return sql.includes("from usage_groups")
              ? [{ id: 1, kind: "tenant", project_id: "p", env: "live", tenant: "t", name: "" }]
              : [];
          },
        }) as unknown as Source;
      await expectNoScan(instance.target, (on) => readSeries(source(on), query));
      const bucket = { workspace_id: "w", bucket: "hour", format: "csv", as_of: 1, after: FIRST_GROUP } as const;
      const part = { ...bucket, range: query.range, by: "key", groups: { ...filter, kind: "key" } } as const;
      const plan = await expectNoScan(instance.target, (on) => exportPart(source(on), part));
      expect(plan).not.toMatch(/TEMP B-TREE|Sort/); // a page begins in the index
      const balance = { subject_id: "t", env: "live", quota_id: "q", calendar: "none", period_start: 1, spent: 1 };
      await expectNoScan(instance.target, (on) => findMovedBalances(source(on), [balance]));
      const grant = { ...balance, id: "g", units: 1, reference: null, voided_at: null };
      await expectNoScan(instance.target, (on) => findUndoneGrants(source(on), [grant]));
    });
  });
}
