// Files that a command appends to, in a folder where a stranger may have left one before.
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  linkSync,
  openSync,
  readFileSync,
  readlinkSync,
  readSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { openAppend } from "../../src/cli/commands/csv-import/append-file.ts";

const ORIGINS = ["named", "derived"] as const;
/** Without an end of its line, which an append would first cut off. */
const CONTENTS = "first\nsecond";

afterEach(() => vi.restoreAllMocks());

/** A file of the user's, which must stay as it is. */
function writeVictim(dir: string): { victim: string; isUntouched: () => boolean } {
  const victim = join(dir, "victim");
  writeFileSync(victim, CONTENTS);
  chmodSync(victim, 0o644);
  const isUntouched = (): boolean =>
    readFileSync(victim, "utf8") === CONTENTS && (statSync(victim).mode & 0o777) === 0o644;
  return { victim, isUntouched };
}

/** As if the files of this process belonged to another user. */
function becomeAnotherUser(): void {
  const own = process.geteuid?.() ?? 0;
  vi.spyOn(process, "geteuid").mockReturnValue(own + 1);
}

describe("a file to append to", () => {
  it.each(ORIGINS)("is refused untouched if it belongs to another user (%s)", (origin) => {
    using temp = tempDir();
    const { victim, isUntouched } = writeVictim(temp.dir);
    becomeAnotherUser();
    expect(() => openAppend(victim, origin)).toThrow("belongs to another user");
    expect(isUntouched()).toBe(true);
  });

  it.each(ORIGINS)("is refused untouched if it has a second name (%s)", (origin) => {
    using temp = tempDir();
    const { victim, isUntouched } = writeVictim(temp.dir);
    linkSync(victim, join(temp.dir, "keys.csv"));
    expect(() => openAppend(join(temp.dir, "keys.csv"), origin)).toThrow("has a second name");
    expect(isUntouched()).toBe(true);
  });

  it("is never reached through a link under a name that no flag gave", () => {
    using temp = tempDir();
    const { victim, isUntouched } = writeVictim(temp.dir);
    const link = join(temp.dir, "keys.csv");
    symlinkSync(victim, link);
    expect(() => openAppend(link, "derived")).toThrow(`Cannot write ${link}: it is a link.`);
    expect([isUntouched(), readlinkSync(link)]).toEqual([true, victim]);
  });

  it("is not created through a link that leads to no file", () => {
    using temp = tempDir();
    symlinkSync(join(temp.dir, "nothing"), join(temp.dir, "keys.csv"));
    expect(() => openAppend(join(temp.dir, "keys.csv"), "derived")).toThrow("is a link");
    expect(existsSync(join(temp.dir, "nothing"))).toBe(false);
  });

  it("is created on a file system that gives files to another user", () => {
    using temp = tempDir();
    becomeAnotherUser();
    const file = openAppend(join(temp.dir, "keys.csv"), "derived");
    file.append("line\n");
    file.close();
    expect(readFileSync(join(temp.dir, "keys.csv"), "utf8")).toBe("line\n");
  });

  it("may be named through the user's own link, and loses only an incomplete last line", () => {
    using temp = tempDir();
    const { victim } = writeVictim(temp.dir);
    symlinkSync(victim, join(temp.dir, "keys.csv"));
    const file = openAppend(join(temp.dir, "keys.csv"), "named");
    expect(file.lines).toEqual(["first"]);
    file.append("third\n");
    file.close();
    expect([readFileSync(victim, "utf8"), statSync(victim).mode & 0o777]).toEqual(["first\nthird\n", 0o600]);
  });

  it("may be a device only if a flag names it", () => {
    const mode = statSync("/dev/null").mode;
    const file = openAppend("/dev/null", "named");
    file.append("line\n");
    file.close();
    expect(() => openAppend("/dev/null", "derived")).toThrow("is not a file");
    expect(statSync("/dev/null").mode).toBe(mode);
  });

  it("may be a pipe only if a flag names it, and fails once its reader has left", () => {
    using temp = tempDir();
    const pipe = join(temp.dir, "pipe");
    execFileSync("mkfifo", [pipe]);
    expect(() => openAppend(pipe, "derived")).toThrow("is not a file");
    const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
    const file = openAppend(pipe, "named");
    file.append("line\n");
    const bytes = Buffer.alloc(16);
    expect(bytes.toString("utf8", 0, readSync(reader, bytes))).toBe("line\n");
    closeSync(reader);
    expect(() => file.append("lost\n")).toThrow(`Cannot write ${pipe}: EPIPE.`);
    file.close();
  });

  it.each(["/dev/fd", "/proc/self/fd"])("may be any file that the shell has opened (%s)", (folder) => {
    using temp = tempDir();
    const { victim } = writeVictim(temp.dir);
    linkSync(victim, join(temp.dir, "second name"));
    const descriptor = openSync(victim, "a");
    becomeAnotherUser();
    const file = openAppend(`${folder}/${descriptor}`, "named");
    expect(file.lines).toEqual(["first"]);
    file.append("third\n");
    file.close();
    closeSync(descriptor); // fails if it was closed before: it is not ours
    expect(readFileSync(victim, "utf8")).toBe(`${CONTENTS}\nthird\n`);
  });

  it("is not overwritten by what is printed to the descriptor that names it", () => {
    using temp = tempDir();
    const descriptor = openSync(join(temp.dir, "keys.csv"), "w");
    const file = openAppend(`/dev/fd/${descriptor}`, "named");
    file.append("first key\n");
    writeSync(descriptor, "printed\n");
    file.append("second key\n");
    closeSync(descriptor);
    expect(readFileSync(join(temp.dir, "keys.csv"), "utf8")).toBe("first key\nprinted\nsecond key\n");
  });

  it("is refused with what to do instead", () => {
    using temp = tempDir();
    const { victim } = writeVictim(temp.dir);
    becomeAnotherUser();
    expect(() => openAppend(victim, "named")).toThrow("let your shell open it: --out /dev/stdout >> FILE");
    expect(() => openAppend(victim, "derived")).toThrow("Remove it, or use a folder that only you can write.");
  });
});
