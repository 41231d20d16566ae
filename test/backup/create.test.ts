// Backups: whole or not there, found out when a byte is wrong, kept as retention says, tried on a schedule.
import { existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, it } from "vitest";
import { seeded } from "../../harness/random.ts";
import { backupDir, findBackup, listBackups, writeManifest } from "../../src/backup/files.ts";
import { backupStateOf, readBackupLog, runDueBackup, runDueRestoreTest } from "../../src/backup/schedule.ts";
import { createBackup } from "../../src/backup/create.ts";
import { viewBackups } from "../../src/backup/list.ts";
import { pruneBackups } from "../../src/backup/retention.ts";
import { verifyBackup } from "../../src/backup/verify.ts";
import type { Services } from "../../src/domain/core/context.ts";
import { backupHealth } from "../../src/domain/health/status.ts";
import { createTenant } from "../../src/domain/workspaces/tenants.ts";
import { testBackup } from "../../src/backup/restore-test.ts";
import { dumpPostgres, toolConnection } from "../../src/store/postgres/tools.ts";
import { backends } from "../../harness/databases/backends.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { testServices, vendorOf, type TestServices } from "../../harness/instances/test-services.ts";

const HOUR_MS = 3_600_000;
const quiet = (): void => {};
/** As /status tells it, with what it rests on. */
const backupState = async (services: Services) => ({
  status: backupHealth(services, await backupStateOf(services)),
  ...(await readBackupLog(services)),
});

async function filled(lite: TestServices): Promise<void> {
  const ctx = await vendorOf(lite.services);
  for (let i = 0; i < 5; i++) await createTenant(ctx, { external_id: `t${i}` });
}

