// After a crash a SQLite database is checked before the first write, and once a week while it is used; a damaged one is
// only opened read-only. On a read-only disk it is read as it is.
import fs, { openSync, readdirSync, readFileSync, readSync, rmSync, truncateSync } from "node:fs";
import { closeSync, constants, writeFileSync, writeSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkDatabase } from "../../src/cli/commands/doctor/database.ts";
import { loadSettings } from "../../src/config/load.ts";
import { showStatus } from "../../src/domain/health/status.ts";
import { DAY_MS, MINUTE_MS } from "../../src/kernel/durations.ts";
import { silentLog } from "../../src/platform/log.ts";
import { jobs } from "../../src/server/jobs.ts";
import { toStartRefused } from "../../src/server/start-refused.ts";
import { startInstance } from "../../src/server/start.ts";
import { failureOfJob } from "../../src/store/engine/job.ts";
import { withSource } from "../../src/store/offline/source.ts";
import { schemaVersion } from "../../src/store/schema/migrate.ts";
import { readAppliedMigrations } from "../../src/store/schema/applied.ts";
import { createClient } from "../../harness/api-client.ts";
import { deployment, setUpWorkspace, type Deployment } from "../../harness/instances/deployment.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { keyrack, keyrackProcess, tempDir } from "../../harness/processes/cli.ts";

function fileOf(d: Pick<Deployment, "target">): string {
  if (d.target.kind !== "sqlite") throw new Error("not SQLite");
  return d.target.file;
}

/** Leaves a -wal file behind, as a killed process does. */
const simulateCrash = (d: Deployment): void => writeFileSync(`${fileOf(d)}-wal`, Buffer.alloc(32));

/** Overwrites an index; returns what was there. */
async function damage(d: Pick<Deployment, "target">, bytes: Buffer = Buffer.alloc(100, 0xff)): Promise<Buffer> {
  const [row] = await rawSql(d.target, "select rootpage from sqlite_schema where name = 'usage_days_age'");
  const at = (Number(row?.rootpage) - 1) * 4_096;
  const file = openSync(fileOf(d), "r+");
  const before = Buffer.alloc(bytes.length);
  readSync(file, before, 0, before.length, at);
  writeSync(file, bytes, 0, bytes.length, at);
  closeSync(file);
  return before;
}

describe("a SQLite database that was damaged while it was closed", () => {
  const header = Buffer.from("not a database, ");
  const schema = Buffer.alloc(8, 0xff);
  it.each([
    ["header", header, 0],
    ["schema", schema, 100],
  ])("is refused with exit code 70 and advice, and not changed: its %s", async (_part, bytes, at) => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    const file = openSync(fileOf(d), "r+");
    writeSync(file, bytes, 0, bytes.length, at);
    closeSync(file);
    const before = readFileSync(fileOf(d));
    await expect(d.start()).rejects.toMatchObject({
      exitCode: 70,
      message: expect.stringMatching(/damaged .*keyrack restore --force.*--force-read-only/) as string,
    });
    const damaged = expect.stringContaining("The database is damaged") as string;
    expect(await checkDatabase(d.settings())).toEqual([{ level: "fail", what: damaged, fix: null }]);
    const { code, stdout } = await keyrack(["db", "check", "--json", "--data-dir", d.dir]);
    const schema = { database: null, binary: schemaVersion() };
    expect([code, JSON.parse(stdout)]).toEqual([
      4,
      expect.objectContaining({ ok: false, schema, findings: [damaged] }),
    ]);
    expect(readFileSync(fileOf(d)).equals(before)).toBe(true);
  });

  it.each([
    ["SQLITE_IOERR_FSYNC", 70],
    ["SQLITE_IOERR_DIR_FSYNC", 70],
    ["SQLITE_IOERR_CORRUPTFS", 70],
    ["SQLITE_IOERR_READ", 1], // may pass: systemd tries again
    ["SQLITE_IOERR_LOCK", 1],
  ])("%s at the start is exit code %i", (code, exitCode) => {
    const failed = Object.assign(new Error("disk I/O error"), { code });
    expect(toStartRefused(failed, "/data")).toMatchObject({
      exitCode,
      message: expect.stringContaining("Check the disk"),
    });
  });

  it.each(["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "ENOSPC"])("is not what a full disk is taken for (%s)", (code) => {
    const failed = Object.assign(new Error("database or disk is full"), { code });
    const message = "The disk of /data is full. Free up space on it, then try again.";
    for (const error of [failed, failureOfJob("full", failed)])
      expect(toStartRefused(error, "/data")).toMatchObject({ exitCode: 1, message });
  });

  it.each([false, true])("is not what a file of another kind is taken for, read-only %s", async (forceReadOnly) => {
    using temp = tempDir();
    const file = join(temp.dir, "notes.txt");
    writeFileSync(file, "Call the plumber.\n");
    const flags = { data_dir: join(temp.dir, "data"), port: "0", database_url: `sqlite:${file}` };
    const { settings } = loadSettings({ env: {}, flags });
    await expect(startInstance({ settings, log: silentLog, forceReadOnly })).rejects.toMatchObject({
      exitCode: 2,
      message: `${file} is not a Keyrack database.`,
    });
    expect(readFileSync(file, "utf8")).toBe("Call the plumber.\n");
    expect(readdirSync(temp.dir).toSorted()).toEqual(["data", "notes.txt"]);
  });
});

