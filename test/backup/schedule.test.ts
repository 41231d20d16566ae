// The schedule: backups and restore tests run when they are due, and a failure is reported and retried.
import { describe, expect, it } from "vitest";
import { pruneBackups } from "../../src/backup/retention.ts";
import { runDueBackup, runDueRestoreTest } from "../../src/backup/schedule.ts";
import { backends } from "../../harness/databases/backends.ts";
import { backupStatus, HOUR_MS } from "../../harness/instances/backups.ts";
import { testServices } from "../../harness/instances/test-services.ts";

for (const back of backends) {
  describe(`the backup schedule on ${back}`, () => {
    it("creates, tests and prunes backups when each is due", async () => {
      await using fixture = await testServices(back, { flags: { backup_every: "24h", restore_test_every: "7d" } });
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
      expect(pruneBackups(services.settings, { dryRun: true })).toMatchObject({ removed: [], dry_run: true });
    });

    it("reports a failed backup and retries it after an hour", async () => {
      await using fixture = await testServices(back, {
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
