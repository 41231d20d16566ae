// The schedule: backups and restore tests run when they are due, and a failure is reported and retried.
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { describe, expect, it, vi } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { backupDir, listBackups } from "../../src/backup/files.ts";
import { ownDeploymentId } from "../../src/backup/owner.ts";
import { pruneBackups } from "../../src/backup/retention.ts";
import { readBackupLog, runDueBackup, runDueRestoreTest } from "../../src/backup/schedule.ts";
import { rotateMasterKey } from "../../src/server/offline.ts";
import type { Services } from "../../src/domain/core/context.ts";
import { DAY_MS } from "../../src/kernel/durations.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { deployment } from "../../harness/instances/deployment.ts";
import { backupStatus, copyIn, HOUR_MS } from "../../harness/instances/backups.ts";
import type { Flags } from "../../harness/instances/services.ts";
import { testServices } from "../../harness/instances/test-services.ts";
import { tempDir } from "../../harness/processes/cli.ts";

/** Flips a bit. */
function damage(file: string): void {
  const bytes = readFileSync(file);
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
  writeFileSync(file, bytes);
}

/** Runs `work` without the data dir, which holds the scratch file, and without PostgreSQL's programs. */
async function withoutScratch({ settings }: Services, work: () => Promise<void>): Promise<void> {
  const { PATH } = process.env;
  renameSync(settings.data_dir, `${settings.data_dir}.away`);
  process.env.PATH = "/nowhere";
  try {
    await work();
  } finally {
    process.env.PATH = PATH;
    renameSync(`${settings.data_dir}.away`, settings.data_dir);
  }
}

for (const backend of runBackends) {
  describe(`the backup schedule on ${backend}`, () => {
    it("creates, tests and prunes backups when each is due", async () => {
      await using fixture = await testServices(backend, { flags: { backup_every: "24h", restore_test_every: "7d" } });
      const { services } = fixture;
      expect(await runDueRestoreTest(services)).toBe(false);
      expect([await runDueBackup(services), await runDueBackup(services)]).toEqual([true, false]);
      expect([await runDueRestoreTest(services), await runDueRestoreTest(services)]).toEqual([true, false]);
      fixture.clock.advance(12 * HOUR_MS);
      expect(await runDueBackup(services)).toBe(false);
      fixture.clock.advance(12 * HOUR_MS);
      expect(await runDueBackup(services)).toBe(true);
      expect(await runDueRestoreTest(services)).toBe(false);
      fixture.clock.advance(49 * HOUR_MS);
      expect((await backupStatus(services)).status).toBe("degraded");
      expect(await runDueBackup(services)).toBe(true);
      expect((await backupStatus(services)).status).toBe("ok");
      const deploymentId = await ownDeploymentId(services);
      expect(await pruneBackups(services.settings, { deploymentId, dryRun: true })).toMatchObject({
        removed: [],
        dry_run: true,
      });
    });
  });
}