for (const back of backends) {
  describe(`backups on ${back}`, () => {
    it("are whole, private, recorded, and say what they hold", async () => {
      await using lite = await testServices(back);
      await filled(lite);
      const steps = new Set<string>();
      const made = await createBackup(lite.services, ({ step }) => steps.add(step));
      expect(made).toMatchObject({ state: back === "sqlite" ? "good" : "unproven", dialect: back, hook: null });
      const dir = backupDir(lite.services.settings);
      expect(readdirSync(dir)).toEqual([made.id]);
      expect(statSync(dir).mode & 0o777).toBe(0o700);
      for (const name of readdirSync(made.folder))
        expect(statSync(join(made.folder, name)).mode & 0o777, name).toBe(0o600);
      const [backup] = listBackups(dir);
      expect(backup?.manifest).toMatchObject({
        id: made.id,
        schema_version: expect.any(Number) as number,
        rows: { tenants: 5, workspaces: 1, audit_log: 7 },
        master_key_fingerprint: null,
      });
      expect(backup?.manifest?.audit_heads).toHaveLength(1);
      expect(backup?.manifest?.checkpoints[0]?.note).toContain("/audit/");
      expect(readFileSync(join(made.folder, "manifest.json"), "utf8")).not.toContain("sealed");
      expect(await lite.sql("select action from audit_log where workspace_id like '00000000%'")).toEqual([
        { action: "backup.created" },
      ]);
      expect(await backupState(lite.services)).toMatchObject({
        status: "ok",
        lastBackupId: made.id,
        lastFailure: null,
      });
      expect(await verifyBackup(lite.services.settings, undefined, quiet)).toMatchObject({
        id: made.id,
        ok: true,
        findings: [],
      });
    });

    it("find every changed byte, in the copy and in the manifest", async () => {
      await using lite = await testServices(back);
      await filled(lite);
      const { folder } = await createBackup(lite.services);
      const random = seeded(7);
      const copy = back === "sqlite" ? "keyrack.db" : "keyrack.dump";
      for (let trial = 0; trial < 40; trial++) {
        const file = join(folder, trial % 2 === 0 ? "manifest.json" : copy);
        const good = readFileSync(file);
        const bad = Buffer.from(good);
        const at = random.int(0, bad.length - 1);
        bad[at] = (bad[at] ?? 0) ^ (1 << random.int(0, 7));
        writeFileSync(file, bad);
        const { ok, findings } = await verifyBackup(lite.services.settings, undefined, quiet);
        expect({ ok, n: findings.length }, `byte ${at} of ${file}`).toEqual({ ok: false, n: 1 });
        writeFileSync(file, good);
      }
      expect((await verifyBackup(lite.services.settings, undefined, quiet)).ok).toBe(true);
    });

    it("are tried by restoring them, and what fails is told and stays", async () => {
      await using lite = await testServices(back);
      await filled(lite);
      const { id, folder } = await createBackup(lite.services);
      expect(await testBackup(lite.services, undefined)).toMatchObject({ backup_id: id, pass: true, findings: [] });
      expect(viewBackups(lite.services.settings)[0]).toMatchObject({ state: "good", problem: null });
      expect(await backupState(lite.services)).toMatchObject({ status: "ok", lastRestoreTestOk: true });
      const file = join(folder, back === "sqlite" ? "keyrack.db" : "keyrack.dump");
      const bytes = readFileSync(file);
      bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
      writeFileSync(file, bytes);
      expect(await testBackup(lite.services, id)).toMatchObject({ pass: false });
      expect(viewBackups(lite.services.settings)[0]).toMatchObject({ state: "failed" });
      expect(await backupState(lite.services)).toMatchObject({ status: "degraded", lastRestoreTestOk: false });
      expect(lite.logged.filter(({ level }) => level === "error").map(({ event }) => event)).toEqual([
        "restore test failed",
      ]);
      expect(pruneBackups(lite.services.settings).removed).toEqual([]);
      expect(readdirSync(lite.services.settings.data_dir).filter((name) => name.startsWith("restore-test"))).toEqual(
        [],
      );
    });

    it("are tried one after the other, however many ask at once", async () => {
      await using lite = await testServices(back);
      await createBackup(lite.services);
      const tests = await Promise.all([1, 2, 3].map(() => testBackup(lite.services, undefined)));
      expect(tests.map(({ pass, findings }) => ({ pass, findings }))).toEqual(
        tests.map(() => ({ pass: true, findings: [] })),
      );
    });

    it("whose file is gone or cut short are never listed as good, and push no whole one out", async () => {
      await using lite = await testServices(back);
      const { id: whole } = await createBackup(lite.services);
      lite.clock.advance(HOUR_MS);
      const { id: cut, folder } = await createBackup(lite.services);
      const file = join(folder, back === "sqlite" ? "keyrack.db" : "keyrack.dump");
      truncateSync(file, 100);
      expect(viewBackups(lite.services.settings)[0]).toMatchObject({ id: cut, state: "damaged" });
      expect(pruneBackups(lite.services.settings)).toMatchObject({ kept: [whole], removed: [] });
      rmSync(file);
      expect(viewBackups(lite.services.settings)[0]).toMatchObject({
        id: cut,
        state: "damaged",
        problem: `${basename(file)} is missing`,
      });
    });

    it("are made when they are due, tried when that is due, and pruned", async () => {
      await using lite = await testServices(back, { flags: { backup_every: "24h", restore_test_every: "7d" } });
      expect(await runDueRestoreTest(lite.services)).toBe(false);
      expect([await runDueBackup(lite.services), await runDueBackup(lite.services)]).toEqual([true, false]);
      expect([await runDueRestoreTest(lite.services), await runDueRestoreTest(lite.services)]).toEqual([true, false]);
      lite.clock.advance(12 * HOUR_MS);
      expect(await runDueBackup(lite.services)).toBe(false);
      lite.clock.advance(12 * HOUR_MS);
      expect(await runDueBackup(lite.services)).toBe(true);
      expect(await runDueRestoreTest(lite.services)).toBe(false);
      lite.clock.advance(49 * HOUR_MS);
      expect((await backupState(lite.services)).status).toBe("degraded");
      expect(await runDueBackup(lite.services)).toBe(true);
      expect((await backupState(lite.services)).status).toBe("ok");
      expect(pruneBackups(lite.services.settings, { dryRun: true })).toMatchObject({ removed: [], dry_run: true });
    });

    it("leave nothing behind when they are stopped half-way", async () => {
      await using lite = await testServices(back);
      await filled(lite);
      const making = createBackup(lite.services);
      expect(createBackup(lite.services)).toBe(making);
      lite.services.shutdown.abort(new Error("the instance is stopping"));
      await expect(making).rejects.toThrow("stopping");
      const dir = backupDir(lite.services.settings);
      expect(existsSync(dir) ? readdirSync(dir) : []).toEqual([]);
      expect(await backupState(lite.services)).toMatchObject({ lastBackupAt: null, lastFailure: null });
    });

    it("are kept when their hook is under way at the end, which nobody waits for", async () => {
      const hook = "sh -c 'touch \"$1/../begun\"; sleep 600; true' x";
      await using lite = await testServices(back, { flags: { backup_hook: hook } });
      const dir = backupDir(lite.services.settings);
      const making = createBackup(lite.services);
      await expect.poll(() => existsSync(join(dir, "begun")), { timeout: 20_000 }).toBe(true);
      lite.services.shutdown.abort(new Error("the instance is stopping"));
      expect((await making).hook).toMatchObject({ ok: false, message: "it ended with SIGTERM" });
      expect(viewBackups(lite.services.settings)).toHaveLength(1);
    });

    it("that fail are told, and tried again in an hour", async () => {
      await using lite = await testServices(back, { flags: { backup_dir: "/etc/hostname/here", backup_every: "24h" } });
      await expect(runDueBackup(lite.services)).rejects.toThrow("Backups cannot be written to /etc/hostname/here");
      expect(await backupState(lite.services)).toMatchObject({ status: "degraded", lastBackupAt: null });
      expect(await runDueBackup(lite.services)).toBe(false);
      lite.clock.advance(HOUR_MS);
      await expect(runDueBackup(lite.services)).rejects.toThrow("cannot be written");
    });

    it("give their folder to the hook, without our settings, and tell when it fails", async () => {
      const env = 'test -f "$2/manifest.json" && test -z "$KEYRACK_DATABASE_URL" && env > "$2/../env"';
      process.env.KEYRACK_DATABASE_URL = "postgres://secret@nowhere/x";
      try {
        await using lite = await testServices(back, { flags: { backup_hook: `sh -c '${env}' x y` } });
        const { hook, id } = await createBackup(lite.services);
        expect(hook).toEqual({ ok: true, code: 0, message: null });
        const said = readFileSync(join(backupDir(lite.services.settings), "env"), "utf8");
        expect(said).toContain(`KEYRACK_BACKUP_ID=${id}`);
        expect(said).not.toContain("secret@nowhere");
        const failing = await lite.another(undefined, { backup_hook: "echo no room >&2; exit 3; #" });
        expect((await createBackup(failing.services)).hook).toEqual({ ok: false, code: 3, message: "no room" });
        expect(failing.logged.map(({ event }) => event)).toContain("backup hook failed");
        expect(await backupState(failing.services)).toMatchObject({
          status: "degraded",
          lastBackupAt: expect.any(String) as string,
        });
        await createBackup(lite.services);
        expect((await backupState(lite.services)).status).toBe("ok");
        await failing[Symbol.asyncDispose]();
      } finally {
        delete process.env.KEYRACK_DATABASE_URL;
      }
    });
  });
}