describe("a SQLite database whose tables were overwritten", () => {
  it.each([
    ["user", "list"],
    ["signing-key", "rotate"],
    ["audit", "list", "--deployment"],
    ["backup", "create"],
    ["db", "migrate"],
    ["master-key", "rotate"],
    ["serve", "--port", "0"],
  ])("ends keyrack %s %s with exit code 70 and one sentence", async (...words) => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    const roots = await rawSql(d.target, "select rootpage from sqlite_schema where rootpage > 1");
    const file = openSync(fileOf(d), "r+");
    for (const { rootpage } of roots) writeSync(file, Buffer.alloc(100, 0xff), 0, 100, (Number(rootpage) - 1) * 4_096);
    closeSync(file);
    const { code, stdout, stderr } = await keyrackProcess([...words, "--data-dir", d.dir]);
    const sentence = /^keyrack: The database is damaged \(.*\)\. Restore a backup with keyrack restore --force, .*\n$/;
    const lines = stderr.split(/(?<=\n)/);
    expect([code, stdout, lines.at(-1)]).toEqual([70, "", expect.stringMatching(sentence)]);
    if (words[0] !== "serve") expect(lines).toHaveLength(1);
  });
});

describe("the weekly check of a live SQLite database", () => {
  it("reports damage once a day until a later check finds none", async () => {
    await using instance = await testInstance("sqlite", { leads: false }); // no other job uses what is damaged
    const { services } = instance.app;
    const { target } = services.store;
    const job = jobs.find(({ name }) => name === "quick check");
    const found = (): number => instance.logs.filter((line) => line.includes("quick check found damage")).length;
    const runAfter = async (ms: number) => {
      instance.clock.advance(ms);
      await job?.run(services);
      instance.clock.advance(MINUTE_MS); // the status is computed again
      return [(await showStatus(services)).components.database, found()];
    };
    await services.store.checkpointIfIdle();
    expect(await runAfter(0)).toEqual(["ok", 0]);
    const intact = await damage({ target });
    expect(await runAfter(6 * DAY_MS)).toEqual(["ok", 0]); // not due
    expect(await runAfter(DAY_MS)).toEqual(["degraded", 1]);
    expect(await runAfter(DAY_MS / 2)).toEqual(["degraded", 1]);
    expect(await runAfter(DAY_MS)).toEqual(["degraded", 2]);
    await damage({ target }, intact);
    expect(await runAfter(DAY_MS)).toEqual(["ok", 2]);
  });
});

