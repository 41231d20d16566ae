// What surrounds a migration at start: a backup as the way back, permission, and a refusal that names the way back.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { backUpBeforeMigration } from "../../src/backup/before-migration.ts";
import { listBackups } from "../../src/backup/files.ts";
import { verifyBackup } from "../../src/backup/verify.ts";
import { DAY_MS } from "../../src/kernel/durations.ts";
import { jobs } from "../../src/server/jobs.ts";
import { loadMigrations, migrate, schemaVersion } from "../../src/store/schema/migrate.ts";
import { SqliteDriver } from "../../src/store/sqlite/driver.ts";
import { checksumRows, type TableChecksums } from "../../src/store/offline/copy.ts";
import { openCopySource } from "../../src/store/offline/copy-source.ts";
import { openStore } from "../../src/store/database.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { freshDatabase, readyDatabase, runBackends } from "../../harness/databases/backends.ts";
import { dropAppendOnly, rawSql } from "../../harness/databases/raw-sql.ts";
import { openSchemaFixture, type SchemaFixture } from "../../harness/databases/schema-fixture.ts";
import { keyrack, refusedServe, tempDir } from "../../harness/processes/cli.ts";
import { startLocalInstance, type LocalInstance } from "../../harness/instances/local-instance.ts";
import type { Flags } from "../../harness/instances/services.ts";

const versions = loadMigrations("sqlite").map(({ version }) => version);
const newest = schemaVersion();
const older = versions.at(-2) ?? 0;

const start = (old: Pick<SchemaFixture, "target" | "dir">, flags: Flags = {}): Promise<LocalInstance> =>
  startLocalInstance({ target: old.target, dir: old.dir, flags });

const backupsIn = (dir: string): string[] =>
  existsSync(join(dir, "backups")) ? readdirSync(join(dir, "backups")) : [];

async function contentOf(target: DatabaseTarget): Promise<TableChecksums> {
  const source = await openCopySource(target);
  try {
    return await checksumRows(source, () => {});
  } finally {
    await source.close();
  }
}

const schemaOf = async (target: DatabaseTarget): Promise<number> =>
  Number((await rawSql(target, "select max(version) as version from schema_migrations"))[0]?.version);

/** Starting is refused with this exit code, and neither the database nor the backups have changed. */
async function expectRefused(old: SchemaFixture, flags: Flags, exitCode: number, message: RegExp): Promise<void> {
  const [content, backups] = [await contentOf(old.target), backupsIn(old.dir)];
  const refused = await start(old, flags).then(
    () => null,
    (error: Error & { exitCode?: number }) => error,
  );
  expect(refused?.message).toMatch(message);
  expect(refused?.exitCode).toBe(exitCode);
  expect(await contentOf(old.target)).toEqual(content);
  expect(backupsIn(old.dir)).toEqual(backups);
}

for (const backend of runBackends) {
  describe(`a migration on ${backend}`, () => {
    it("is refused with KEYRACK_MIGRATE=refuse, which names the command that does it", async () => {
      await using old = await openSchemaFixture(backend, older);
      const message = new RegExp(`has schema ${older}, .* needs ${newest}, .*keyrack db migrate`);
      await expectRefused(old, { migrate: "refuse" }, 2, message);
      await (await start(old)).app.stop();
      await (await start(old, { migrate: "refuse" })).app.stop(); // nothing is pending any more
    });

    it("is not made by an operator command, which names what does it and changes nothing", async () => {
      await using old = await openSchemaFixture(backend, older);
      const [content, backups] = [await contentOf(old.target), backupsIn(old.dir)];
      const database_url = old.target.kind === "sqlite" ? `sqlite:${old.target.file}` : old.target.url;
      const where = ["--data-dir", old.dir, "--database-url", database_url];
      for (const command of ["user list", "mail list", "signing-key list", "backup create", "master-key rotate"])
        expect(await keyrack([...command.split(" "), ...where]), command).toEqual({
          code: 2,
          stdout: "",
          stderr: `keyrack: The database has schema ${older}, and this version of Keyrack needs ${newest}. Run keyrack db migrate, or start the server.\n`,
        });
      expect(await contentOf(old.target)).toEqual(content);
      expect(await schemaOf(old.target)).toBe(older);
      expect(backupsIn(old.dir)).toEqual(backups);
      expect(readdirSync(old.dir).filter((name) => name.startsWith("master.key"))).toEqual(["master.key"]);
      expect(await keyrack(["db", "migrate", ...where])).toMatchObject({ code: 0 });
      expect(await keyrack(["user", "list", ...where])).toMatchObject({ code: 0 });
    });

    it("is not what creates an empty database: KEYRACK_MIGRATE=refuse lets it, and no backup is made", async () => {
      const { target, dispose } = await freshDatabase(backend);
      const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
      const { app } = await start({ target, dir }, { migrate: "refuse" });
      expect(app.firstStart).toBe(true);
      expect(await schemaOf(target)).toBe(newest);
      await app.stop();
      expect(backupsIn(dir)).toEqual([]);
      await dispose();
      rmSync(dir, { recursive: true, force: true });
    });

    it("is not a first start, and the next start finds nothing to do", async () => {
      await using old = await openSchemaFixture(backend, older);
      const first = await start(old);
      expect(first.app.firstStart).toBe(false);
      expect(first.app.services.store.applied).toHaveLength(1);
      await first.app.stop();
      const backups = backupsIn(old.dir);
      const second = await start(old);
      expect(second.app.services.store.applied).toEqual([]);
      await second.app.stop();
      expect(backupsIn(old.dir)).toEqual(backups);
    });
  });
}

