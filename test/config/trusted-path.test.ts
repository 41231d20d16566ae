// Settings files and data dirs that were found, not named: a stranger's must never take effect.
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { isRoot } from "../../harness/processes/tools.ts";
import { loadSettings } from "../../src/config/load.ts";

const STRANGER = 54_321;

/** A folder with a keyrack.toml that sets the region. */
function folderWithFile(dir: string, name = "work"): { folder: string; file: string } {
  const folder = join(dir, name);
  mkdirSync(folder, { mode: 0o755 });
  const file = join(folder, "keyrack.toml");
  writeFileSync(file, 'region = "eu"\n');
  chmodSync(file, 0o644);
  return { folder, file };
}

const load = (cwd: string, env: Record<string, string> = {}) => loadSettings({ env, cwd });
const refusal = (file: string, reason: string) =>
  `${file} is not used: ${reason}. Name it with --config ${file} if you trust it.`;

describe("a keyrack.toml that was found", () => {
  it("is used when it and its folder are one's own and no one else can write to them", () => {
    using at = tempDir();
    const { folder, file } = folderWithFile(at.dir);
    expect(load(folder).settings.region).toBe("eu");
    const other = join(at.dir, "other");
    mkdirSync(other);
    symlinkSync(file, join(other, "keyrack.toml"));
    expect(load(other).settings.region).toBe("eu");
    expect(load(at.dir, { KEYRACK_DATA_DIR: folder }).settings.region).toBe("eu");
  });

  it.each([
    ["the file", 0o664, (folder: string) => join(folder, "keyrack.toml")],
    ["the file", 0o646, (folder: string) => join(folder, "keyrack.toml")],
    ["the folder", 0o775, (folder: string) => folder],
    ["the folder", 0o757, (folder: string) => folder],
  ])("is refused when others can write to %s (%o), wherever it was found", (_what, mode, pick) => {
    using at = tempDir();
    const { folder, file } = folderWithFile(at.dir);
    chmodSync(pick(folder), mode);
    const message = refusal(file, `${pick(folder)} is writable by its group or by others`);
    expect(() => load(folder)).toThrow(message);
    expect(() => load(at.dir, { KEYRACK_DATA_DIR: folder })).toThrow(message);
    expect(loadSettings({ env: {}, cwd: folder, configFile: file }).settings.region).toBe("eu");
    expect(load(folder, { KEYRACK_CONFIG: file }).settings.region).toBe("eu");
  });

  it("may be in a folder where everyone can write but only owners can replace their files", () => {
    using at = tempDir();
    const { folder } = folderWithFile(at.dir);
    chmodSync(folder, 0o1777);
    expect(load(folder).settings.region).toBe("eu");
  });

  it("is judged with its target if it is a link", () => {
    using at = tempDir();
    const { file } = folderWithFile(at.dir);
    chmodSync(file, 0o666);
    const other = join(at.dir, "other");
    mkdirSync(other);
    symlinkSync(file, join(other, "keyrack.toml"));
    expect(() => load(other)).toThrow(`${file} is writable by its group or by others`);
  });
});

describe.runIf(isRoot("a keyrack.toml of another user"))("as root", () => {
  it.each([
    ["the file", (folder: string) => join(folder, "keyrack.toml")],
    ["the folder", (folder: string) => folder],
  ])("a keyrack.toml is refused when %s belongs to another user", (_what, pick) => {
    using at = tempDir();
    const { folder, file } = folderWithFile(at.dir);
    chownSync(pick(folder), STRANGER, STRANGER);
    const message = refusal(file, `${pick(folder)} belongs to another user (uid ${STRANGER})`);
    expect(() => load(folder)).toThrow(message);
    expect(loadSettings({ env: {}, cwd: folder, configFile: file }).settings.region).toBe("eu");
  });

  it("a ./keyrack-data of another user is refused, with and without a settings file, unless it is named", () => {
    using at = tempDir();
    const dir = join(at.dir, "keyrack-data");
    mkdirSync(dir, { mode: 0o700 });
    expect(load(at.dir).settings.data_dir).toBe("./keyrack-data");
    chownSync(dir, STRANGER, STRANGER);
    expect(() => load(at.dir)).toThrow(
      `${dir} is not used: ${dir} belongs to another user (uid ${STRANGER}). Name it with --data-dir ${dir} if you trust it.`,
    );
    expect(load(at.dir, { KEYRACK_DATA_DIR: dir }).settings.data_dir).toBe(dir);
  });
});
