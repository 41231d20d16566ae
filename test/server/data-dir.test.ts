// The data dir: files that hold a secret are read only if no other user can read them, and one process at a time uses a
// SQLite file, whatever the path and the data dir that it is named with.
import fs, { chmodSync, chownSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { deployment } from "../../harness/instances/deployment.ts";
import { keyrack, tempDir } from "../../harness/processes/cli.ts";
import { isRoot } from "../../harness/processes/tools.ts";
import { loadSettings } from "../../src/config/load.ts";
import { startInstance } from "../../src/server/start.ts";
import {
  databaseTarget,
  lockSqlite,
  openDataDir,
  readPrivateFile,
  requireDatabase,
} from "../../src/server/data-dir.ts";
import { callInstance } from "../../src/server/operator-socket/client.ts";
import { DataDirInUse, type DataDirLock } from "../../src/store/sqlite/lock.ts";

const USER = 4747;

/** Runs `work` as an unprivileged user. */
function asUser<T>(work: () => T): T {
  process.setegid?.(USER);
  process.seteuid?.(USER);
  try {
    return work();
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}

describe("a database", () => {
  it("that this user may not read is not reported as missing", () => {
    using temp = tempDir();
    const file = join(temp.dir, "keyrack.db");
    expect(() => requireDatabase(file)).toThrow(`There is no database at ${file}.`);
    writeFileSync(file, "");
    requireDatabase(file);
    if (!isRoot("files of other users")) return;
    chmodSync(temp.dir, 0o700);
    const denied = `${file} cannot be read: EACCES. Run this as the user that runs the server.`;
    expect(() => asUser(() => requireDatabase(file))).toThrow(denied);
  });
});

describe.runIf(isRoot("data dirs of other users"))("a data dir that this user may not create", () => {
  it("is refused with what to do, and nothing is made", () => {
    using temp = tempDir();
    chmodSync(temp.dir, 0o755);
    const dir = join(temp.dir, "data");
    const { settings } = loadSettings({ env: {}, flags: { data_dir: dir } });
    const advice = `${dir} cannot be used: EACCES. Run this as a user who may write there, or set KEYRACK_DATA_DIR.`;
    expect(() => asUser(() => openDataDir(settings))).toThrow(advice);
    expect(readdirSync(temp.dir)).toEqual([]);
  });
});

describe.runIf(isRoot("secrets of other users"))("a secret file", () => {
  const cases: [string, number, number, number, boolean][] = [
    ["is its own", USER, USER, 0o600, true],
    ["is its own and read-only", USER, USER, 0o400, true],
    ["is its own, but its group may read it", USER, USER, 0o640, false],
    ["is root's and its group may read it", 0, USER, 0o440, true],
    ["is root's and its group may write to it", 0, USER, 0o460, false],
    ["is root's and everyone may read it", 0, USER, 0o444, false],
    ["is another user's and its group may read it", USER + 1, USER, 0o440, false],
  ];
  it.each(cases)("that %s", (_what, uid, gid, mode, accepted) => {
    using temp = tempDir();
    chmodSync(temp.dir, 0o755);
    const file = join(temp.dir, "master.key");
    writeFileSync(file, "secret");
    chownSync(file, uid, gid);
    chmodSync(file, mode);
    if (accepted) expect(asUser(() => readPrivateFile(file))).toBe("secret");
    else expect(() => asUser(() => readPrivateFile(file))).toThrow("is readable by others");
  });

  it("that is root's is refused to root itself if a group may read it", () => {
    using temp = tempDir();
    const file = join(temp.dir, "master.key");
    writeFileSync(file, "secret", { mode: 0o640 });
    chmodSync(file, 0o640);
    expect(() => readPrivateFile(file)).toThrow("is readable by others");
  });
});

describe.runIf(isRoot("data dirs of other users"))("a data dir that this user may not enter", () => {
  it("is what a command names, not a socket of which nothing is known", async () => {
    using temp = tempDir();
    chmodSync(temp.dir, 0o700);
    const refused = asUser(() => callInstance(temp.dir, "instance.show", {}));
    await expect(refused).rejects.toThrow(`${temp.dir} belongs to another user: run this as that user.`);
  });
});

describe.runIf(isRoot("data dirs of other users"))("a command as root", () => {
  it("is refused on the data dir of a server that runs as another user, and leaves nothing there", async () => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    const files = readdirSync(d.dir);
    for (const name of [".", ...files]) chownSync(join(d.dir, name), USER, USER);
    for (const args of ["user list", "db migrate", "backup create", "restore --force", "master-key rotate"])
      expect(await keyrack([...args.split(" "), "--data-dir", d.dir]), args).toEqual({
        code: 2,
        stdout: "",
        stderr: `keyrack: ${d.dir} belongs to another user. Run this as that user: sudo -u '#${USER}' keyrack …\n`,
      });
    expect(readdirSync(d.dir)).toEqual(files);
    for (const name of files) chownSync(join(d.dir, name), 0, 0); // a server that runs as root in another's folder
    expect(await keyrack(["user", "list", "--data-dir", d.dir])).toMatchObject({ code: 0 });
  });
});

const NFS = 0x6969;
const FUSE = 0x65735546;

/** Makes folders look as if they were on a file system of this type: those that the name ends, or all. */
function onFileSystem(type: number, name = ""): Disposable {
  const { statfsSync } = fs;
  const patch = (statfs: unknown): void => {
    Object.assign(fs, { statfsSync: statfs });
    syncBuiltinESMExports();
  };
  patch((dir: string) => Object.assign(statfsSync(dir), dir.endsWith(name) && { type }));
  return { [Symbol.dispose]: () => patch(statfsSync) };
}

// SQLite's locks do not hold there: the server may be running on another host that mounts the same folder.
describe.skipIf(process.env.KEYRACK_TEST_BIN)("a command on a data dir on NFS", () => {
  it("is refused without --allow-network-fs, and leaves everything as it was", async () => {
    await using d = await deployment("sqlite");
    await (await d.start()).stop();
    const run = (args: string) => keyrack([...args.split(" "), "--data-dir", d.dir]);
    expect(await run("backup create")).toMatchObject({ code: 0 });
    using _nfs = onFileSystem(NFS);
    const listed = (): string[] => readdirSync(d.dir, { recursive: true }).map(String).toSorted();
    const before = listed();
    const changing = ["user list", "db migrate", "backup create", "restore --force", "master-key rotate"];
    for (const args of [...changing, "db copy --dry-run --to postgres://127.0.0.1:1/none"]) {
      const ran = await run(args);
      expect([ran.code, ran.stdout], args).toEqual([2, ""]);
      expect(ran.stderr, args).toContain("The data dir is on NFS");
    }
    expect(listed()).toEqual(before);
    for (const args of changing)
      expect(await run(`${args} --allow-network-fs`), args).toMatchObject({ code: 0, stderr: "" });
  });
});

describe("a SQLite file outside the data dir", () => {
  const start = async (type: number) => {
    await using d = await deployment("sqlite");
    mkdirSync(join(d.dir, "elsewhere"));
    const settings = {
      ...d.settings(),
      database_url: { kind: "sqlite", file: join(d.dir, "elsewhere", "k.db") },
    } as const;
    using _type = onFileSystem(type, "elsewhere");
    await (await startInstance({ settings, log: d.log })).stop();
    return d.logs.join();
  };

  it("is refused on NFS", async () => {
    await expect(start(NFS)).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining("The database is on NFS") as string,
    });
  });

  it("is used on FUSE, with a warning, and without one on a local disk", async () => {
    expect(await start(FUSE)).toContain("the database is on a FUSE file system");
    expect(await start(0xef53)).not.toContain("FUSE");
  });
});

