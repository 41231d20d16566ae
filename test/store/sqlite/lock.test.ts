// The data dir lock: one process at a time, released however the process ends.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startChild } from "../../../harness/processes/child.ts";
import { DataDirInUse, lockDataDir, networkFileSystem } from "../../../src/store/sqlite/lock.ts";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keyrack-test-lock-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("the data dir lock", () => {
  it("excludes a second process, and is released when the first is killed", async () => {
    const first = startChild("child-lock.ts", { dir });
    expect(await first.line()).toBe("locked");
    expect(() => lockDataDir(dir)).toThrow(DataDirInUse);
    const second = startChild("child-lock.ts", { dir });
    expect(await second.line()).toBe("DataDirInUse");
    await second.ended;
    first.process.kill("SIGKILL");
    await first.ended;
    lockDataDir(dir).release();
  });

  it("can be taken again after a release", () => {
    lockDataDir(dir).release();
    expect(() => lockDataDir(dir).release()).not.toThrow();
  });

  it("does not report a local folder as a network file system", () => {
    expect(networkFileSystem(dir)).toBeUndefined();
  });
});
