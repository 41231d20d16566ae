// The group commit: one durable commit for many mutations, and none of them feels another's failure.
import { describe, expect, it, vi } from "vitest";
import { verifyChain } from "../../../src/domain/audit/audit.ts";
import type { Ctx } from "../../../src/domain/core/context.ts";
import type { SecretKeyActor } from "../../../src/domain/core/actor.ts";
import { createKey, editKey, revokeKey } from "../../../src/domain/keys/keys.ts";
import { mutate, unchanged } from "../../../src/domain/core/mutate.ts";
import { record } from "../../../src/domain/core/record.ts";
import { createProject, editProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant, editTenant } from "../../../src/domain/workspaces/tenants.ts";
import { fail, Failure } from "../../../src/kernel/errors.ts";
import { insertTenant } from "../../../src/store/queries/tenants.ts";
import type { TenantRow } from "../../../src/store/schema/tables.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";

const TABLES = ["workspaces", "projects", "tenants", "api_keys", "secret_keys", "policy_versions", "audit_log"];

/** Everything a mutation could leave behind. */
async function contents(lite: TestServices) {
  const entries = TABLES.map(async (table) => [table, (await lite.sql(`select * from ${table}`)).length] as const);
  const heads = await lite.sql("select * from audit_heads order by workspace_id");
  const versions = await lite.sql("select id, policy_version, min_delta_version from projects order by id");
  return { ...Object.fromEntries(await Promise.all(entries)), heads, versions };
}

async function shop(lite: TestServices) {
  const ctx = await vendorOf(lite.services);
  const project = await createProject(ctx, { name: "Api", slug: "api" });
  const tenant = await createTenant(ctx, { external_id: "first" });
  const want = { project_id: project.id, tenant_id: tenant.id, env: "live" as const };
  return { ctx, project, tenant, want };
}

function tenantRow(ctx: Ctx<SecretKeyActor>, external_id: string): TenantRow {
  const { workspace_id } = ctx.actor;
  const times = { created_at: 1, updated_at: 1, deleted_at: null };
  return { id: ctx.services.newId(), workspace_id, external_id, name: null, meta: "{}", embed_epoch: 1, ...times };
}

/** A mutation that writes a tenant and then does what the test wants. */
function writeThen(ctx: Ctx<SecretKeyActor>, external_id: string, batch: boolean, then: () => unknown) {
  return mutate(ctx, { workspace_id: ctx.actor.workspace_id, batch }, async (tx) => {
    const row = tenantRow(ctx, external_id);
    await insertTenant.run(tx, row);
    if (then() === "unchanged") return unchanged(row.id);
    return { value: row.id, events: [{ action: "tenant.created", target_id: row.id, payload: {} }] };
  });
}

async function versionsOf(lite: TestServices, project_id: string): Promise<unknown[]> {
  const rows = await lite.sql("select version from policy_versions where project_id = $1 order by version", [
    project_id,
  ]);
  return rows.map(({ version }) => version);
}

