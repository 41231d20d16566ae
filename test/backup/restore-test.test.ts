// Restore tests: a backup is restored into a scratch database, and the result is stored, logged and shown by /status.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import fs, { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { backupDir, findBackup, newBackupId, writeManifest, writeTestResult } from "../../src/backup/files.ts";
import { viewBackups } from "../../src/backup/list.ts";
import { ownDeploymentId } from "../../src/backup/owner.ts";
import { removeScratch, testBackup } from "../../src/backup/restore-test.ts";
import { pruneBackups } from "../../src/backup/retention.ts";
import { readBackupLog } from "../../src/backup/schedule.ts";
import { DAY_MS } from "../../src/kernel/durations.ts";
import { formatTimestamp } from "../../src/kernel/timestamps.ts";
import { withPostgres } from "../../src/store/postgres/client.ts";
import { toolFailed, UnreadableDump } from "../../src/store/postgres/tools.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { addTenants, backupStatus, copyIn, HOUR_MS } from "../../harness/instances/backups.ts";
import { testServices } from "../../harness/instances/test-services.ts";
import { tempDir } from "../../harness/processes/cli.ts";

for (const backend of runBackends) {
  describe(`a restore test on ${backend}`, () => {
    it("passes for a good backup, fails for a damaged one, and keeps that one as evidence", async () => {
      await using fixture = await testServices(backend);
      const { settings } = fixture.services;
      await addTenants(fixture);
      const { id, folder } = await createBackup(fixture.services);
      expect(await testBackup(fixture.services, undefined)).toMatchObject({ backup_id: id, pass: true, findings: [] });
      expect(viewBackups(settings)[0]).toMatchObject({ state: "good", problem: null });
      expect(await backupStatus(fixture.services)).toMatchObject({ status: "ok", lastRestoreTestOk: true });
      const file = copyIn(folder, backend);
      const bytes = readFileSync(file);
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
      writeFileSync(file, bytes);
      expect(await testBackup(fixture.services, id)).toMatchObject({ pass: false });
      expect(viewBackups(settings)[0]).toMatchObject({ state: "failed" });
      expect(await backupStatus(fixture.services)).toMatchObject({ status: "degraded", lastRestoreTestOk: false });
      expect(fixture.logged.filter(({ level }) => level === "error").map(({ event }) => event)).toEqual([
        "restore test failed",
      ]);
      expect((await pruneBackups(settings, { deploymentId: await ownDeploymentId(fixture.services) })).removed).toEqual(
        [],
      );
      expect(readdirSync(settings.data_dir).filter((name) => name.startsWith("restore-test"))).toEqual([]);
    });

    it("refuses with exit code 1, and gives no verdict, for a backup that a newer version made", async () => {
      await using fixture = await testServices(backend);
      const { settings, store } = fixture.services;
      const newer = "insert into schema_migrations (version, name, checksum, applied_at) values (9001, 'x', 'x', 0)";
      await rawSql(store.target, newer);
      const { id } = await createBackup(fixture.services);
      await expect(testBackup(fixture.services, id)).rejects.toMatchObject({
        message: expect.stringMatching(new RegExp(`^Backup ${id} cannot be tested: .* is newer than this version`)),
        exitCode: 1,
      });
      expect(viewBackups(settings)[0]).toMatchObject({ tested_at: null, problem: null });
    });

    it("waits for the ones before it", async () => {
      await using fixture = await testServices(backend);
      await createBackup(fixture.services);
      const tests = await Promise.all([1, 2, 3].map(() => testBackup(fixture.services, undefined)));
      expect(tests.map(({ pass, findings }) => ({ pass, findings }))).toEqual(
        tests.map(() => ({ pass: true, findings: [] })),
      );
    });
  });
}

/** Runs `work` with a psql that prints this error and exits as psql does, or (null) without psql. */
async function withPsql(error: string | null, work: () => Promise<void>): Promise<void> {
  using at = tempDir();
  const { PATH } = process.env;
  const tool = execFileSync("sh", ["-c", "command -v pg_restore"], { encoding: "utf8" }).trim();
  symlinkSync(tool, join(at.dir, "pg_restore"));
  const script = `#!/bin/sh\necho '${error}' >&2\nexit 3\n`;
  if (error !== null) writeFileSync(join(at.dir, "psql"), script, { mode: 0o755 });
  process.env.PATH = at.dir;
  try {
    await work();
  } finally {
    process.env.PATH = PATH;
  }
}