describe("a SQLite database after a crash", () => {
  it("is checked at the next start, which logs it; after a clean stop it is not", async () => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    await (await d.start()).stop();
    expect(d.logs.join()).not.toContain("quick check");
    simulateCrash(d);
    await (await d.start()).stop();
    expect(d.logs.filter((line) => line.includes("quick check after an unclean stop: ok"))).toHaveLength(1);
  });

  it("is refused with exit code 70 when it is damaged, and not changed", async () => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    await damage(d);
    simulateCrash(d);
    const before = readFileSync(fileOf(d));
    await expect(d.start()).rejects.toMatchObject({
      exitCode: 70,
      message: expect.stringMatching(/damaged .*keyrack restore --force.*--force-read-only/) as string,
    });
    expect(readFileSync(fileOf(d)).equals(before)).toBe(true);
  });

  it("is served read-only with --force-read-only, and not changed", async () => {
    await using d = await deployment("sqlite");
    const first = await d.start();
    const shop = await setUpWorkspace(first, "readonly");
    await shop.mint();
    await first.stop();
    await damage(d);
    simulateCrash(d);
    const before = readFileSync(fileOf(d));
    const app = await startInstance({ settings: d.settings(), log: d.log, checkOutput: true, forceReadOnly: true });
    const client = createClient({ url: app.url, bearer: shop.secretKey });
    expect((await client.call("GET /v1/keys", { query: {} })).data).toHaveLength(1);
    expect(await client.call("GET /v1/audit_logs/chain", {})).toMatchObject({ verified: true });
    await expect(client.call("POST /v1/tenants", { body: { external_id: "no" } })).rejects.toMatchObject({
      status: 503,
      code: "unavailable",
    });
    await app.stop();
    expect(readFileSync(fileOf(d)).equals(before)).toBe(true);
  });
});

/** Makes every folder look as if it were on a disk that was mounted read-only. */
function onReadOnlyDisk(): Disposable {
  const { accessSync } = fs;
  const patch = (access: unknown): void => {
    Object.assign(fs, { accessSync: access });
    syncBuiltinESMExports();
  };
  patch((path: string, mode = 0) => {
    accessSync(path, mode);
    if (mode & constants.W_OK) throw Object.assign(new Error("read-only"), { code: "EROFS" });
  });
  return { [Symbol.dispose]: () => patch(accessSync) };
}

describe("a SQLite database on a read-only disk", () => {
  it("that was closed cleanly is read without a file beside it, by a command and with --force-read-only", async () => {
    await using d = await deployment("sqlite");
    const first = await d.start();
    const shop = await setUpWorkspace(first, "readonly");
    await first.stop();
    rmSync(join(d.dir, "keyrack.lock"));
    using _disk = onReadOnlyDisk();
    const migrations = await withSource(d.target, readAppliedMigrations);
    expect(migrations).not.toEqual([]);
    await expect(d.start()).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining("EROFS") as string });
    const app = await startInstance({ settings: d.settings(), log: d.log, forceReadOnly: true });
    const client = createClient({ url: app.url, bearer: shop.secretKey });
    expect((await client.call("GET /v1/projects", { query: {} })).data).toHaveLength(1);
    await app.stop();
    expect(readdirSync(d.dir).filter((name) => /^keyrack\.(db-|lock)/.test(name))).toEqual([]);
    truncateSync(fileOf(d), 2 ** 31);
    await expect(withSource(d.target, readAppliedMigrations)).rejects.toThrow("Copy the data dir to a writable one");
  });

  it("that needs its -wal is refused with what to do", () => {
    const failed = Object.assign(new Error("unable to open database file"), { code: "SQLITE_CANTOPEN" });
    const problem = (place: string): string => `The database in ${place} cannot be opened: ${failed.message}.`;
    using temp = tempDir();
    expect(toStartRefused(failed, temp.dir)).toMatchObject({ exitCode: 2, message: problem(temp.dir) });
    using _disk = onReadOnlyDisk();
    const message = `${problem(temp.dir)} That folder is read-only: copy the data dir to a writable one first.`;
    expect(toStartRefused(failed, temp.dir)).toMatchObject({ exitCode: 2, message });
  });
});