for (const backend of runBackends) {
  describe(`the backup schedule on ${backend}`, () => {
    it("tests backups that were made by hand while none are scheduled", async () => {
      await using fixture = await testServices(backend, { flags: { backup_every: "off", restore_test_every: "7d" } });
      const { services } = fixture;
      expect([await runDueBackup(services), await runDueRestoreTest(services)]).toEqual([false, false]);
      expect((await backupStatus(services)).status).toBe("disabled");
      const { folder } = await createBackup(services);
      expect(await runDueRestoreTest(services)).toBe(true);
      expect((await backupStatus(services)).status).toBe("ok");
      damage(copyIn(folder, backend));
      fixture.clock.advance(7 * DAY_MS);
      expect(await runDueRestoreTest(services)).toBe(false);
      expect(await backupStatus(services)).toMatchObject({ status: "degraded", lastRestoreTestOk: false });
    });

    it("reports nothing about backups made by hand that are stored elsewhere by now", async () => {
      using at = tempDir();
      const flags = { backup_every: "off", restore_test_every: "7d", backup_dir: at.dir };
      await using fixture = await testServices(backend, { flags });
      const { services } = fixture;
      const { folder } = await createBackup(services);
      expect(await runDueRestoreTest(services)).toBe(true);
      fixture.clock.advance(9 * DAY_MS);
      await withoutScratch(services, () =>
        expect(runDueRestoreTest(services)).rejects.toThrow(/psql is not installed|ENOENT/),
      );
      expect((await backupStatus(services)).status).toBe("degraded");
      rmSync(folder, { recursive: true });
      fixture.clock.advance(HOUR_MS);
      expect(await runDueRestoreTest(services)).toBe(false);
      expect(await backupStatus(services)).toMatchObject({ status: "ok", lastTestFailureAt: null });
    });

    it("tests a backup that failed its test once, whatever the record of the last backup says", async () => {
      await using fixture = await testServices(backend, { flags: { restore_test_every: "7d" } });
      const { services } = fixture;
      const { folder } = await createBackup(services);
      damage(copyIn(folder, backend));
      const value = JSON.stringify({ id: "20200101T000000Z-000000", at: "2020-01-01T00:00:00.000Z", bytes: 1 });
      await fixture.sql(`update deployment set value = '${value}' where name = 'last_backup'`); // by another host
      expect([await runDueRestoreTest(services), await runDueRestoreTest(services)]).toEqual([false, false]);
      expect(fixture.logged.filter(({ event }) => event === "restore test failed")).toHaveLength(1);
      fixture.clock.advance(HOUR_MS);
      await createBackup(services);
      expect(await runDueRestoreTest(services)).toBe(true);
    });

    it("retries a restore test that could not run after an hour, and reports it until then", async () => {
      using at = tempDir();
      await using fixture = await testServices(backend, { flags: { restore_test_every: "7d", backup_dir: at.dir } });
      const { services } = fixture;
      await createBackup(services);
      await withoutScratch(services, async () => {
        await expect(runDueRestoreTest(services)).rejects.toThrow(/psql is not installed|ENOENT/);
      });
      expect(await runDueRestoreTest(services)).toBe(false);
      expect(await backupStatus(services)).toMatchObject({ status: "degraded", lastRestoreTestAt: null });
      expect(fixture.logged.map(({ event }) => event)).toContain("restore test could not run");
      fixture.clock.advance(HOUR_MS);
      expect(await runDueRestoreTest(services)).toBe(true);
      expect((await backupStatus(services)).status).toBe("ok");
    });

    it("reports no test of a backup that was pruned meanwhile", async () => {
      using at = tempDir();
      await using fixture = await testServices(backend, { flags: { restore_test_every: "7d", backup_dir: at.dir } });
      const { services } = fixture;
      const { folder } = await createBackup(services);
      await withoutScratch(services, async () => {
        const tested = runDueRestoreTest(services);
        rmSync(folder, { recursive: true });
        expect(await tested).toBe(false);
      });
      expect((await readBackupLog(services)).lastTestFailureAt).toBeNull();
    });

    it("makes a backup at once after the master key was rotated", async () => {
      await using d = await deployment(backend);
      const made = async (): Promise<boolean> => {
        const app = await d.start(); // with the schedule off, so that only this test makes backups
        try {
          return await runDueBackup({ ...app.services, settings: d.settings({ backup_every: "24h" }) });
        } finally {
          await app.stop();
        }
      };
      await rotateMasterKey(d.settings(), d.log); // before the first backup
      expect([await made(), await made()]).toEqual([true, false]);
      await rotateMasterKey(d.settings(), d.log);
      expect([await made(), await made()]).toEqual([true, false]);
      const [after, before] = listBackups(backupDir(d.settings()));
      expect(after?.manifest?.master_key_fingerprint).toMatch(/^[0-9a-f]{64}$/);
      expect(after?.manifest?.master_key_fingerprint === before?.manifest?.master_key_fingerprint).toBe(false);
    });

    it("does not wait for the time of a backup from the future, and chooses another one for tests", async () => {
      await using fixture = await testServices(backend, { flags: { backup_every: "24h", restore_test_every: "7d" } });
      const { services } = fixture;
      fixture.clock.advance(365 * DAY_MS);
      await createBackup(services);
      fixture.clock.advance(-365 * DAY_MS);
      expect((await backupStatus(services)).status).toBe("degraded");
      expect([await runDueBackup(services), await runDueBackup(services)]).toEqual([true, false]);
      const { status, lastBackupId } = await backupStatus(services);
      expect(status).toBe("ok");
      expect(await runDueRestoreTest(services)).toBe(true);
      expect((await backupStatus(services)).lastRestoreTestBackupId).toBe(lastBackupId);
    });

    it("reports a failed backup and retries it after an hour", async () => {
      await using fixture = await testServices(backend, {
        flags: { backup_dir: "/etc/hostname/here", backup_every: "24h" },
      });
      await expect(runDueBackup(fixture.services)).rejects.toThrow("Backups cannot be written to /etc/hostname/here");
      expect(await backupStatus(fixture.services)).toMatchObject({ status: "degraded", lastBackupAt: null });
      expect(await runDueBackup(fixture.services)).toBe(false);
      fixture.clock.advance(HOUR_MS);
      await expect(runDueBackup(fixture.services)).rejects.toThrow("cannot be written");
    });
  });
}

describe("a scheduled backup that has no room", () => {
  /** Makes backups by hand, then lets two scheduled ones fail while they copy. Returns the backups before and after. */
  async function failTwice(flags: Flags, times: { first: number; step: number; count: number }) {
    await using fixture = await testServices("sqlite", { flags });
    const { services, clock } = fixture;
    const made: string[] = [];
    clock.advance(times.first);
    for (let i = 0; i < times.count; i++) {
      made.push((await createBackup(services)).id);
      clock.advance(times.step);
    }
    const copy = vi.spyOn(services.store, "copyTo").mockRejectedValue(new Error("no room"));
    for (let i = 0; i < 2; i++) {
      await expect(runDueBackup(services)).rejects.toThrow("no room");
      clock.advance(HOUR_MS);
    }
    expect(copy).toHaveBeenCalledTimes(2);
    return { made, left: listBackups(backupDir(services.settings)).map(({ id }) => id) };
  }

  it("has pruned what it would put past retention, and no more at the next try", async () => {
    // From a Monday on: the eighth day would be the next Monday.
    const { made, left } = await failTwice({ backup_every: "24h" }, { first: 2 * DAY_MS, step: DAY_MS, count: 7 });
    expect(left).toEqual(made.slice(1).toReversed());
  });

  it("leaves the newest backup, also one of the same day", async () => {
    const { made, left } = await failTwice({ backup_every: "1h" }, { first: 0, step: HOUR_MS, count: 3 });
    expect(left).toEqual([made[2]]);
  });
});
