// Detecting damage: any changed byte, a missing or truncated file, and a manifest that points elsewhere.
import { cpSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { backupDir, chooseBackup, findBackup, writeManifest } from "../../src/backup/files.ts";
import { viewBackups } from "../../src/backup/list.ts";
import { ownDeploymentId } from "../../src/backup/owner.ts";
import { pruneBackups } from "../../src/backup/retention.ts";
import { verifyBackup } from "../../src/backup/verify.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { addTenants, copyIn, HOUR_MS } from "../../harness/instances/backups.ts";
import { testServices } from "../../harness/instances/test-services.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { seeded } from "../../harness/random.ts";

const quiet = (): void => {};

for (const backend of runBackends) {
  describe(`verifying a backup on ${backend}`, () => {
    it("detects every changed byte, in the copy and in the manifest", async () => {
      await using fixture = await testServices(backend);
      const { settings } = fixture.services;
      await addTenants(fixture);
      const { folder } = await createBackup(fixture.services);
      const random = seeded(7);
      for (let trial = 0; trial < 40; trial++) {
        const file = trial % 2 === 0 ? join(folder, "manifest.json") : copyIn(folder, backend);
        const good = readFileSync(file);
        const bad = Buffer.from(good);
        const at = random.int(0, bad.length - 1);
        bad[at] = (bad[at] ?? 0) ^ (1 << random.int(0, 7));
        writeFileSync(file, bad);
        const { ok, findings } = await verifyBackup(settings, undefined, quiet);
        expect({ ok, n: findings.length }, `byte ${at} of ${file}`).toEqual({ ok: false, n: 1 });
        writeFileSync(file, good);
      }
      expect((await verifyBackup(settings, undefined, quiet)).ok).toBe(true);
    });
  });
}

for (const backend of runBackends) {
  describe(`verifying a backup on ${backend}`, () => {
    it("lists a backup with a missing or truncated file as damaged, and prunes no good one for it", async () => {
      await using fixture = await testServices(backend);
      const { settings } = fixture.services;
      const { id: good } = await createBackup(fixture.services);
      fixture.clock.advance(HOUR_MS);
      const { id: damaged, folder } = await createBackup(fixture.services);
      const file = copyIn(folder, backend);
      truncateSync(file, 100);
      expect(viewBackups(settings)[0]).toMatchObject({ id: damaged, state: "damaged" });
      const deploymentId = await ownDeploymentId(fixture.services);
      expect(await pruneBackups(settings, { deploymentId })).toMatchObject({ kept: [good], removed: [] });
      rmSync(file);
      expect(viewBackups(settings)[0]).toMatchObject({
        id: damaged,
        state: "damaged",
        problem: `${basename(file)} is missing`,
      });
    });
  });
}

describe("the newest of several backups of one second", () => {
  it("is the one that was made last, whatever their random suffixes are", async () => {
    using at = tempDir();
    await using fixture = await testServices("sqlite");
    const { manifest, folder } = findBackup(at.dir, (await createBackup(fixture.services)).folder);
    const ids: string[] = [];
    for (const [suffix, ms] of [
      ["bbbbbb", 1],
      ["cccccc", 2],
      ["aaaaaa", 3],
    ] as const) {
      const id = `20261115T030000Z-${suffix}`;
      cpSync(folder, join(at.dir, id), { recursive: true });
      rmSync(join(at.dir, id, "manifest.json"));
      await writeManifest(join(at.dir, id), { ...manifest, id, created_at: `2026-11-15T03:00:00.00${ms}Z` });
      ids.unshift(id);
    }
    expect(viewBackups({ data_dir: at.dir, backup_dir: at.dir }).map(({ id }) => id)).toEqual(ids);
    const { dialect, deployment_id: deploymentId = null } = manifest;
    expect(chooseBackup(at.dir, undefined, { dialect, deploymentId, now: Date.UTC(2026, 10, 16) }).id).toBe(ids[0]);
  });
});

describe("a manifest", () => {
  it("that names a file outside its backup is rejected", async () => {
    await using fixture = await testServices("sqlite");
    const { id, folder } = await createBackup(fixture.services);
    const dir = backupDir(fixture.services.settings);
    const { manifest } = findBackup(dir, id);
    rmSync(join(folder, "manifest.json"));
    await writeManifest(folder, { ...manifest, file: "../../master.key" });
    expect(() => findBackup(dir, id)).toThrow("names a file outside of it");
  });
});
