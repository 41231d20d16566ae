// Restoring over a database that can be read only in part.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { restoreOffline } from "../../src/server/offline.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { deployment, setUpWorkspace } from "../../harness/instances/deployment.ts";

describe("restore over a damaged database on sqlite", () => {
  it("does not report what it could not read as nothing", async () => {
    await using d = await deployment("sqlite");
    const app = await d.start();
    await setUpWorkspace(app, "damaged");
    await createBackup(app.services);
    await app.stop();
    const sql = "select rootpage as page, page_size as size from sqlite_schema, pragma_page_size where tbl_name = $1";
    const file = join(d.dir, "keyrack.db");
    const pages = (await rawSql(d.target, sql, ["tenants"])) as { page: number; size: number }[];
    const bytes = readFileSync(file);
    for (const { page, size } of pages) bytes.fill(0xff, (page - 1) * size, page * size);
    writeFileSync(file, bytes);
    const options = { backup: undefined, force: true, newMasterKey: false, onProgress: () => {} };
    const request = { settings: d.settings(), log: d.log, ...options };
    const unknown = { revoked_after_backup: null, suspended_after_backup: null, balances_moved: null };
    expect(await restoreOffline(request)).toMatchObject({ ...unknown, revived: [], resumed: [] });
  });
});
