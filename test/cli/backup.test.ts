// Backup, restore and copy commands, as processes on a data dir without a server.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import Database from "better-sqlite3";
import { beforeAll, describe, expect, it, afterAll } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { schemaVersion } from "../../src/store/schema/migrate.ts";
import { FIXTURE_MASTER_KEY } from "../../harness/instances/world.ts";
import { freshDatabase, postgresUrl, readyDatabase } from "../../harness/databases/backends.ts";
import { keyrack, tempDir, type Ran } from "../../harness/processes/cli.ts";
import { deployment } from "../../harness/instances/deployment.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";

const temp = tempDir();
const dir = join(temp.dir, "data");
const run = (...args: string[]): Promise<Ran> => keyrack([...args, "--data-dir", dir], { cwd: temp.dir });

beforeAll(() => {
  const newest = String(schemaVersion()).padStart(4, "0");
  mkdirSync(dir, { mode: 0o700 });
  const fixture = new URL(`../../harness/fixtures/schema-${newest}.db.gz`, import.meta.url);
  writeFileSync(join(dir, "keyrack.db"), gunzipSync(readFileSync(fixture)), { mode: 0o600 });
  writeFileSync(join(dir, "master.key"), FIXTURE_MASTER_KEY, { mode: 0o600 });
  // The fixture gets older: sessions and tokens must not have expired when the restore ends them.
  const db = new Database(join(dir, "keyrack.db"));
  const later = Date.now() + 3_600_000;
  db.prepare("update sessions set expires_at = ?, absolute_expires_at = ?").run(later, later);
  db.prepare("update one_time_tokens set expires_at = ?").run(later);
  db.close();
});
afterAll(() => temp[Symbol.dispose]());

describe("a backup by its path", () => {
  it("is resolved in the shell's folder, though the server runs in another", async () => {
    await using d = await deployment("sqlite");
    const app = await d.start();
    const { id } = await createBackup(app.services);
    for (const verb of ["verify", "test"]) {
      const ran = await keyrack(["backup", verb, `./${id}`, "--data-dir", d.dir], { cwd: join(d.dir, "backups") });
      expect({ verb, code: ran.code }, ran.stderr).toEqual({ verb, code: 0 });
    }
  });
});

describe("flags that the running server would ignore", () => {
  it("are refused unless they name what it uses", async () => {
    await using d = await deployment("sqlite");
    await d.start();
    const elsewhere = join(d.dir, "elsewhere");
    const go = (...args: string[]): Promise<Ran> => keyrack([...args, "--data-dir", d.dir]);
    for (const args of [
      ["backup", "create", "--backup-dir", elsewhere],
      ["backup", "test", "--backup-dir", elsewhere],
      ["user", "list", "--database-url", `sqlite:${elsewhere}`],
      ["user", "create", "ada@example.com", "--database-url", "postgres://keyrack:secret@db.example.com/keyrack"],
    ]) {
      const ran = await go(...args);
      expect([ran.code, ran.stdout], args.join(" ")).toEqual([2, ""]);
      expect(ran.stderr).toMatch(
        new RegExp(`The instance that is running on ${d.dir} .* Leave out --(backup|database)`),
      );
      expect(ran.stderr).not.toContain("secret");
    }
    expect([existsSync(elsewhere), existsSync(join(d.dir, "backups"))]).toEqual([false, false]);
    expect((await go("user", "list", "--json")).stdout).not.toContain("ada@example.com");
    expect(await go("backup", "create", "--backup-dir", join(d.dir, "backups"))).toMatchObject({ code: 0 });
    const own = d.target.kind === "sqlite" ? `sqlite:${d.target.file}` : d.target.url;
    expect(await go("user", "list", "--database-url", own)).toMatchObject({ code: 0 });
  });
});