describe.runIf(runBackends.includes("postgres"))("a restore test that cannot run on PostgreSQL", () => {
  it("gives no verdict when a program is missing, the disk is full or a connection ends", async () => {
    await using fixture = await testServices("postgres");
    const { settings } = fixture.services;
    await createBackup(fixture.services);
    for (const error of [
      null,
      "psql:<stdin>:9: ERROR:  53100: could not extend file",
      "psql:<stdin>:9: FATAL:  57P01: terminating connection due to administrator command",
      "psql:<stdin>:9: ERROR:  42501: permission denied for database",
      'psql:<stdin>:9: ERROR:  42704: unrecognized configuration parameter "transaction_timeout"',
      "psql:<stdin>:9: ERROR:  42601: syntax error",
      "psql:<stdin>:9: ERROR:  22023: invalid value for parameter",
      "psql: error: connection to server failed: FATAL:  sorry, too many clients already",
    ]) {
      await withPsql(error, () => expect(testBackup(fixture.services, undefined)).rejects.toThrow("psql"));
      expect(viewBackups(settings)[0]).toMatchObject({ state: "unproven", tested_at: null, problem: null });
    }
    expect((await readBackupLog(fixture.services)).lastRestoreTestAt).toBe(null);
    expect(fixture.logged.filter(({ event }) => event === "restore test failed")).toEqual([]);
  });

  it("gives no verdict when pg_restore is older than the pg_dump that wrote the backup", () => {
    const failed = (message: string) =>
      toolFailed("pg_restore", { code: 1, stderr: `pg_restore: error: ${message}\n` });
    expect(failed("unsupported version (1.16) in file header")).not.toBeInstanceOf(UnreadableDump);
    expect(failed("did not find magic string in file header")).toBeInstanceOf(UnreadableDump);
  });

  it("drops scratch databases of killed tests first, and no other database", async () => {
    await using fixture = await testServices("postgres");
    const { target } = fixture;
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    await createBackup(fixture.services);
    const end = randomBytes(6).toString("hex");
    const [killed, used, young, configured] = [
      `keyrack_restore_test_1700000000000_${end}`,
      `keyrack_restore_test_1700000000001_${end}`,
      `keyrack_restore_test_${Date.now()}_${end}`,
      `keyrack_restore_test_${end}`,
    ];
    const all = [killed, used, young, configured];
    for (const name of all) await fixture.sql(`create database ${name}`);
    const url = new URL(target.url);
    url.pathname = `/${used}`;
    try {
      const { pass } = await withPostgres(url.href, () => testBackup(fixture.services, undefined));
      expect(pass).toBe(true);
      const left = await fixture.sql(`select datname from pg_database where datname like '%${end}' order by datname`);
      expect(left.map(({ datname }) => datname)).toEqual([used, young, configured].toSorted());
    } finally {
      for (const name of all) await fixture.sql(`drop database if exists ${name}`);
    }
  });

  it("empties no configured database that has anything of others", async () => {
    await using other = await testServices("postgres");
    if (other.target.kind !== "postgres") throw new Error("not PostgreSQL");
    const url = new URL(other.target.url);
    url.pathname = `/keyrack_restore_test_${randomBytes(6).toString("hex")}`;
    await other.sql(`create database ${url.pathname.slice(1)}`);
    try {
      await using fixture = await testServices("postgres", { flags: { restore_test_database_url: url.href } });
      await createBackup(fixture.services);
      const run = (sql: string) => withPostgres(url.href, (client) => client.query(sql));
      for (const [kind, definition] of [
        ["view", "as select 1 as n"],
        ["materialized view", "as select 1 as n"],
        ["sequence", ""],
        ["table", "(n int)"],
      ]) {
        await run(`create ${kind} theirs ${definition}`);
        await expect(testBackup(fixture.services, undefined), kind).rejects.toThrow("Set it to an empty database.");
        await run(`drop ${kind} theirs`); // fails if it is gone
      }
      for (const _time of [1, 2])
        expect(await testBackup(fixture.services, undefined)).toMatchObject({ pass: true, findings: [] });
    } finally {
      await other.sql(`drop database if exists ${url.pathname.slice(1)}`);
    }
  });

  it("fails the backup when the database rejects what the dump contains", async () => {
    await using fixture = await testServices("postgres");
    await createBackup(fixture.services);
    for (const error of ["22P02: invalid input syntax for type bigint", "42P01: relation does not exist"]) {
      await withPsql(`psql:<stdin>:9: ERROR:  ${error}`, async () => {
        expect(await testBackup(fixture.services, undefined)).toMatchObject({
          pass: false,
          findings: [expect.stringContaining(error) as string],
        });
      });
      expect(viewBackups(fixture.services.settings)[0]?.state).toBe("failed");
    }
  });
});

