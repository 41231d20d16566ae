// Durable file operations, and that no other module keeps a copy of them.
import { closeSync, globSync, openSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { appendDurably, createFileDurably, writeFileAtomically } from "../../src/platform/fsync.ts";
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

it("an atomic write replaces the contents and the mode, and leaves no temporary file", () => {
  using at = tempDir();
  const file = join(at.dir, "state.json");
  writeFileSync(file, "old", { mode: 0o644 });
  writeFileSync(`${file}.${process.pid}.tmp`, "left by a crash");
  writeFileAtomically(file, "new");
  expect([readFileSync(file, "utf8"), modeOf(file)]).toEqual(["new", 0o600]);
  expect(readdirSync(at.dir)).toEqual(["state.json"]);
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
