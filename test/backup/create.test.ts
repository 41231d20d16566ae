// Creating backups: complete or absent, private, recorded, and handed to the operator's hook.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { backupDir, listBackups } from "../../src/backup/files.ts";
import { viewBackups } from "../../src/backup/list.ts";
import { verifyBackup } from "../../src/backup/verify.ts";
import { createTenant } from "../../src/domain/workspaces/tenants.ts";
import { inspect } from "../../src/store/offline/thread-tasks.ts";
import { dumpPostgres, toolConnection } from "../../src/store/postgres/tools.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { addTenants, backupStatus } from "../../harness/instances/backups.ts";
import { testServices, vendorOf } from "../../harness/instances/test-services.ts";
import { tempDir } from "../../harness/processes/cli.ts";

const quiet = (): void => {};
const stopping = new Error("the instance is stopping");

for (const backend of runBackends) {
  describe(`a backup on ${backend}`, () => {
    it("is complete, private, recorded, and lists its contents", async () => {
      await using fixture = await testServices(backend);
      await addTenants(fixture);
      const created = await createBackup(fixture.services);
      expect(created).toMatchObject({
        state: backend === "sqlite" ? "good" : "unproven",
        dialect: backend,
        hook: null,
      });
      const dir = backupDir(fixture.services.settings);
      expect(readdirSync(dir)).toEqual([created.id]);
      expect(statSync(dir).mode & 0o777).toBe(0o700);
      for (const name of readdirSync(created.folder))
        expect(statSync(join(created.folder, name)).mode & 0o777, name).toBe(0o600);
      const [backup] = listBackups(dir);
      expect(backup?.manifest).toMatchObject({
        id: created.id,
        schema_version: expect.any(Number) as number,
        rows: { tenants: 5, workspaces: 1, audit_log: 7 },
        master_key_fingerprint: null,
      });
      expect(backup?.manifest?.audit_heads).toHaveLength(1);
      expect(backup?.manifest?.checkpoints[0]?.note).toContain("/audit/");
      expect(readFileSync(join(created.folder, "manifest.json"), "utf8")).not.toContain("sealed");
      expect(await fixture.sql("select action from audit_log where workspace_id like '00000000%'")).toEqual([
        { action: "backup.created" },
      ]);
      expect(await backupStatus(fixture.services)).toMatchObject({
        status: "ok",
        lastBackupId: created.id,
        lastFailure: null,
      });
      expect(await verifyBackup(fixture.services.settings, undefined, quiet)).toMatchObject({
        id: created.id,
        ok: true,
        findings: [],
      });
    });

    it("is shared by callers that ask at once, and leaves nothing behind when the instance stops", async () => {
      await using fixture = await testServices(backend);
      await addTenants(fixture);
      const running = createBackup(fixture.services);
      expect(createBackup(fixture.services)).toBe(running);
      fixture.services.shutdown.abort(stopping);
      await expect(running).rejects.toThrow("stopping");
      const dir = backupDir(fixture.services.settings);
      expect(existsSync(dir) ? readdirSync(dir) : []).toEqual([]);
      expect(await backupStatus(fixture.services)).toMatchObject({ lastBackupAt: null, lastFailure: null });
    });
  });
}

for (const backend of runBackends) {
  describe(`a backup on ${backend}`, () => {
    it("is kept when the instance stops during its hook, which is ended", async () => {
      const hook = "sh -c 'touch \"$1/../begun\"; sleep 600; true' x";
      await using fixture = await testServices(backend, { flags: { backup_hook: hook } });
      const dir = backupDir(fixture.services.settings);
      const running = createBackup(fixture.services);
      await expect.poll(() => existsSync(join(dir, "begun"))).toBe(true);
      fixture.services.shutdown.abort(stopping);
      expect((await running).hook).toMatchObject({ ok: false, message: "it ended with SIGTERM" });
      expect(viewBackups(fixture.services.settings)).toHaveLength(1);
    });

    it("is handed to the hook without our settings, and a failing hook is reported", async () => {
      const script = 'test -f "$2/manifest.json" && test -z "$KEYRACK_DATABASE_URL" && env > "$2/../env"';
      process.env.KEYRACK_DATABASE_URL = "postgres://secret@nowhere/x";
      try {
        await using fixture = await testServices(backend, { flags: { backup_hook: `sh -c '${script}' x y` } });
        const { hook, id } = await createBackup(fixture.services);
        expect(hook).toEqual({ ok: true, code: 0, message: null });
        const env = readFileSync(join(backupDir(fixture.services.settings), "env"), "utf8");
        expect(env).toContain(`KEYRACK_BACKUP_ID=${id}`);
        expect(env).not.toContain("secret@nowhere");
        const failing = await fixture.another(undefined, { backup_hook: "echo no room >&2; exit 3; #" });
        expect((await createBackup(failing.services)).hook).toEqual({ ok: false, code: 3, message: "no room" });
        expect(failing.logged.map(({ event }) => event)).toContain("backup hook failed");
        expect(await backupStatus(failing.services)).toMatchObject({
          status: "degraded",
          lastBackupAt: expect.any(String) as string,
        });
        await createBackup(fixture.services);
        expect((await backupStatus(fixture.services)).status).toBe("ok");
        await failing[Symbol.asyncDispose]();
      } finally {
        delete process.env.KEYRACK_DATABASE_URL;
      }
    });
  });
}

describe.runIf(runBackends.includes("postgres"))("pg_dump", () => {
  it("gets the password through the environment, from either place in the URL", () => {
    for (const url of ["postgres://u:s%20x@h/d?sslmode=require", "postgres://u@h/d?password=s+x&sslmode=require"]) {
      const { dbname, env } = toolConnection(url);
      expect([dbname, env.PGPASSWORD]).toEqual(["postgres://u@h/d?sslmode=require", "s x"]);
    }
  });

  it("is refused where the tables are in another schema: the dump would be empty", async () => {
    await using fixture = await testServices("postgres");
    if (fixture.services.store.target.kind !== "postgres") throw new Error("not PostgreSQL");
    await fixture.sql("create schema elsewhere");
    const url = new URL(fixture.services.store.target.url);
    url.searchParams.set("options", "-c search_path=elsewhere");
    using at = tempDir();
    await expect(dumpPostgres(url.href, join(at.dir, "dump"), quiet)).rejects.toThrow("in the schema elsewhere");
  });
});

describe("a large SQLite database", () => {
  it("is copied page by page on the write connection while writes continue", async () => {
    await using fixture = await testServices("sqlite");
    const ctx = await vendorOf(fixture.services);
    const file = join(fixture.services.settings.data_dir, "copy.db");
    const writes = Array.from({ length: 50 }, (_, i) => createTenant(ctx, { external_id: `t${i}` }));
    await Promise.all([fixture.services.store.copyTo(file, quiet, { largeBytes: 0 }), ...writes]);
    const { findings, contents } = await inspect({ kind: "sqlite", file });
    expect(findings).toEqual([]);
    expect(contents.rows.audit_log).toBe((contents.rows.tenants ?? 0) + 2);
    expect(existsSync(`${file}-wal`)).toBe(false);
  });
});