describe("a restore test without room on the disk", () => {
  it("does not begin, and gives no verdict", async () => {
    await using fixture = await testServices("sqlite");
    const { settings } = fixture.services;
    const { id } = await createBackup(fixture.services);
    // The disk only seems to be full: without the check, a huge backup would fill it.
    const full = vi.spyOn(fs, "statfsSync").mockReturnValue({ bavail: 1, bsize: 4_096 } as fs.StatsFs);
    syncBuiltinESMExports();
    try {
      await expect(testBackup(fixture.services, id)).rejects.toThrow("There is no room for a copy of the database");
    } finally {
      full.mockRestore();
      syncBuiltinESMExports();
    }
    expect(viewBackups(settings)[0]).toMatchObject({ state: "good", tested_at: null });
    expect(readdirSync(settings.data_dir).filter((name) => name.startsWith("restore-test"))).toEqual([]);
  });
});

describe("failed backups", () => {
  it("are kept as evidence, but only the newest three", async () => {
    await using fixture = await testServices("sqlite");
    const { settings } = fixture.services;
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) {
      const { id, folder } = await createBackup(fixture.services);
      if (i > 0) await writeTestResult(folder, { at: "2026-11-15T03:00:00.000Z", pass: false, findings: ["a fault"] });
      ids.push(id);
      fixture.clock.advance(HOUR_MS);
    }
    const deploymentId = await ownDeploymentId(fixture.services);
    expect(await pruneBackups(settings, { deploymentId })).toMatchObject({ kept: [ids[0]], removed: [ids[1]] });
    expect(viewBackups(settings).map(({ id }) => id)).toEqual([ids[4], ids[3], ids[2], ids[0]]);
  });

  it("are all kept while no backup is usable, and for 30 days where a migration followed", async () => {
    using at = tempDir();
    const now = Date.UTC(2026, 10, 15);
    const test = { at: "2026-11-15T03:00:00.000Z", pass: false, findings: ["a fault"] };
    await using fixture = await testServices("sqlite");
    const { manifest, folder } = findBackup(at.dir, (await createBackup(fixture.services)).folder);
    const add = async (days: number, isFailed: boolean, before?: number): Promise<string> => {
      const id = newBackupId(now - days * DAY_MS, before);
      cpSync(folder, join(at.dir, id), { recursive: true });
      rmSync(join(at.dir, id, "manifest.json"));
      await writeManifest(join(at.dir, id), { ...manifest, id, created_at: formatTimestamp(now - days * DAY_MS) });
      if (isFailed) await writeTestResult(join(at.dir, id), test);
      return id;
    };
    const removed = async (): Promise<string[]> => {
      const options = { deploymentId: manifest.deployment_id ?? null, dryRun: true, now };
      return (await pruneBackups({ data_dir: at.dir, backup_dir: at.dir }, options)).removed;
    };
    const old = [await add(20, true), await add(29, true, 43), await add(31, true, 42)];
    for (const days of [1, 2, 3]) await add(days, true);
    expect(await removed()).toEqual([]);
    await add(0, false);
    expect(await removed()).toEqual([old[0], old[2]]);
  });
});

describe("what killed restore tests left behind", () => {
  it("is removed beside links that lead nowhere, and what is newer is not", async () => {
    using at = tempDir();
    symlinkSync(join(at.dir, "pruned"), join(at.dir, "latest"));
    symlinkSync(join(at.dir, "pruned"), join(at.dir, "restore-test-link"));
    mkdirSync(join(at.dir, "restore-test-a"));
    await removeScratch(at.dir, Date.now() - DAY_MS);
    expect(readdirSync(at.dir)).toHaveLength(3);
    await removeScratch(at.dir, Infinity);
    expect(readdirSync(at.dir)).toEqual(["latest"]);
  });
});

describe("a restore test without a scratch database", () => {
  it("fails without recording a result for the backup", async () => {
    await using fixture = await testServices("sqlite");
    const { settings } = fixture.services;
    const { id, folder } = await createBackup(fixture.services);
    const { manifest } = findBackup(backupDir(settings), id);
    rmSync(join(folder, "manifest.json"));
    await writeManifest(folder, { ...manifest, dialect: "postgres" });
    await expect(testBackup(fixture.services, id)).rejects.toThrow("cannot be tested here");
    expect(viewBackups(settings)[0]).toMatchObject({ state: "unproven", tested_at: null });
    expect((await readBackupLog(fixture.services)).lastRestoreTestAt).toBe(null);
  });
});