describe.runIf(backends.includes("postgres"))("PostgreSQL's own tools", () => {
  it("get a password where no other user of the machine reads it, wherever the address has it", () => {
    for (const url of ["postgres://u:s%20x@h/d?sslmode=require", "postgres://u@h/d?password=s+x&sslmode=require"]) {
      const { dbname, env } = toolConnection(url);
      expect([dbname, env.PGPASSWORD]).toEqual(["postgres://u@h/d?sslmode=require", "s x"]);
    }
  });

  it("make no empty dump of tables that are in another schema", async () => {
    await using lite = await testServices("postgres");
    if (lite.services.store.target.kind !== "postgres") throw new Error("not PostgreSQL");
    await lite.sql("create schema elsewhere");
    const url = new URL(lite.services.store.target.url);
    url.searchParams.set("options", "-c search_path=elsewhere");
    using at = tempDir();
    await expect(dumpPostgres(url.href, join(at.dir, "dump"), quiet)).rejects.toThrow("in the schema elsewhere");
  });
});

describe("a restore test that has no place", () => {
  it("says nothing about the backup", async () => {
    await using lite = await testServices("sqlite");
    const { id, folder } = await createBackup(lite.services);
    const { manifest } = findBackup(backupDir(lite.services.settings), id);
    rmSync(join(folder, "manifest.json"));
    writeManifest(folder, { ...manifest, dialect: "postgres" });
    await expect(testBackup(lite.services, id)).rejects.toThrow("cannot be tested here");
    expect(viewBackups(lite.services.settings)[0]).toMatchObject({ state: "unproven", tested_at: null });
    expect((await readBackupLog(lite.services)).lastRestoreTestAt).toBe(null);
  });
});

describe("a manifest", () => {
  it("that names a file outside its backup is not followed", async () => {
    await using lite = await testServices("sqlite");
    const { id, folder } = await createBackup(lite.services);
    const dir = backupDir(lite.services.settings);
    const { manifest } = findBackup(dir, id);
    rmSync(join(folder, "manifest.json"));
    writeManifest(folder, { ...manifest, file: "../../master.key" });
    expect(() => findBackup(dir, id)).toThrow("names a file outside of it");
  });
});

describe("a large SQLite database", () => {
  it("is copied page by page on the write connection, with writes going on", async () => {
    await using lite = await testServices("sqlite");
    const ctx = await vendorOf(lite.services);
    const file = join(lite.services.settings.data_dir, "copy.db");
    const writes = Array.from({ length: 50 }, (_, i) => createTenant(ctx, { external_id: `t${i}` }));
    await Promise.all([lite.services.store.copyTo(file, quiet, { largeBytes: 0 }), ...writes]);
    const { inspect } = await import("../../src/store/offline/inspect.ts");
    const { findings, contents } = await inspect({ kind: "sqlite", file });
    expect(findings).toEqual([]);
    expect(contents.rows.audit_log).toBe((contents.rows.tenants ?? 0) + 2);
    expect(existsSync(`${file}-wal`)).toBe(false);
  });
});
