// The PostgreSQL driver: server settings, the append-only audit log, and jobs that fail alone.
import { describe, expect, it, vi } from "vitest";
import { backends, freshDatabase } from "../../../harness/databases/backends.ts";
import { backendPid, insertOneTenant, tenantIds } from "../../../harness/databases/jobs.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { verifyChain } from "../../../src/domain/audit/chain-verification.ts";
import { mutate } from "../../../src/domain/core/mutate.ts";
import { record } from "../../../src/domain/core/record.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { openStore } from "../../../src/store/database.ts";
import { DEADLINE_MS } from "../../../harness/waiting.ts";
import { withPostgres } from "../../../src/store/postgres/client.ts";
import { PostgresDriver } from "../../../src/store/postgres/driver.ts";

const EVENTS = { now: () => 1, fatal: () => {} };

describe.runIf(backends.includes("postgres"))("PostgreSQL", () => {
  it("is refused when commits would not be durable", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const database = new URL(target.url).pathname.slice(1);
    await withPostgres(target.url, (client) => client.query(`alter database ${database} set synchronous_commit = off`));
    await expect(openStore(target, EVENTS)).rejects.toThrow("synchronous_commit=off");
    await dispose();
  });

  it("limits the time of every statement, lock wait and idle transaction", async () => {
    await using fixture = await testServices("postgres");
    const names = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];
    const shown = await record(fixture.services, (tx) =>
      Promise.all(names.map((name) => tx.all<Record<string, string>>({ sql: `show ${name}`, values: [] }))),
    );
    expect(shown.map(([row]) => Object.values(row ?? {})[0])).toEqual(["5s", "2s", "10s"]);
  });

  it("answers probes that arrive together with one query, and none with one that hangs", async () => {
    const driver = new PostgresDriver("postgres://localhost/never-connected", 2);
    const query = vi
      .spyOn(driver.reader, "query")
      .mockReturnValueOnce(new Promise(() => {}))
      .mockResolvedValue([{}]);
    const both = await Promise.allSettled([driver.ping(1), driver.ping(1)]);
    expect([both.map(({ status }) => status), query.mock.calls.length]).toEqual([["rejected", "rejected"], 1]);
    await Promise.all([driver.ping(DEADLINE_MS), driver.ping(DEADLINE_MS)]);
    expect(query).toHaveBeenCalledTimes(2);
  });

  it("refuses a write with 503 while the database is read-only, and writes again after that", async () => {
    await using fixture = await testServices("postgres");
    const ctx = await vendorOf(fixture.services);
    const insert = (isReadOnly: boolean) =>
      record(fixture.services, async (tx) => {
        if (isReadOnly) await tx.all({ sql: "set transaction read only", values: [] });
        await insertOneTenant(ctx, tx, "t");
      });
    await expect(insert(true)).rejects.toMatchObject({ status: 503, failure: "read_only" });
    await insert(false);
  });

  for (const [what, sql] of [
    ["an update", "update audit_log set action = 'x'"],
    ["a delete", "delete from audit_log"],
    ["a truncation", "truncate audit_log"],
  ] as const) {
    it(`rejects ${what} of the audit log`, async () => {
      await using fixture = await testServices("postgres");
      await vendorOf(fixture.services);
      const before = await fixture.sql("select * from audit_log order by seq");
      await expect(fixture.sql(sql)).rejects.toThrow(/append-only/);
      expect(await fixture.sql("select * from audit_log order by seq")).toEqual(before);
    });
  }
});

describe.runIf(backends.includes("postgres"))("a concurrent batch on PostgreSQL", () => {
  it("runs again job by job when one job fails: only that job is rejected", async () => {
    await using fixture = await testServices("postgres");
    const ctx = await vendorOf(fixture.services);
    const project = await createProject(ctx, { name: "p", slug: "p" });
    const first = await createTenant(ctx, { external_id: "taken" });
    const want = { project_id: project.id, tenant_id: first.id, env: "live" as const };
    // Bumps after a read, so that the version is read in the transaction that the unique violation has aborted.
    const readThenBump = mutate(ctx, { workspace_id: ctx.actor.workspace_id, batch: true }, async (tx) => {
      await backendPid(tx);
      const version = await tx.bump(project.id);
      return { value: version, events: [{ action: "project.updated", target_id: project.id, payload: {} }] };
    });
    const results = await Promise.allSettled([
      createTenant(ctx, { external_id: "a" }),
      createTenant(ctx, { external_id: "taken" }),
      readThenBump,
      createKey(ctx, want),
      createTenant(ctx, { external_id: "b" }),
      createKey(ctx, want),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      "fulfilled",
      "fulfilled",
      "fulfilled",
      "fulfilled",
    ]);
    expect(await tenantIds(fixture)).toEqual(["a", "b", "taken"]);
    const versions = await fixture.sql("select version from policy_versions order by version");
    expect(versions.map(({ version }) => version)).toEqual([2, 3, 4]);
    expect(await verifyChain(fixture.services, ctx.actor.workspace_id)).toMatchObject({
      verified: true,
      checked: 9,
    });
  });
});

describe.runIf(backends.includes("postgres"))("a job on PostgreSQL", () => {
  it("is rejected when it hides a failed statement, because PostgreSQL answers COMMIT with ROLLBACK", async () => {
    await using fixture = await testServices("postgres");
    const ctx = await vendorOf(fixture.services);
    const hides = record(fixture.services, async (tx) => {
      await insertOneTenant(ctx, tx, "hidden");
      await tx.run({ sql: "select 1 / 0", values: [] }).catch(() => {});
    });
    await expect(hides).rejects.toThrow(/rolled the transaction back/);
    expect(await tenantIds(fixture)).toEqual([]);
    await record(fixture.services, (tx) => insertOneTenant(ctx, tx, "next"));
    expect(await tenantIds(fixture)).toEqual(["next"]);
  });

  it("is rejected alone with 503 on a statement timeout; other jobs of the group commit", async () => {
    await using fixture = await testServices("postgres");
    const ctx = await vendorOf(fixture.services);
    const slow = record(fixture.services, async (tx) => {
      await tx.run({ sql: "set local statement_timeout = 50", values: [] });
      await tx.run({ sql: "select pg_sleep(3)", values: [] });
    });
    const other = record(fixture.services, (tx) => insertOneTenant(ctx, tx, "other"));
    await expect(slow).rejects.toMatchObject({ status: 503, code: "unavailable" });
    await other;
    expect(await tenantIds(fixture)).toEqual(["other"]);
  });
});
