// Rollbacks in the group commit: a failing or unchanged mutation leaves nothing, and no other mutation is affected.
import { afterEach, describe, expect, it, vi } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import {
  insertTenantThen,
  policyVersions,
  storedState,
  tenantIds,
  tenantRow,
  vendorWithTenant,
} from "../../../harness/databases/jobs.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { verifyChain } from "../../../src/domain/audit/chain-verification.ts";
import { mutate, unchanged } from "../../../src/domain/core/mutate.ts";
import { editKey } from "../../../src/domain/keys/edits.ts";
import { createKey, revokeKey } from "../../../src/domain/keys/keys.ts";
import { editProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant, editTenant } from "../../../src/domain/workspaces/tenants.ts";
import { fail, Failure } from "../../../src/kernel/errors.ts";
import { LoopShare, yieldToEventLoop } from "../../../src/platform/event-loop.ts";
import { PolicyVersions } from "../../../src/store/engine/policy-versions.ts";
import type { Tx } from "../../../src/store/engine/tx.ts";
import { insertTenant } from "../../../src/store/queries/tenants.ts";

afterEach(() => void vi.restoreAllMocks());

for (const backend of backends) {
  describe(`the group commit on ${backend}`, () => {
    for (const batch of [false, true]) {
      const kind = batch ? "in a batch" : "in its own savepoint";
      it(`rolls a failing mutation back alone ${kind}: no row, audit row or version remains`, async () => {
        await using fixture = await testServices(backend);
        const { ctx, project, want } = await vendorWithTenant(fixture);
        const boom = new Error("boom");
        const results = await Promise.allSettled([
          createTenant(ctx, { external_id: "a" }),
          createKey(ctx, want),
          insertTenantThen(ctx, "bad", batch, () => {
            throw boom;
          }),
          mutate(ctx, { workspace_id: ctx.actor.workspace_id, batch }, async (tx) => {
            await tx.bump(project.id);
            throw fail("quota_reached");
          }),
          createKey(ctx, want),
          createTenant(ctx, { external_id: "first" }), // rejected by the unique index
          createTenant(ctx, { external_id: "b" }),
        ]);
        expect(results.map(({ status }) => status)).toEqual([
          "fulfilled",
          "fulfilled",
          "rejected",
          "rejected",
          "fulfilled",
          "rejected",
          "fulfilled",
        ]);
        expect((results[2] as PromiseRejectedResult).reason).toBe(boom);
        expect((results[3] as PromiseRejectedResult).reason).toMatchObject({ failure: "quota_reached" });
        expect((results[5] as PromiseRejectedResult).reason).toMatchObject({ failure: "external_id_taken" });
        expect(await tenantIds(fixture)).toEqual(["a", "b", "first"]);
        expect(await policyVersions(fixture, project.id)).toEqual([2, 3]);
        const actions = await fixture.sql("select action from audit_log order by seq");
        expect(actions.map(({ action }) => String(action)).toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
          "api_key.created",
          "api_key.created",
          "project.created",
          "secret_key.created",
          "tenant.created",
          "tenant.created",
          "tenant.created",
          "workspace.created",
        ]);
        expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toMatchObject({
          verified: true,
          checked: 8,
        });
      });

      it(`rolls back a mutation that returns unchanged ${kind}`, async () => {
        await using fixture = await testServices(backend);
        const { ctx } = await vendorWithTenant(fixture);
        const before = await storedState(fixture);
        const same = () => "unchanged";
        await Promise.all([0, 1, 2].map((i) => insertTenantThen(ctx, `u${i}`, batch, same)));
        expect(await storedState(fixture)).toEqual(before);
        await Promise.all([
          insertTenantThen(ctx, "kept", batch, () => {}),
          insertTenantThen(ctx, "x", batch, same),
          insertTenantThen(ctx, "too", batch, () => {}),
          insertTenantThen(ctx, "y", batch, same),
        ]);
        expect(await tenantIds(fixture)).toEqual(["first", "kept", "too"]);
        expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toMatchObject({
          verified: true,
          checked: 6,
        });
      });

      it(`rejects a mutation alone whose audit row has no canonical form ${kind}`, async () => {
        await using fixture = await testServices(backend);
        const { ctx } = await vendorWithTenant(fixture);
        const { workspace_id } = ctx.actor;
        const lone_surrogate = mutate(ctx, { workspace_id, batch }, async (tx) => {
          const row = tenantRow(ctx, "lone_surrogate");
          await insertTenant.run(tx, row);
          return { value: 0, events: [{ action: "tenant.created", target_id: row.id, payload: { name: "\ud800" } }] };
        });
        const [good, bad, other] = await Promise.allSettled([
          createTenant(ctx, { external_id: "good" }),
          lone_surrogate,
          createTenant(ctx, { external_id: "other" }),
        ]);
        expect([good?.status, bad?.status, other?.status]).toEqual(["fulfilled", "rejected", "fulfilled"]);
        expect(await fixture.sql("select id from tenants where external_id = 'lone_surrogate'")).toEqual([]);
        expect(await verifyChain(fixture.services, workspace_id)).toMatchObject({ verified: true, checked: 6 });
      });

      it(`rejects statements that a failed mutation sends after its end ${kind}`, async () => {
        await using fixture = await testServices(backend);
        const { ctx } = await vendorWithTenant(fixture);
        const { workspace_id } = ctx.actor;
        let lateInsert: Promise<string> = Promise.resolve("not started");
        const failing = mutate(ctx, { workspace_id, batch }, async (tx) => {
          const failed = Promise.reject(new Error("failed early"));
          lateInsert = failed
            .catch(() => new Promise((resolve) => setImmediate(resolve)))
            .then(() => insertTenant.run(tx, tenantRow(ctx, "late")))
            .then(
              () => "written",
              (error: Error) => error.message,
            );
          await failed;
          return unchanged(0);
        });
        const others = Array.from({ length: 20 }, (_, i) => createTenant(ctx, { external_id: `o${i}` }));
        await expect(failing).rejects.toThrow("failed early");
        await Promise.all(others);
        expect(await lateInsert).toMatch("accepts no more statements");
        await createTenant(ctx, { external_id: "after" });
        expect(await fixture.sql("select id from tenants where external_id = 'late'")).toEqual([]);
      });
    }

    it("rejects alone a mutation whose deferred insert fails, and one whose project does not exist", async () => {
      await using fixture = await testServices(backend);
      const { ctx, want } = await vendorWithTenant(fixture);
      const deferred = (external_id: string) =>
        mutate(ctx, { workspace_id: ctx.actor.workspace_id, batch: true }, async (tx) => {
          const row = tenantRow(ctx, external_id);
          await insertTenant.insertDeferred(tx, row);
          return { value: row.id, events: [{ action: "tenant.created", target_id: row.id, payload: {} }] };
        });
      const noProject = { ...want, project_id: ctx.services.newId() };
      const results = await Promise.allSettled([
        ...Array.from({ length: 70 }, () => createKey(ctx, want)),
        deferred("one"),
        deferred("first"), // taken
        createKey(ctx, noProject),
        deferred("two"),
      ]);
      const rejected = results.flatMap((result, i) => (result.status === "rejected" ? [i] : []));
      expect(rejected).toEqual([71, 72]);
      expect(results[72]).toMatchObject({ reason: { failure: "project_not_found" } });
      expect(await fixture.sql("select id from api_keys")).toHaveLength(70);
      expect(await tenantIds(fixture)).toEqual(["first", "one", "two"]);
      const chain = await verifyChain(fixture.services, ctx.actor.workspace_id);
      expect(chain).toMatchObject({ verified: true, checked: 4 + 72 });
      expect(await policyVersions(fixture, want.project_id)).toEqual(Array.from({ length: 70 }, (_, i) => i + 2));
    });

    it("runs no statement of a failed group in the transaction of the next one", async () => {
      await using fixture = await testServices(backend);
      const { ctx, project } = await vendorWithTenant(fixture);
      const other = await vendorOf(fixture.services);
      const before = await storedState(fixture);
      const roundTrip = () => fixture.sql("select 1").then(yieldToEventLoop);
      let next: Promise<unknown> | undefined;
      const nextGroup = { isRunning: false };
      // Holds the audit rows between two pieces for as long as a rollback and the start of the next group take.
      vi.spyOn(LoopShare.prototype, "yieldIfDue").mockImplementation(async () => {
        for (let i = 0; i < 20 && !nextGroup.isRunning; i++) await roundTrip();
      });
      vi.spyOn(PolicyVersions.prototype, "write").mockRejectedValueOnce(new Error("no version"));
      const insertNext = async (tx: Tx) => {
        nextGroup.isRunning = true;
        for (let i = 0; i < 5; i++) await roundTrip();
        const row = tenantRow(other, "next");
        await insertTenant.run(tx, row);
        return { value: 0, events: [{ action: "tenant.created" as const, target_id: row.id, payload: {} }] as const };
      };
      const failing = mutate(ctx, { workspace_id: ctx.actor.workspace_id }, async (tx) => {
        next = mutate(other, { workspace_id: other.actor.workspace_id }, insertNext);
        await tx.bump(project.id);
        const event = { action: "tenant.created" as const, target_id: project.id, payload: {} };
        return { value: 0, events: [event, ...Array.from({ length: 400 }, () => event)] };
      });
      await expect(failing).rejects.toThrow("no version");
      await next;
      const { versions } = await storedState(fixture);
      expect(versions).toEqual(before.versions);
      expect(await tenantIds(fixture)).toEqual(["first", "next"]);
      expect(await fixture.sql("select seq from audit_log where target_id = $1", [project.id])).toHaveLength(1);
      for (const { actor } of [ctx, other])
        expect(await verifyChain(fixture.services, actor.workspace_id)).toMatchObject({ verified: true });
    });

    it("writes nothing for a rejected mutation", async () => {
      await using fixture = await testServices(backend);
      const { ctx, want } = await vendorWithTenant(fixture);
      const before = await storedState(fixture);
      const { commits } = fixture.services.store.stats;
      const unknown = "00000000-0000-7000-8000-000000000001";
      await expect(createKey(ctx, { ...want, tenant_id: unknown })).rejects.toThrow(Failure);
      await expect(createTenant(ctx, { external_id: "first" })).rejects.toMatchObject({ failure: "external_id_taken" });
      await expect(editKey(ctx, unknown, { name: "x" })).rejects.toMatchObject({ failure: "key_not_found" });
      expect(await storedState(fixture)).toEqual(before);
      expect(fixture.services.store.stats.commits).toBe(commits);
    });

    it("writes nothing for a mutation that changes nothing", async () => {
      await using fixture = await testServices(backend);
      const { ctx, project, tenant, want } = await vendorWithTenant(fixture);
      const key = await createKey(ctx, { ...want, name: "n" });
      await revokeKey(ctx, key.id, "why");
      const before = await storedState(fixture);
      await editTenant(ctx, tenant.id, {});
      await editProject(ctx, project.id, { name: "Api" });
      await revokeKey(ctx, key.id, "again");
      expect(await storedState(fixture)).toEqual(before);
    });

    it("creates no audit head for a workspace whose first mutation fails", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const unknown = { ...ctx, actor: { ...ctx.actor, workspace_id: fixture.services.newId() } };
      const results = await Promise.allSettled([
        createTenant(ctx, { external_id: "a" }),
        createTenant(unknown, { external_id: "b" }),
        createTenant(ctx, { external_id: "c" }),
      ]);
      expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      expect(await fixture.sql("select workspace_id from audit_heads")).toEqual([
        { workspace_id: ctx.actor.workspace_id },
      ]);
    });

    it("assigns policy versions without gaps after a bump was rolled back", async () => {
      await using fixture = await testServices(backend);
      const { ctx, project, want } = await vendorWithTenant(fixture);
      const { workspace_id } = ctx.actor;
      const bumpAndFail = (batch: boolean) =>
        mutate(ctx, { workspace_id, batch }, async (tx) => {
          await tx.bump(project.id, { forgetDeltas: true });
          await tx.bump(project.id);
          throw new Error("no");
        });
      const results = await Promise.allSettled([
        createKey(ctx, want),
        createKey(ctx, want),
        bumpAndFail(true),
        createKey(ctx, want),
        bumpAndFail(false),
        createKey(ctx, want),
      ]);
      const keys = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
      expect(keys).toHaveLength(4);
      expect(await policyVersions(fixture, project.id)).toEqual([2, 3, 4, 5]);
      const stored = await fixture.sql("select policy_version, min_delta_version from projects");
      expect(stored).toEqual([{ policy_version: 5, min_delta_version: 1 }]);
      const inKeys = await fixture.sql("select policy_version from api_keys order by policy_version");
      expect(inKeys.map((row) => row.policy_version)).toEqual([2, 3, 4, 5]);
    });
  });
}
