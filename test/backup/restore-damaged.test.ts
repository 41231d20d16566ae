// Restoring over a database that can be read only in part, and restores that are interrupted.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { restoreOffline } from "../../src/server/offline.ts";
import { inspect } from "../../src/store/offline/thread-tasks.ts";
import { restoreDump } from "../../src/store/postgres/restore.ts";
import { backends, freshDatabase, readyDatabase } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { deployment, setUpWorkspace } from "../../harness/instances/deployment.ts";
import { keyrack, tempDir } from "../../harness/processes/cli.ts";

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

describe.runIf(backends.includes("postgres"))("restore on postgres by a process that is killed", () => {
  it("changes nothing: psql does not commit a script that was cut", async () => {
    const { target, dispose } = await freshDatabase("postgres");
    using temp = tempDir();
    const { PATH } = process.env;
    try {
      if (target.kind !== "postgres") throw new Error("not PostgreSQL");
      await rawSql(target, "create table kept (id integer primary key)");
      execFileSync("pg_dump", ["--format=custom", "--schema=public", `--file=${temp.dir}/dump`, target.url]);
      // The input of psql ends after the rows, before keys and indexes.
      writeFileSync(join(temp.dir, "psql"), `#!/bin/sh\nsed '/^\\\\\\.$/q' | /usr/bin/psql "$@"\n`, { mode: 0o755 });
      process.env.PATH = `${temp.dir}:${PATH}`;
      const options = { replaced: "replaced", after: ["create table public.finished ()"] };
      await restoreDump(target.url, { folder: temp.dir, manifest: { file: "dump" } }, options, () => {});
      const tables = "select schemaname, tablename from pg_tables where schemaname in ('public', 'replaced')";
      expect(await rawSql(target, tables)).toEqual([{ schemaname: "public", tablename: "kept" }]);
    } finally {
      process.env.PATH = PATH;
      await dispose();
    }
  });

  it("is noticed if an earlier version committed it: keys are missing", async () => {
    const { target, dispose } = await readyDatabase("postgres");
    try {
      expect((await inspect(target)).findings).toEqual([]);
      await rawSql(target, "alter table api_keys drop constraint api_keys_lookup_hash_key");
      await rawSql(target, "alter table tenants drop constraint tenants_pkey cascade");
      expect((await inspect(target)).findings).toEqual([
        "the primary key of tenants is missing",
        "the unique key of api_keys (lookup_hash) is missing",
        "the foreign key of api_keys (tenant_id) is missing",
      ]);
      if (target.kind !== "postgres") throw new Error("not PostgreSQL");
      const { code, stdout } = await keyrack(["db", "check", "--quiet", "--database-url", target.url]);
      expect([code, stdout.split("\n")]).toEqual([
        4,
        expect.arrayContaining(["the primary key of tenants is missing"]),
      ]);
    } finally {
      await dispose();
    }
  });
});