describe.runIf(runBackends.includes("postgres"))("a missing index on PostgreSQL", () => {
  it("is built by db migrate, not by another command or with KEYRACK_MIGRATE=refuse, where a start warns", async () => {
    const { target, dispose } = await readyDatabase("postgres");
    using temp = tempDir();
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const all = loadMigrations("postgres").map(({ sql }) => sql);
    const [, name] = /^create index concurrently (\w+)/m.exec(all.toReversed().join("\n")) ?? [];
    const where = ["--data-dir", temp.dir, "--database-url", target.url];
    const found = () => rawSql(target, `select 1 as found from pg_class where relname = '${name}'`);
    await rawSql(target, `drop index ${name}`);
    expect(await keyrack(["user", "list", ...where])).toMatchObject({ code: 0 });
    const { app, logs } = await start({ target, dir: temp.dir }, { migrate: "refuse" });
    await jobs.find((job) => job.name === "missing indexes")?.run(app.services);
    await app.stop();
    expect(logs.filter((line) => line.includes(`index ${name} is missing`))).toHaveLength(1);
    expect(await found()).toEqual([]);
    expect(await keyrack(["db", "migrate", ...where])).toMatchObject({ code: 0 });
    expect(await found()).toEqual([{ found: 1 }]);
    await dispose();
  });
});

describe.runIf(runBackends.includes("postgres"))("a read-only start on PostgreSQL", () => {
  it("is refused, because it would write", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    using temp = tempDir();
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const where = ["--data-dir", temp.dir, "--database-url", target.url];
    const ran = await refusedServe(["--port", "0", "--force-read-only", ...where]);
    expect([ran.code, ran.stdout]).toEqual([2, ""]);
    expect(ran.stderr).toContain("--force-read-only is for a damaged SQLite database.");
    expect(await rawSql(target, "select 1 from pg_tables where schemaname = 'public'")).toEqual([]);
    await dispose();
  });
});

describe.runIf(runBackends.includes("postgres"))("an empty PostgreSQL database", () => {
  it("stays empty under an operator command", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    using temp = tempDir();
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const ran = await keyrack(["user", "list", "--data-dir", temp.dir, "--database-url", target.url]);
    expect(ran).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("The database is empty.") });
    expect(await rawSql(target, "select 1 from pg_tables where schemaname = 'public'")).toEqual([]);
    expect(readdirSync(temp.dir)).toEqual([]);
    await dispose();
  });
});

