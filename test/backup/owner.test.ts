// Two deployments that share a folder: each prunes, tests and by default restores only its own backups.
import { copyFileSync, existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { backupDir, findBackup, listBackups, writeManifest } from "../../src/backup/files.ts";
import { viewBackups } from "../../src/backup/list.ts";
import { deploymentIdOf, ownDeploymentId } from "../../src/backup/owner.ts";
import { testBackup } from "../../src/backup/restore-test.ts";
import { runDueBackup } from "../../src/backup/schedule.ts";
import { restoreOffline, rotateMasterKey } from "../../src/server/offline.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { HOUR_MS } from "../../harness/instances/backups.ts";
import { deployment, type Deployment } from "../../harness/instances/deployment.ts";
import { testServices } from "../../harness/instances/test-services.ts";
import { tempDir } from "../../harness/processes/cli.ts";

const quiet = (): void => {};

const restore = (d: Deployment, backup_dir: string, backup?: string) =>
  restoreOffline({
    settings: d.settings({ backup_dir }),
    log: d.log,
    backup,
    force: true,
    newMasterKey: true,
    onProgress: quiet,
  });

const deploymentOf = (dir: string, id: string): string | null | undefined => findBackup(dir, id).manifest.deployment_id;

async function idOf(d: Deployment): Promise<string> {
  const [row] = await rawSql(d.target, "select value from deployment where name = 'deployment_id'");
  return String(row?.value);
}

describe.each(runBackends)("two deployments with one backup folder on %s", (backend) => {
  it("restore their own, and another one's when it is named, under the id they had", async () => {
    using at = tempDir();
    await using ours = await deployment(backend, { backup_dir: at.dir });
    await using theirs = await deployment(backend, { backup_dir: at.dir });
    const made: string[] = [];
    for (const d of [ours, theirs]) {
      const app = await d.start();
      made.push((await createBackup(app.services)).id);
      await app.stop();
    }
    const [own, other] = made;
    const before = await idOf(ours);
    expect((await restore(ours, at.dir)).backup_id).toBe(own);
    expect(await idOf(ours)).toBe(before);
    expect((await restore(ours, at.dir, other)).backup_id).toBe(other);
    expect(await idOf(ours)).toBe(before);
    expect(listBackups(backupDir(ours.settings()))).toHaveLength(2);
  });

  it("prune and test only their own backups, and those without an id", async () => {
    using at = tempDir();
    const flags = { backup_dir: at.dir, backup_every: "24h" };
    await using ours = await testServices(backend, { flags });
    await using theirs = await testServices(backend, { flags });
    const { folder } = await createBackup(ours.services);
    const { manifest } = findBackup(at.dir, folder);
    const { deployment_id, ...unnamed } = manifest;
    expect(deployment_id).toBe(await ownDeploymentId(ours.services));
    rmSync(join(folder, "manifest.json"));
    await writeManifest(folder, unnamed); // as version 0.1 writes it
    ours.clock.advance(HOUR_MS);
    theirs.clock.advance(2 * HOUR_MS);
    await createBackup(ours.services);
    const other = await createBackup(theirs.services);
    ours.clock.advance(2 * HOUR_MS);
    await ours.sql("delete from deployment where name = 'last_backup'");
    expect(await runDueBackup(ours.services)).toBe(true);
    const left = viewBackups(ours.services.settings);
    expect(left.map((each) => each.deployment_id)).toEqual([deployment_id, other.deployment_id]);
    theirs.clock.advance(4 * HOUR_MS);
    expect((await testBackup(theirs.services, undefined)).backup_id).toBe(other.id);
    expect((await testBackup(ours.services, undefined)).backup_id).toBe(left[0]?.id);
  });

  it("have ids of their own after one restores a backup of the other, unless it takes its place", async () => {
    using at = tempDir();
    await using theirs = await deployment(backend, { backup_dir: at.dir });
    await using ours = await deployment(backend, { backup_dir: at.dir });
    await using empty = await deployment(backend, { backup_dir: at.dir });
    const app = await theirs.start();
    const { id } = await createBackup(app.services);
    await app.stop();
    if (empty.target.kind === "sqlite") rmSync(empty.target.file);
    else
      for (const verb of ["drop", "create"])
        await rawSql(empty.target, `${verb} schema public${verb === "drop" ? " cascade" : ""}`);
    for (const d of [ours, empty]) expect((await restore(d, at.dir, id)).backup_id).toBe(id);
    expect(await idOf(ours)).toMatch(/^[0-9a-f]{16}$/);
    expect([await idOf(ours), await idOf(empty)].map((each) => each === deploymentOf(at.dir, id))).toEqual([
      false,
      true,
    ]);
  });

  it("differ by the id in the database, and a command without one refuses to guess", async () => {
    using at = tempDir();
    await using ours = await testServices(backend, { flags: { backup_dir: at.dir } });
    await using theirs = await testServices(backend, { flags: { backup_dir: at.dir } });
    await createBackup(ours.services);
    const nowhere = { kind: "sqlite", file: join(at.dir, "none.db") } as const;
    expect(await deploymentIdOf(ours.target, at.dir)).toBe(await ownDeploymentId(ours.services));
    expect(await deploymentIdOf(nowhere, at.dir)).toBe(await ownDeploymentId(ours.services));
    await createBackup(theirs.services);
    await expect(deploymentIdOf(nowhere, at.dir)).rejects.toMatchObject({ exitCode: 2 });
  });
});

describe("a data dir whose database is gone, on sqlite", () => {
  it("is not set up again beside backups that its master key has made, but in a folder with those of others", async () => {
    using at = tempDir();
    await using d = await deployment("sqlite", { backup_dir: at.dir });
    const app = await d.start();
    const { id } = await createBackup(app.services);
    await app.stop();
    const database = join(d.dir, "keyrack.db");
    const refused = {
      exitCode: 2,
      message: `There is no database at ${database}, but ${at.dir} has backups that were made with this master key. Run keyrack restore ${id}; to set up a new deployment instead, move them away.`,
    };
    rmSync(database);
    await expect(d.start()).rejects.toMatchObject(refused);
    expect(existsSync(database)).toBe(false);
    writeFileSync(database, "");
    await expect(d.start()).rejects.toMatchObject(refused);
    // A staging server that starts with a copy of the key before it restores a backup of production.
    await using staging = await deployment("sqlite", { backup_dir: at.dir });
    copyFileSync(join(d.dir, "master.key"), join(staging.dir, "master.key"));
    rmSync(join(staging.dir, "keyrack.db"));
    await (await staging.start()).stop();
    const master_key_file = join(d.dir, "other.key");
    const start = () => d.start({ master_key_file });
    await (await start()).stop(); // with another key it is another deployment
    const created = d.logs.filter((line) => line.includes("a master key was created"));
    expect(created.map((line) => (JSON.parse(line) as { file: string }).file).at(-1)).toBe(master_key_file);
  });

  it("is not set up again beside backups from before the master key was rotated", async () => {
    await using d = await deployment("sqlite");
    const app = await d.start();
    const { id } = await createBackup(app.services);
    await app.stop();
    const { old_key_file } = await rotateMasterKey(d.settings(), d.log);
    const database = join(d.dir, "keyrack.db");
    rmSync(database);
    await expect(d.start()).rejects.toMatchObject({
      exitCode: 2,
      message: `There is no database at ${database}, but ${join(d.dir, "backups")} has backups that were made with the master key in ${old_key_file}. Run KEYRACK_MASTER_KEY_FILE=${old_key_file} keyrack restore ${id}; to set up a new deployment instead, move them away.`,
    });
    expect(existsSync(database)).toBe(false);
    const master_key_file = old_key_file;
    const { backup_id } = await restoreOffline({
      settings: d.settings({ master_key_file }),
      log: d.log,
      backup: id,
      force: false,
      newMasterKey: false,
      onProgress: quiet,
    });
    expect(backup_id).toBe(id);
    await (await d.start({ master_key_file })).stop();
  });
});
