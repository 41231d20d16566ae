// Durable file operations, and that no other module keeps a copy of them.
import { spawnSync } from "node:child_process";
import fs, {
  chmodSync,
  closeSync,
  existsSync,
  globSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { appendDurably, createDirDurably, createFileDurably, writeFileAtomically } from "../../src/platform/fsync.ts";
import { tempDir } from "../../harness/processes/cli.ts";

const root = fileURLToPath(new URL("../../src/", import.meta.url));
const modeOf = (file: string): number => statSync(file).mode & 0o777;

it("a created file is private, and an existing one is never overwritten", () => {
  using at = tempDir();
  const file = join(at.dir, "secret");
  createFileDurably(file, "first");
  expect(() => createFileDurably(file, "second")).toThrow("EEXIST");
  expect([readFileSync(file, "utf8"), modeOf(file)]).toEqual(["first", 0o600]);
});

it("a created file has its own text where a process with the same pid, in another container, writes it too", () => {
  using at = tempDir();
  const file = join(at.dir, "secret");
  const others = `${file}.${process.pid}.tmp`;
  writeFileSync(others, "another's");
  createFileDurably(file, "mine");
  expect([readFileSync(file, "utf8"), readFileSync(others, "utf8")]).toEqual(["mine", "another's"]);
  expect(readdirSync(at.dir)).toHaveLength(2);
});

it("a file is created on a file system without hard links, and never overwritten there", () => {
  using at = tempDir();
  const file = join(at.dir, "secret");
  const { linkSync } = fs;
  const patch = (link: unknown): void => {
    Object.assign(fs, { linkSync: link });
    syncBuiltinESMExports();
  };
  patch(() => {
    throw Object.assign(new Error("EPERM"), { code: "EPERM" });
  });
  try {
    createFileDurably(file, "first");
    expect(() => createFileDurably(file, "second")).toThrow("EEXIST");
  } finally {
    patch(linkSync);
  }
  expect([readFileSync(file, "utf8"), modeOf(file)]).toEqual(["first", 0o600]);
  expect(readdirSync(at.dir)).toEqual(["secret"]);
});

it("a file that cannot be written in full is not there, so that the next start creates it", () => {
  using at = tempDir();
  const file = join(at.dir, "secret");
  const module = fileURLToPath(new URL("../../src/platform/fsync.ts", import.meta.url));
  const script = `import { createFileDurably } from ${JSON.stringify(module)}; createFileDurably(${JSON.stringify(file)}, "text")`;
  // A file size limit of 0 stands for a full disk; where it is a signal, for a process that is killed.
  const limited = ["-c", 'ulimit -f 0; exec "$0" --input-type=module -e "$1"', process.execPath, script];
  expect(spawnSync("sh", limited).status).not.toBe(0);
  expect(existsSync(file)).toBe(false);
  createFileDurably(file, "text");
  expect(readFileSync(file, "utf8")).toBe("text");
});

it("an atomic write replaces the contents and the mode, and leaves no temporary file", () => {
  using at = tempDir();
  const file = join(at.dir, "state.json");
  writeFileSync(file, "old", { mode: 0o644 });
  writeFileAtomically(file, "new");
  expect([readFileSync(file, "utf8"), modeOf(file)]).toEqual(["new", 0o600]);
  expect(readdirSync(at.dir)).toEqual(["state.json"]);
});

it("a folder is created with its parents, private, and an existing one is left as it is", async () => {
  using at = tempDir();
  const dir = join(at.dir, "a/b/c");
  await createDirDurably(dir);
  expect([dir, join(at.dir, "a")].map((each) => modeOf(each))).toEqual([0o700, 0o700]);
  chmodSync(dir, 0o750);
  await createDirDurably(dir);
  expect(modeOf(dir)).toBe(0o750);
  const file = join(dir, "file");
  writeFileSync(file, "");
  await expect(createDirDurably(file)).rejects.toThrow("EEXIST");
  await expect(createDirDurably(join(file, "below"))).rejects.toThrow("ENOTDIR");
});

it("a folder that the file system refuses is refused at once", () => {
  const module = fileURLToPath(new URL("../../src/platform/fsync.ts", import.meta.url));
  const script = `import { createDirDurably } from ${JSON.stringify(module)}; await createDirDurably("/proc/keyrack/backups")`;
  const ran = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
  expect(ran.stderr).toContain("ENOENT");
});

it("an append adds to the end of an open file", () => {
  using at = tempDir();
  const file = join(at.dir, "log");
  const descriptor = openSync(file, "a");
  appendDurably(descriptor, "one\n");
  appendDurably(descriptor, "two\n");
  closeSync(descriptor);
  expect(readFileSync(file, "utf8")).toBe("one\ntwo\n");
});

it("only this module and the WAL sync worker call fsync", () => {
  const callers = globSync("**/*.ts", { cwd: root }).filter((file) =>
    /\bf(data)?sync(Sync)?\(/.test(readFileSync(root + file, "utf8")),
  );
  expect(callers.toSorted()).toEqual(["platform/fsync.ts", "store/sqlite/wal-sync.worker.ts"]);
});