describe("before a migration of SQLite", () => {
  it("a verified backup of the old schema is made, named after the new one and recorded", async () => {
    await using old = await openSchemaFixture("sqlite", older);
    const before = await contentOf(old.target);
    const { app, logs } = await start(old);
    const [id = "", ...others] = backupsIn(old.dir);
    expect(others).toEqual([]);
    expect(id).toMatch(new RegExp(`^\\d{8}T\\d{6}Z-[0-9a-f]{6}-pre-${newest}$`));
    const [backup] = listBackups(join(old.dir, "backups"));
    expect(backup?.manifest).toMatchObject({ id, schema_version: older });
    expect(await verifyBackup(app.services.settings, id, () => {})).toMatchObject({ ok: true, findings: [] });
    expect(await contentOf({ kind: "sqlite", file: join(old.dir, "backups", id, "keyrack.db") })).toEqual(before);
    expect(logs.some((line) => line.includes(id))).toBe(true);
    const [row] = await rawSql(
      old.target,
      "select action, payload from audit_log where workspace_id like '00000000-%' order by seq desc limit 1",
    );
    expect(row).toMatchObject({ action: "backup.created" });
    expect(JSON.parse(String(row?.payload))).toMatchObject({ backup_id: id });
    await app.stop();
  });

  it("a start that fails again and again keeps one backup of the same data, and every backup of other data", async () => {
    await using first = await openSchemaFixture("sqlite", older - 1);
    await using second = await openSchemaFixture("sqlite", older);
    const settings = { data_dir: first.dir, backup_dir: "", disk_reserve_mb: 0, backup_every: DAY_MS };
    const backUp = async ({ target }: SchemaFixture): Promise<string> => {
      if (target.kind !== "sqlite") throw new Error("this is about SQLite");
      return (await backUpBeforeMigration(settings, { file: target.file, to: newest, now: Date.now() })).id;
    };
    await backUp(first);
    const kept = [await backUp(first)];
    await backUp(second);
    kept.push(await backUp(second));
    // As after a way back and some days of work: the same schema, but other data.
    await rawSql(second.target, "update workspaces set name = 'Renamed'");
    kept.push(await backUp(second));
    expect(backupsIn(first.dir).toSorted()).toEqual(kept.toSorted());
  });

  it("backups past retention make room for it, where the schedule prunes", async () => {
    await using old = await openSchemaFixture("sqlite", older);
    const { target, dir } = old;
    if (target.kind !== "sqlite") throw new Error("this is about SQLite");
    const settings = { data_dir: dir, backup_dir: "", disk_reserve_mb: 0 };
    const noon = Date.UTC(2026, 5, 1, 12);
    const backUp = async (now: number, backup_every: number | null): Promise<string> => {
      await rawSql(target, `update workspaces set name = 'At ${now}'`);
      return (await backUpBeforeMigration({ ...settings, backup_every }, { file: target.file, to: newest, now })).id;
    };
    const made = [await backUp(noon, null), await backUp(noon + 1_000, null), await backUp(noon + 40 * DAY_MS, null)];
    expect(backupsIn(dir).toSorted()).toEqual(made);
    made.push(await backUp(noon + 41 * DAY_MS, DAY_MS));
    expect(backupsIn(dir).toSorted()).toEqual(made.slice(1));
  });

  it("what a killed start left of its backup is removed, and of a scheduled backup is not", async () => {
    await using old = await openSchemaFixture("sqlite", older);
    const scheduled = ".20260101T000000Z-aaaaaa";
    for (const name of [scheduled, `${scheduled}-pre-${newest}`])
      mkdirSync(join(old.dir, "backups", name), { recursive: true });
    await (await start(old)).app.stop();
    const [left, id, ...others] = backupsIn(old.dir).toSorted();
    expect([left, others]).toEqual([scheduled, []]);
    expect(id).toMatch(/^\d.*-pre-\d+$/);
  });

  it("nothing is changed if the backup cannot be written", async () => {
    await using old = await openSchemaFixture("sqlite", older);
    const file = join(old.dir, "not-a-folder");
    writeFileSync(file, "");
    await expectRefused(old, { backup_dir: file }, 1, /not migrated, .*cannot be written.* Nothing was changed/);
    expect(await schemaOf(old.target)).toBe(older);
  });

  it("nothing is changed if the database is not sound", async () => {
    await using old = await openSchemaFixture("sqlite", older);
    await dropAppendOnly(old.target);
    await rawSql(old.target, "update audit_log set payload = '{}' where seq = 3");
    await expectRefused(old, {}, 1, /not migrated, .*not sound.*audit chain/);
    expect(await schemaOf(old.target)).toBe(older);
  });

  it("none is made with KEYRACK_BACKUP_BEFORE_MIGRATE=off", async () => {
    await using old = await openSchemaFixture("sqlite", older);
    const { app } = await start(old, { backup_before_migrate: "off" });
    expect(await schemaOf(old.target)).toBe(newest);
    await app.stop();
    expect(backupsIn(old.dir)).toEqual([]);
  });

  it("none is made of a database without a workspace", async () => {
    const { target, dispose } = await freshDatabase("sqlite");
    if (target.kind !== "sqlite") throw new Error("not SQLite");
    const driver = new SqliteDriver(target.file);
    await migrate(driver, { now: 1, known: loadMigrations("sqlite").slice(0, older) });
    await driver.close();
    const dir = dirname(target.file);
    const { app } = await start({ target, dir });
    expect(app.services.store.applied).toHaveLength(1);
    await app.stop();
    expect(backupsIn(dir)).toEqual([]);
    await dispose();
  });
});

describe.runIf(runBackends.includes("postgres"))("before a migration of PostgreSQL", () => {
  it("no backup is made, and the log says that the operator's own counts", async () => {
    await using old = await openSchemaFixture("postgres", older);
    const { app, logs } = await start(old);
    expect(await schemaOf(old.target)).toBe(newest);
    await app.stop();
    expect(backupsIn(old.dir)).toEqual([]);
    expect(logs.filter((line) => line.includes("your own backup"))).toHaveLength(1);
  });
});

describe("a database of a newer schema", () => {
  const migrateFurther = (target: DatabaseTarget): Promise<unknown> =>
    rawSql(target, "insert into schema_migrations values (9001, '9001_later', 'x', 1)");

  it("is refused with the command that restores the backup from before the upgrade", async () => {
    await using old = await openSchemaFixture("sqlite", older);
    await (await start(old)).app.stop();
    const [id = ""] = backupsIn(old.dir);
    await migrateFurther(old.target);
    await expectRefused(old, {}, 2, new RegExp(`schema 9001 .*newer than .*keyrack restore ${id} --force`));
  });

  it("is refused without naming a backup where none fits", async () => {
    await using old = await openSchemaFixture("sqlite", newest);
    await migrateFurther(old.target);
    await expectRefused(old, {}, 2, /newer than this version .*restore a backup made before the upgrade/);
    await expect(openStore(old.target, { now: Date.now, fatal: () => {} })).rejects.toThrow(/newer than/);
  });
});
