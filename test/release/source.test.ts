// The commit and the time that a release is made of.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { commitOf } from "../../tools/release/source.ts";

const AUTHOR = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];

function folder() {
  const temp = tempDir();
  const git = (...args: string[]): void => void execFileSync("git", [...AUTHOR, ...args], { cwd: temp.dir });
  return { dir: temp.dir, git, [Symbol.dispose]: () => temp[Symbol.dispose]() };
}

/** A repository with one commit. */
function repository() {
  const made = folder();
  made.git("init", "--quiet");
  made.git("commit", "--quiet", "--allow-empty", "--message=First");
  return made;
}

function errors(): () => string {
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  return () => write.mock.calls.map(([text]) => String(text)).join("");
}
afterEach(() => vi.restoreAllMocks());

describe("the source of a release", () => {
  it("is the commit while nothing is changed", () => {
    using instance = repository();
    expect(commitOf(instance.dir)).toMatch(/^[0-9a-f]{40}$/);
    writeFileSync(join(instance.dir, "new"), "");
    expect(commitOf(instance.dir)).toBeNull();
  });

  it("has no commit outside a repository, without a complaint", () => {
    using f = folder();
    const printed = errors();
    expect([commitOf(f.dir), printed()]).toEqual([null, ""]);
  });

  it("has no commit where git refuses, and git says why", () => {
    using instance = repository();
    // As it refuses a repository of another user, which only root could make.
    writeFileSync(join(instance.dir, ".git/config"), "no section");
    const printed = errors();
    expect(commitOf(instance.dir)).toBeNull();
    expect(printed()).toContain("bad config line 1");
  });
});