for (const back of backends) {
  describe(`the group commit on ${back}`, () => {
    it("puts mutations that arrive together into one commit", async () => {
      await using lite = await testServices(back);
      const { ctx } = await shop(lite);
      await lite.services.store.checkpointIfIdle(); // the writer is idle: the first must not go alone
      const before = lite.services.store.stats.commits;
      await Promise.all(Array.from({ length: 50 }, (_, i) => createTenant(ctx, { external_id: `t${i}` })));
      expect(lite.services.store.stats.commits - before).toBe(1);
      expect(lite.services.store.stats.largest).toBe(50);
    });

    it("does not let a lone mutation wait for company", async () => {
      await using lite = await testServices(back);
      const { ctx } = await shop(lite);
      vi.useFakeTimers({ toFake: ["setTimeout", "setInterval"] });
      try {
        await createTenant(ctx, { external_id: "alone" }); // would never return if it waited for any timer
      } finally {
        vi.useRealTimers();
      }
      expect(await lite.sql("select id from tenants where external_id = 'alone'")).toHaveLength(1);
    });

    for (const batch of [false, true]) {
      const kind = batch ? "side by side" : "one after another";
      it(`rolls a failing mutation back alone, ${kind}: no row, no audit row, no version of it is left`, async () => {
        await using lite = await testServices(back);
        const { ctx, project, want } = await shop(lite);
        const boom = new Error("boom");
        const results = await Promise.allSettled([
          createTenant(ctx, { external_id: "a" }),
          createKey(ctx, want),
          writeThen(ctx, "bad", batch, () => {
            throw boom;
          }),
          mutate(ctx, { workspace_id: ctx.actor.workspace_id, batch }, async (tx) => {
            await tx.bump(project.id);
            throw fail("quota_reached");
          }),
          createKey(ctx, want),
          createTenant(ctx, { external_id: "first" }), // taken: the unique index refuses
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
        const tenants = await lite.sql("select external_id from tenants order by external_id");
        expect(tenants.map(({ external_id }) => external_id)).toEqual(["a", "b", "first"]);
        expect(await versionsOf(lite, project.id)).toEqual([2, 3]);
        const actions = await lite.sql("select action from audit_log order by seq");
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
        expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toMatchObject({
          verified: true,
          checked: 8,
        });
      });

      it(`leaves nothing of a mutation that turns out unchanged, ${kind}`, async () => {
        await using lite = await testServices(back);
        const { ctx } = await shop(lite);
        const before = await contents(lite);
        const same = () => "unchanged";
        await Promise.all([0, 1, 2].map((i) => writeThen(ctx, `u${i}`, batch, same)));
        expect(await contents(lite)).toEqual(before);
        await Promise.all([
          writeThen(ctx, "kept", batch, () => {}),
          writeThen(ctx, "x", batch, same),
          writeThen(ctx, "too", batch, () => {}),
          writeThen(ctx, "y", batch, same),
        ]);
        const names = await lite.sql("select external_id from tenants order by external_id");
        expect(names.map(({ external_id }) => external_id)).toEqual(["first", "kept", "too"]);
        expect(await verifyChain(lite.services, ctx.actor.workspace_id)).toMatchObject({
          verified: true,
          checked: 6,
        });
      });

      it(`fails a mutation alone whose audit row cannot be written down, ${kind}`, async () => {
        await using lite = await testServices(back);
        const { ctx } = await shop(lite);
        const { workspace_id } = ctx.actor;
        const unspeakable = mutate(ctx, { workspace_id, batch }, async (tx) => {
          const row = tenantRow(ctx, "unspeakable");
          await insertTenant.run(tx, row);
          return { value: 0, events: [{ action: "tenant.created", target_id: row.id, payload: { name: "\ud800" } }] };
        });
        const [good, bad, other] = await Promise.allSettled([
          createTenant(ctx, { external_id: "good" }),
          unspeakable,
          createTenant(ctx, { external_id: "other" }),
        ]);
        expect([good?.status, bad?.status, other?.status]).toEqual(["fulfilled", "rejected", "fulfilled"]);
        expect(await lite.sql("select id from tenants where external_id = 'unspeakable'")).toEqual([]);
        expect(await verifyChain(lite.services, workspace_id)).toMatchObject({ verified: true, checked: 6 });
      });

      it(`lets nothing out of a failed mutation that comes too late, ${kind}`, async () => {
        await using lite = await testServices(back);
        const { ctx } = await shop(lite);
        const { workspace_id } = ctx.actor;
        let straggler: Promise<string> = Promise.resolve("not started");
        const hasty = mutate(ctx, { workspace_id, batch }, async (tx) => {
          const failed = Promise.reject(new Error("too hasty"));
          straggler = failed
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
        await expect(hasty).rejects.toThrow("too hasty");
        await Promise.all(others);
        expect(await straggler).toMatch("accepts no more statements");
        await createTenant(ctx, { external_id: "after" });
        expect(await lite.sql("select id from tenants where external_id = 'late'")).toEqual([]);
      });
    }

    it("fails a mint alone whose gathered insert is refused, and one that finds no project", async () => {
      await using lite = await testServices(back);
      const { ctx, want } = await shop(lite);
      const gathered = (external_id: string) =>
        mutate(ctx, { workspace_id: ctx.actor.workspace_id, batch: true }, async (tx) => {
          const row = tenantRow(ctx, external_id);
          await insertTenant.insertDeferred(tx, row);
          return { value: row.id, events: [{ action: "tenant.created", target_id: row.id, payload: {} }] };
        });
      const nowhere = { ...want, project_id: ctx.services.newId() };
      const results = await Promise.allSettled([
        ...Array.from({ length: 70 }, () => createKey(ctx, want)),
        gathered("one"),
        gathered("first"), // taken
        createKey(ctx, nowhere),
        gathered("two"),
      ]);
      const refused = results.flatMap((result, i) => (result.status === "rejected" ? [i] : []));
      expect(refused).toEqual([71, 72]);
      expect(results[72]).toMatchObject({ reason: { failure: "project_not_found" } });
      expect(await lite.sql("select id from api_keys")).toHaveLength(70);
      const tenants = await lite.sql("select external_id from tenants order by external_id");
      expect(tenants.map(({ external_id }) => external_id)).toEqual(["first", "one", "two"]);
      const chain = await verifyChain(lite.services, ctx.actor.workspace_id);
      expect(chain).toMatchObject({ verified: true, checked: 4 + 72 });
      expect(await versionsOf(lite, want.project_id)).toEqual(Array.from({ length: 70 }, (_, i) => i + 2));
    });

    it("writes nothing for a refusal", async () => {
      await using lite = await testServices(back);
      const { ctx, want } = await shop(lite);
      const before = await contents(lite);
      const { commits } = lite.services.store.stats;
      const nobody = "00000000-0000-7000-8000-000000000001";
      await expect(createKey(ctx, { ...want, tenant_id: nobody })).rejects.toThrow(Failure);
      await expect(createTenant(ctx, { external_id: "first" })).rejects.toMatchObject({ failure: "external_id_taken" });
      await expect(editKey(ctx, nobody, { name: "x" })).rejects.toMatchObject({ failure: "key_not_found" });
      expect(await contents(lite)).toEqual(before);
      expect(lite.services.store.stats.commits).toBe(commits);
    });

    it("writes nothing for what is unchanged", async () => {
      await using lite = await testServices(back);
      const { ctx, project, tenant, want } = await shop(lite);
      const key = await createKey(ctx, { ...want, name: "n" });
      await revokeKey(ctx, key.id, "why");
      const before = await contents(lite);
      await editTenant(ctx, tenant.id, {});
      await editProject(ctx, project.id, { name: "Api" });
      await revokeKey(ctx, key.id, "again");
      expect(await contents(lite)).toEqual(before);
    });

    it("makes no empty head for a workspace whose first mutation fails", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const stranger = { ...ctx, actor: { ...ctx.actor, workspace_id: lite.services.newId() } };
      const results = await Promise.allSettled([
        createTenant(ctx, { external_id: "a" }),
        createTenant(stranger, { external_id: "b" }),
        createTenant(ctx, { external_id: "c" }),
      ]);
      expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      expect(await lite.sql("select workspace_id from audit_heads")).toEqual([
        { workspace_id: ctx.actor.workspace_id },
      ]);
    });

    it("gives policy versions without gaps after a bump that was rolled back", async () => {
      await using lite = await testServices(back);
      const { ctx, project, want } = await shop(lite);
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
      expect(await versionsOf(lite, project.id)).toEqual([2, 3, 4, 5]);
      const stored = await lite.sql("select policy_version, min_delta_version from projects");
      expect(stored).toEqual([{ policy_version: 5, min_delta_version: 1 }]);
      const inKeys = await lite.sql("select policy_version from api_keys order by policy_version");
      expect(inKeys.map((row) => row.policy_version)).toEqual([2, 3, 4, 5]);
    });

    it("loses and forks nothing among 200 concurrent mutations", async () => {
      await using lite = await testServices(back);
      const { ctx, project, want } = await shop(lite);
      const made = await Promise.all(
        Array.from({ length: 200 }, (_, i) =>
          i % 2 === 0 ? createKey(ctx, want) : createTenant(ctx, { external_id: `t${i}` }),
        ),
      );
      const keys = new Set((await lite.sql("select id from api_keys")).map(({ id }) => id));
      const tenants = new Set((await lite.sql("select id from tenants")).map(({ id }) => id));
      for (const { id, object } of made) expect((object === "api_key" ? keys : tenants).has(id)).toBe(true);
      expect([keys.size, tenants.size]).toEqual([100, 101]);
      expect(await versionsOf(lite, project.id)).toEqual(Array.from({ length: 100 }, (_, i) => i + 2));
      const chain = await verifyChain(lite.services, ctx.actor.workspace_id);
      expect(chain).toMatchObject({ verified: true, checked: 204, head_seq: 204 });
      expect((await lite.sql("select tenant_count from workspaces"))[0]?.tenant_count).toBe(101);
    });

    it("keeps audit times in order when the clock steps back", async () => {
      await using lite = await testServices(back);
      const { ctx } = await shop(lite);
      lite.clock.advance(5_000);
      await createTenant(ctx, { external_id: "later" });
      lite.clock.advance(-3_600_000);
      await createTenant(ctx, { external_id: "earlier" });
      const times = (await lite.sql("select occurred_at from audit_log order by seq")).map((row) => row.occurred_at);
      expect(times).toEqual(times.toSorted((a, b) => Number(a) - Number(b)));
      expect(times.at(-1)).toBe(times.at(-2));
    });

    it("answers everything it accepted before it closes, and refuses what comes after", async () => {
      await using lite = await testServices(back);
      const { ctx } = await shop(lite);
      const accepted = Promise.all(Array.from({ length: 20 }, (_, i) => createTenant(ctx, { external_id: `t${i}` })));
      const closed = lite.services.store.close();
      await expect(createTenant(ctx, { external_id: "late" })).rejects.toMatchObject({ failure: "stopping" });
      await accepted;
      await closed;
      expect(await lite.sql("select id from tenants")).toHaveLength(21);
    });

    it("counts a listener's own failure as no failure of the write", async () => {
      await using lite = await testServices(back);
      const { ctx, want } = await shop(lite);
      lite.services.store.onPolicyChange(() => {
        throw new Error("a listener of ours is broken");
      });
      await createKey(ctx, want);
      await createKey(ctx, want);
      expect(await lite.sql("select id from api_keys")).toHaveLength(2);
      expect(lite.fatal).toEqual([]);
    });

    it("commits what is recorded without a chain, and appends no audit row for it", async () => {
      await using lite = await testServices(back);
      const { ctx } = await shop(lite);
      const before = await contents(lite);
      await record(lite.services, (tx) => insertTenant.run(tx, tenantRow(ctx, "quiet")));
      expect(await contents(lite)).toEqual({ ...before, tenants: 2 });
    });
  });
}