describe("backup and restore without a server", () => {
  it("create, list, verify, test and restore a backup, and detect a changed byte", async () => {
    expect((await run("backup", "list")).stdout).toContain("No backups yet");
    const created = await run("backup", "create", "--json");
    expect(created).toMatchObject({ code: 0, stderr: "" });
    const { id, folder } = JSON.parse(created.stdout) as { id: string; folder: string };
    expect((await run("backup", "list", "--quiet")).stdout).toBe(`${id}\n`);
    expect((await run("backup", "verify")).stdout).toBe(`Backup ${id} verified.\n`);
    expect((await run("backup", "test", id)).stdout).toContain("4 audit chains");
    expect(await run("restore")).toMatchObject({ code: 1, stderr: expect.stringContaining("--force") as string });
    const restored = await run("restore", id, "--force");
    expect(restored).toMatchObject({ code: 0, stderr: "" });
    expect(restored.stdout).toContain(`Restored backup ${id}`);
    expect(restored.stdout).toMatch(/Ended 1 session, 1 one-time token and 2 open invitations\./);
    expect((await run("db", "check")).code).toBe(0);
    // On another machine the folder alone is not enough: it needs the master key.
    const fresh = join(temp.dir, "fresh");
    const elsewhere = (...more: string[]) => keyrack(["restore", folder, "--data-dir", fresh, ...more]);
    expect(await elsewhere()).toMatchObject({ code: 2, stderr: expect.stringContaining("master key") as string });
    expect(existsSync(join(fresh, "keyrack.db"))).toBe(false);
    expect((await elsewhere("--new-master-key")).stdout).toContain("new master, signing and checkpoint keys");
    const masterKey = readFileSync(join(fresh, "master.key"));
    const kept = await elsewhere("--new-master-key", "--force");
    expect(kept.stdout).toContain("Kept the master key that is here, and created new signing and checkpoint keys.");
    expect(readFileSync(join(fresh, "master.key"))).toEqual(masterKey);
    const file = join(folder, "keyrack.db");
    const bytes = readFileSync(file);
    bytes[5_000] = (bytes[5_000] ?? 0) ^ 4;
    writeFileSync(file, bytes);
    for (const words of [
      ["backup", "verify"],
      ["backup", "test"],
      ["restore", "--force"],
    ]) {
      const ran = await run(...words);
      expect({ words, code: ran.code }, ran.stderr).toEqual({ words, code: 4 });
      expect(`${ran.stdout}${ran.stderr}`.match(/checksum/g)).toHaveLength(1);
      expect(ran.stderr).toMatch(/^keyrack: [^\n]+[^.]\.\n$/);
    }
    for (const flag of ["--data-dir", "--backup-dir"]) {
      const nowhere = await keyrack(["backup", "list", flag, join(temp.dir, "nowhere")]);
      expect([nowhere.code, nowhere.stdout], nowhere.stderr).toEqual([2, ""]);
      expect(nowhere.stderr).toContain(`Set ${flag}.`);
    }
    expect(readdirSync(dir).filter((name) => /restoring|restore-test/.test(name))).toEqual([]);
  });

  it("copies to another database, or says why it cannot", async () => {
    for (const [to, message] of [
      [[], "Missing --to"],
      [["--to", "mysql://x/y"], "must be sqlite:FILE or postgres://"],
      [["--to", "sqlite:other.db"], "Both databases are SQLite"],
    ] as const) {
      const ran = await run("db", "copy", ...to);
      expect(ran.code, ran.stderr).toBe(2);
      expect(ran.stderr).toContain(message);
    }
    expect((await run("db", "copy", "--to", "postgres://x@127.0.0.1:1/x")).code).toBe(3);
    if (!postgresUrl) return;
    const there = await freshDatabase("postgres");
    const url = there.target.kind === "postgres" ? there.target.url : "";
    const dry = await run("db", "copy", "--to", url, "--dry-run");
    expect(dry.stdout).toContain("nothing was written");
    const copied = await run("db", "copy", "--to", url);
    expect(copied, copied.stderr).toMatchObject({ code: 0, stderr: "" });
    expect(copied.stdout).toContain("Every value is equal");
    expect(await rawSql(there.target, "select count(*) as n from workspaces")).toEqual([{ n: 3 }]);
    expect((await run("db", "copy", "--to", url)).stderr).toContain("is not empty");
    await there.dispose();
  });
});

describe("pg_dump", () => {
  it("that is older than the server is reported, and creates no backup", async () => {
    if (!postgresUrl) return;
    const there = await readyDatabase("postgres");
    const url = there.target.kind === "postgres" ? there.target.url : "";
    const tools = join(temp.dir, "tools");
    mkdirSync(tools);
    writeFileSync(join(tools, "pg_dump"), "#!/bin/sh\necho 'pg_dump (PostgreSQL) 14.2'\n", { mode: 0o755 });
    const backup = (path: string) =>
      keyrack(["backup", "create", "--data-dir", join(temp.dir, "pg"), "--database-url", url], {
        env: { PATH: path },
      });
    const old = await backup(`${tools}:${process.env.PATH}`);
    expect(old).toMatchObject({ code: 1, stdout: "" });
    expect(old.stderr).toMatch(/pg_dump is version 14.2, older than the PostgreSQL \d+ server/);
    expect(readdirSync(join(temp.dir, "pg", "backups"))).toEqual([]);
    await there.dispose();
  });
});
