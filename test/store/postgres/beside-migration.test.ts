// A running process beside the migration of a newer version: the migration neither blocks it nor breaks its statements.
import { describe, expect, it } from "vitest";
import { loadMigrations, migrate, type Migration } from "../../../src/store/schema/migrate.ts";
import { PostgresDriver } from "../../../src/store/postgres/driver.ts";
import { createKey, listKeys } from "../../../src/domain/keys/keys.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { keyById } from "../../../src/store/queries/keys.ts";
import { postgresUrl } from "../../../harness/databases/backends.ts";
import { openRaw } from "../../../harness/databases/raw-sql.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";

const COLUMNS: Migration = {
  version: 9001,
  name: "9001_columns",
  checksum: "x",
  sql: `alter table api_keys add column next_note text; alter table audit_heads add column next_note text;
        alter table projects add column next_limit bigint not null default 0`,
};

async function migrateBeside(url: string): Promise<string[]> {
  const driver = new PostgresDriver(url, 1);
  try {
    await driver.open();
    return await migrate(driver, { now: 1, known: [...loadMigrations("postgres"), COLUMNS] });
  } finally {
    await driver.close();
  }
}

describe.skipIf(!postgresUrl)("a process on PostgreSQL while a newer version migrates", () => {
  it("reads and writes on, though its prepared statements select every column of a table that has one more", async () => {
    await using fixture = await testServices("postgres");
    const { services, target } = fixture;
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const ctx = await vendorOf(services);
    const { workspace_id } = ctx.actor;
    const project = await createProject(ctx, { name: "P", slug: "ppp" });
    const tenant = await createTenant(ctx, { external_id: "t" });
    const want = { project_id: project.id, tenant_id: tenant.id, env: "live" } as const;
    // Prepares the statements on several connections.
    const { id } = await createKey(ctx, want);
    const read = (): Promise<unknown[]> =>
      Promise.all(Array.from({ length: 40 }, () => keyById.first(services.store.read, { workspace_id, id })));
    await read();

    expect(await migrateBeside(target.url)).toEqual([COLUMNS.name]);

    const rows = await read();
    expect(rows.every((row) => (row as { id: string }).id === id)).toBe(true);
    const made = await Promise.all([createKey(ctx, want), createKey(ctx, want), createKey(ctx, want)]);
    const { data } = (await listKeys(ctx, { include_revoked: false, limit: 10 })).parse();
    expect(data.map((key) => key.id).toSorted()).toEqual([id, ...made.map((key) => key.id)].toSorted());
    expect(await services.store.verify(workspace_id, [])).toMatchObject({ reason: null });
    expect(fixture.fatal).toEqual([]);
  });

  it("is not blocked while the migration waits for a table that a long transaction uses", async () => {
    await using fixture = await testServices("postgres");
    const { services, target } = fixture;
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const backup = await openRaw(target);
    await backup.all("begin");
    await backup.all("lock table api_keys in access share mode");
    const migrating = migrateBeside(target.url);
    const waiting = "select 1 from pg_locks where not granted and relation = 'api_keys'::regclass";
    await expect.poll(() => fixture.sql(waiting)).not.toEqual([]);
    const workspace_id = "00000000-0000-0000-0000-000000000000";
    // Behind a migration that waits for ever this read would fail at its statement timeout.
    expect(await keyById.first(services.store.read, { workspace_id, id: workspace_id })).toBeUndefined();
    await backup.all("commit");
    await backup.close();
    expect(await migrating).toEqual([COLUMNS.name]);
  });
});
