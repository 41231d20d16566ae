// Files that hold a secret are read only if no other user can read them.
import { chmodSync, chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { isRoot } from "../../harness/processes/tools.ts";
import { readPrivateFile } from "../../src/server/data-dir.ts";

const USER = 4747;

/** Reads a file as an unprivileged user. */
function readAsUser(file: string): string {
  process.setegid?.(USER);
  process.seteuid?.(USER);
  try {
    return readPrivateFile(file);
  } finally {
    process.seteuid?.(0);
    process.setegid?.(0);
  }
}

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
    if (accepted) expect(readAsUser(file)).toBe("secret");
    else expect(() => readAsUser(file)).toThrow("is readable by others");
  });

  it("that is root's is refused to root itself if a group may read it", () => {
    using temp = tempDir();
    const file = join(temp.dir, "master.key");
    writeFileSync(file, "secret", { mode: 0o640 });
    chmodSync(file, 0o640);
    expect(() => readPrivateFile(file)).toThrow("is readable by others");
  });
});
