// Commands that no server may run beside, on PostgreSQL: a server that starts or reconnects while one works is refused,
// and so is a second command; a command that cannot keep servers away any longer changes nothing.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import type { Settings } from "../../src/config/settings.ts";
import { silentLog } from "../../src/platform/log.ts";
import { copyOffline, restoreOffline, rotateMasterKey } from "../../src/server/offline.ts";
import { MAINTENANCE_LOCK } from "../../src/store/postgres/advisory-locks.ts";
import { withMaintenance } from "../../src/store/postgres/maintenance.ts";
import { lockDatabaseFile } from "../../src/store/sqlite/lock.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { deployment } from "../../harness/instances/deployment.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { keyrack } from "../../harness/processes/cli.ts";
import { until } from "../../harness/waiting.ts";

const refusal = (error: unknown) => error as Error & { exitCode?: number };
const BUSY = { exitCode: 1, message: expect.stringContaining("keyrack restore is working on this database") as string };

describe.runIf(runBackends.includes("postgres"))("a command that needs PostgreSQL alone", () => {
  it("excludes servers, operator commands and its like while it works, and nothing afterwards", async () => {
    await using d = await deployment("postgres");
    await (await d.start()).stop();
    if (d.target.kind !== "postgres") throw new Error("not PostgreSQL");
    const settings = d.settings();
    const to = { kind: "sqlite", file: join(d.dir, "copy.db") } as const;
    const onProgress = () => {};
    const before = await rawSql(d.target, "select xmin::text, * from deployment order by name");
    await withMaintenance(d.target, async () => {
      expect(await d.start().catch(refusal)).toMatchObject(BUSY);
      const where = [
        "--data-dir",
        d.dir,
        "--database-url",
        settings.database_url.kind === "postgres" ? settings.database_url.url : "",
      ];
      expect(await keyrack(["user", "list", ...where])).toMatchObject({ code: 1, stdout: "" });
      expect(await rotateMasterKey(settings, silentLog).catch(refusal)).toMatchObject(BUSY);
      expect(await copyOffline({ settings, to, dryRun: true, onProgress }).catch(refusal)).toMatchObject(BUSY);
      const request = { settings, log: silentLog, backup: undefined, force: true, newMasterKey: false, onProgress };
      expect(await restoreOffline(request).catch(refusal)).toMatchObject(BUSY);
    });
    expect(await rawSql(d.target, "select xmin::text, * from deployment order by name")).toEqual(before);
    const lock = lockDatabaseFile(to.file);
    const inUse = { exitCode: 1, message: `Another Keyrack process is using the database ${to.file}.` };
    expect(await copyOffline({ settings, to, dryRun: false, onProgress }).catch(refusal)).toMatchObject(inUse);
    lock.release();
    expect(existsSync(to.file)).toBe(false);
    expect(await rotateMasterKey(settings, silentLog)).toMatchObject({ object: "master_key_rotation" });
    await (await d.start()).stop();
  });

  it("excludes a server that was cut off when it began, until it has ended", async () => {
    await using instance = await testInstance("postgres");
    const workspace = await instance.workspace();
    const key = await workspace.mint();
    const read = async (): Promise<number> => (await workspace.call("sk_owner", `GET /v1/keys/${key.id}`)).status;
    const write = async (): Promise<number> =>
      (await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}`, { name: "renamed" })).status;
    const servers = "from pg_stat_activity where datname = current_database() and application_name like 'keyrack/%'";
    await withMaintenance(instance.target, async () => {
      await instance.sql(`select pg_terminate_backend(pid, 5000) ${servers}`);
      expect([await read(), await write(), (await instance.call(null, "GET /readyz")).status]).toEqual([503, 503, 503]);
      await until(async () => (await instance.sql(`select pid ${servers}`)).length === 0); // what looked has left again
    });
    await until(async () => (await write()) === 200);
    expect(await read()).toBe(200);
    await until(() => instance.app.services.store.tryBecomeLeader().catch(() => false)); // until it listens again
  });

  it("changes nothing if it loses the session that keeps servers away", async () => {
    await using d = await deployment("postgres");
    const app = await d.start();
    await createBackup(app.services);
    await app.stop();
    if (d.target.kind !== "postgres") throw new Error("not PostgreSQL");
    const { url } = d.target;
    const sql = `select pg_terminate_backend(pid, 5000) from pg_locks join pg_database d on d.oid = database
      where datname = current_database() and locktype = 'advisory' and objid = ${MAINTENANCE_LOCK}`;
    let isLost = false;
    const loseSession = (): void => {
      if (!isLost) execFileSync("psql", [url, "-c", sql]); // synchronous, so that it is lost where the command is now
      isLost = true;
    };
    const expectLost = async (command: () => Promise<unknown>): Promise<void> => {
      isLost = false;
      expect(await command().catch(refusal)).toMatchObject(lost);
      expect(isLost).toBe(true);
    };
    const state = () => rawSql(d.target, "select xmin::text, * from deployment order by name");
    const before = await state();
    const lost = { exitCode: 1, message: expect.stringContaining("Nothing was changed") as string };

    const settings = d.settings();
    const request = { settings, log: silentLog, backup: undefined, force: true, newMasterKey: false };
    const onProgress = ({ step }: { step: string }): void => (step === "restore" ? loseSession() : undefined);
    await expectLost(() => restoreOffline({ ...request, onProgress }));
    const to = { kind: "sqlite", file: join(d.dir, "copy.db") } as const;
    await expectLost(() => copyOffline({ settings, to, dryRun: false, onProgress: loseSession }));
    expect(existsSync(to.file)).toBe(false);
    const losing: Settings = {
      ...settings,
      get master_key_file() {
        loseSession();
        return settings.master_key_file;
      },
    };
    await expectLost(() => rotateMasterKey(losing, silentLog));
    expect(await state()).toEqual(before);
    await (await d.start()).stop();
  });
});
