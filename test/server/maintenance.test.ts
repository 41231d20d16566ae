// Commands that no server may run beside, on PostgreSQL: a server that starts while one works is refused, and so is a
// second command.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { silentLog } from "../../src/platform/log.ts";
import { copyOffline, restoreOffline, rotateMasterKey } from "../../src/server/offline.ts";
import { withMaintenance } from "../../src/store/postgres/maintenance.ts";
import { lockDatabaseFile } from "../../src/store/sqlite/lock.ts";
import { postgresUrl } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { deployment } from "../../harness/instances/deployment.ts";
import { keyrack } from "../../harness/processes/cli.ts";

const refusal = (error: unknown) => error as Error & { exitCode?: number };
const BUSY = { exitCode: 1, message: expect.stringContaining("keyrack restore is working on this database") as string };

describe.skipIf(!postgresUrl)("a command that needs PostgreSQL alone", () => {
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
});
