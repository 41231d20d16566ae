// Restore tests: a backup is restored into a scratch database, and the result is stored, logged and shown by /status.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { backupDir, findBackup, writeManifest } from "../../src/backup/files.ts";
import { viewBackups } from "../../src/backup/list.ts";
import { testBackup } from "../../src/backup/restore-test.ts";
import { pruneBackups } from "../../src/backup/retention.ts";
import { readBackupLog } from "../../src/backup/schedule.ts";
import { backends } from "../../harness/databases/backends.ts";
import { addTenants, backupStatus, copyIn } from "../../harness/instances/backups.ts";
import { testServices } from "../../harness/instances/test-services.ts";

for (const back of backends) {
  describe(`a restore test on ${back}`, () => {
    it("passes for a good backup, fails for a damaged one, and keeps that one as evidence", async () => {
      await using fixture = await testServices(back);
      const { settings } = fixture.services;
      await addTenants(fixture);
      const { id, folder } = await createBackup(fixture.services);
      expect(await testBackup(fixture.services, undefined)).toMatchObject({ backup_id: id, pass: true, findings: [] });
      expect(viewBackups(settings)[0]).toMatchObject({ state: "good", problem: null });
      expect(await backupStatus(fixture.services)).toMatchObject({ status: "ok", lastRestoreTestOk: true });
      const file = copyIn(folder, back);
      const bytes = readFileSync(file);
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
      writeFileSync(file, bytes);
      expect(await testBackup(fixture.services, id)).toMatchObject({ pass: false });
      expect(viewBackups(settings)[0]).toMatchObject({ state: "failed" });
      expect(await backupStatus(fixture.services)).toMatchObject({ status: "degraded", lastRestoreTestOk: false });
      expect(fixture.logged.filter(({ level }) => level === "error").map(({ event }) => event)).toEqual([
        "restore test failed",
      ]);
      expect(pruneBackups(settings).removed).toEqual([]);
      expect(readdirSync(settings.data_dir).filter((name) => name.startsWith("restore-test"))).toEqual([]);
    });

    it("waits for the ones before it", async () => {
      await using fixture = await testServices(back);
      await createBackup(fixture.services);
      const tests = await Promise.all([1, 2, 3].map(() => testBackup(fixture.services, undefined)));
      expect(tests.map(({ pass, findings }) => ({ pass, findings }))).toEqual(
        tests.map(() => ({ pass: true, findings: [] })),
      );
    });
  });
}

describe("a restore test without a scratch database", () => {
  it("fails without recording a result for the backup", async () => {
    await using fixture = await testServices("sqlite");
    const { settings } = fixture.services;
    const { id, folder } = await createBackup(fixture.services);
    const { manifest } = findBackup(backupDir(settings), id);
    rmSync(join(folder, "manifest.json"));
    writeManifest(folder, { ...manifest, dialect: "postgres" });
    await expect(testBackup(fixture.services, id)).rejects.toThrow("cannot be tested here");
    expect(viewBackups(settings)[0]).toMatchObject({ state: "unproven", tested_at: null });
    expect((await readBackupLog(fixture.services)).lastRestoreTestAt).toBe(null);
  });
});