describe("two processes", () => {
  /** Takes the locks of a process with this data dir and setting. */
  function lock(dir: string, databaseUrl?: string): DataDirLock {
    const flags = { data_dir: dir, ...(databaseUrl && { database_url: databaseUrl }) };
    const { settings } = loadSettings({ env: {}, configFile: undefined, flags });
    const target = databaseTarget(settings, dir);
    if (target.kind !== "sqlite") throw new Error("not SQLite");
    return lockSqlite(dir, target.file);
  }

  /** [name of the file, as the first names it (undefined: the default place), as the second names it] */
  const cases: [string, string | undefined, string][] = [
    ["the default place and its path", undefined, "a/keyrack.db"],
    ["the default place and a symlink to it", undefined, "link.db"],
    ["the default place and a path through a linked folder", undefined, "linked/keyrack.db"],
    ["another file in the first one's data dir", "a/other.db", "a/other.db"],
    ["a file outside both", "c/other.db", "c/other.db"],
    ["a file outside both and a symlink to it", "c/other.db", "b/other.db"],
    ["a file of the default name outside both", "c/keyrack.db", "linked/../c/keyrack.db"],
    ["a file that does not exist yet and a symlink to it", "c/new.db", "b/new.db"],
  ];
  it.each(cases)("cannot share a SQLite file: %s", (_what, first, second) => {
    using temp = tempDir();
    const at = (path: string) => join(temp.dir, path);
    for (const dir of ["a", "b", "c"]) mkdirSync(at(dir), { mode: 0o700 });
    symlinkSync(at("a"), at("linked"));
    symlinkSync("a/keyrack.db", at("link.db"));
    symlinkSync("../c/other.db", at("b/other.db"));
    symlinkSync("../c/new.db", at("b/new.db"));
    for (const file of ["a/keyrack.db", "a/other.db", "c/other.db", "c/keyrack.db"]) writeFileSync(at(file), "");
    const lockFirst = () => lock(at("a"), first && `sqlite:${at(first)}`);
    const lockSecond = () => lock(at("b"), `sqlite:${at(second)}`);
    const held = lockFirst();
    expect(lockSecond).toThrow(DataDirInUse);
    held.release();
    const next = lockSecond();
    expect(lockFirst).toThrow(DataDirInUse);
    next.release();
  });

  it("use two databases of one folder at once", () => {
    using temp = tempDir();
    const at = (path: string) => join(temp.dir, path);
    for (const dir of ["a", "b", "c"]) mkdirSync(at(dir), { mode: 0o700 });
    const first = lock(at("a"), `sqlite:${at("c/1.db")}`);
    expect(() => lock(at("b"), `sqlite:${at("c/2.db")}`).release()).not.toThrow();
    first.release();
  });

  it("can name the default place through a linked data dir", () => {
    using temp = tempDir();
    mkdirSync(join(temp.dir, "a"), { mode: 0o700 });
    symlinkSync("a", join(temp.dir, "linked"));
    const [dir, linked] = [join(temp.dir, "a"), join(temp.dir, "linked")];
    expect(() => lock(linked, `sqlite:${dir}/keyrack.db`).release()).not.toThrow();
    expect(() => lock(dir, `sqlite:${linked}/keyrack.db`).release()).not.toThrow();
  });
});
