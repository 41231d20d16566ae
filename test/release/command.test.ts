// `npm run release` as a command: its refusals, and a whole release of the part that is built in seconds. Releases with
// a binary are made by the tests that install one.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { readText, root } from "../../harness/repository.ts";
import { installSdk, PACKED_EPOCH } from "../../harness/sdk/package.ts";
import { ExitError } from "../../src/cli/ui/output.ts";
import { makeCheckedRelease } from "../../tools/release/check.ts";
import { firstDifference } from "../../tools/release/compare.ts";
import { parseOptions } from "../../tools/release/options.ts";
import { makeRelease } from "../../tools/release/release.ts";
import { commitOf, snapshotOf } from "../../tools/release/source.ts";
import { targets, type Target } from "../../tools/sea/targets.ts";

const MAIN = join(root, "tools/release/main.ts");

function release(args: string[], env: Record<string, string> = {}, main = MAIN) {
  const ran = spawnSync(process.execPath, [main, ...args], { encoding: "utf8", env: { ...process.env, ...env } });
  return { code: ran.status, stdout: ran.stdout, stderr: ran.stderr };
}

/** The exit code and message of a refusal, in this process: to load the command takes most of its time. */
async function refusal(args: string[], env: Record<string, string> = {}): Promise<[number, string]> {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  try {
    const options = parseOptions(args);
    await (options.check ? makeCheckedRelease(options) : makeRelease(options));
  } catch (error) {
    if (error instanceof ExitError) return [error.exitCode, error.message];
    throw error;
  } finally {
    vi.unstubAllEnvs();
  }
  throw new Error("it was not refused");
}

describe("npm run release", () => {
  it("makes the same bytes twice, with lists that cover all of them, and says that it is unsigned", () => {
    using temp = tempDir();
    const a = join(temp.dir, "a");
    const epoch = { SOURCE_DATE_EPOCH: String(PACKED_EPOCH) };
    const { version } = snapshotOf(commitOf(root));
    expect(version).toMatch(/^\d+\.\d+\.\d+-dev\.(?:[0-9a-f]{12}|modified)$/);
    const first = release(["--only", "npm", "--snapshot", "--out", a], { ...epoch, TZ: "Asia/Kathmandu" });
    expect([first.code, first.stdout.trimEnd().split("\n").at(-1)]).toEqual([
      0,
      expect.stringMatching(/^unsigned/) as string,
    ]);
    expect(firstDifference(a, installSdk(join(temp.dir, "app")).release)).toBeNull();
    const packages = [`keyrack-sdk-${version}.tgz`, `keyrack-${version}.cdx.json`];
    const documents = ["NOTES.md", "install.sh", "release-keys"];
    const lists = ["RELEASE.json", "SHA256SUMS"];
    expect(readdirSync(a).toSorted()).toEqual([...packages, ...documents, ...lists].toSorted());
    execFileSync("sha256sum", ["--check", "--strict", "--status", "SHA256SUMS"], { cwd: a });
    const manifest = JSON.parse(readFileSync(join(a, "RELEASE.json"), "utf8")) as { files: { name: string }[] };
    expect(manifest).toMatchObject({ version, source_date_epoch: PACKED_EPOCH, targets: {} });
    expect(manifest.files.map(({ name }) => name).toSorted()).toEqual([...packages, ...documents].toSorted());
    // A snapshot, and the library in it, are named after the commit.
    const tarball = join(a, `keyrack-sdk-${version}.tgz`);
    const inside = (file: string): string => execFileSync("tar", ["-xzOf", tarball, file], { encoding: "utf8" });
    expect(JSON.parse(inside("package/package.json"))).toMatchObject({ version });
    expect(inside("package/cjs/index.js").includes(`"${version}"`)).toBe(true);
    const [, notes] = readText("CHANGELOG.md").split(/^## .*\n/m);
    const made = readFileSync(join(a, "NOTES.md"), "utf8");
    expect(made.split("\n")).toHaveLength(`## Unreleased\n\n${notes?.trim()}\n`.split("\n").length);
  });

  it("refuses unreleased changes under the number of the last release with exit 2", () => {
    using temp = tempDir();
    for (const folder of ["tools", "src", "harness/release"])
      cpSync(join(root, folder), join(temp.dir, folder), { recursive: true });
    symlinkSync(join(root, "node_modules"), join(temp.dir, "node_modules"));
    const refuse = (changelog: string, ...args: string[]) => {
      writeFileSync(join(temp.dir, "CHANGELOG.md"), changelog);
      const { code, stderr } = release(["--only", "npm", ...args], {}, join(temp.dir, "tools/release/main.ts"));
      return [code, stderr];
    };
    const changelog = "# Changelog\n\n## Unreleased\n\n### Fixed\n- A bug.\n";
    const reason =
      "CHANGELOG.md has unreleased changes: run npm run version:set first, or add --snapshot to build them unreleased\n";
    expect(refuse(changelog)).toEqual([2, reason]);
    expect(refuse(changelog, "--check")).toEqual([2, reason]);
    // Without changes it fails at the next check: a copy has no commit.
    const [code, next] = refuse("# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2026-11-16\n\n- News.\n");
    expect([code, next]).toEqual([2, expect.stringContaining("this is not a git repository") as string]);
  });

  for (const [args, reason] of [
    [["--target", "linux-mips"], "--target is one of linux-x64, linux-arm64, not linux-mips"],
    [["--only", "rpm"], "--only is one of tar, deb, oci, npm, not rpm"],
  ] as const) {
    it(`refuses ${args.join(" ")} with exit 2`, async () => {
      expect(await refusal([...args])).toEqual([2, reason]);
    });
  }

  it("refuses an unknown flag with one line and exit 2", () => {
    const { code, stderr } = release(["--frobnicate"]);
    expect([code, stderr.split("\n")]).toEqual([2, [expect.stringContaining("Unknown option '--frobnicate'"), ""]]);
  });

  it("names the Debian packages of missing tools with exit 2, and makes nothing", async () => {
    using temp = tempDir();
    const bin = join(temp.dir, "bin");
    mkdirSync(bin);
    for (const tool of ["git", "tar", "gzip"])
      symlinkSync(execFileSync("which", [tool], { encoding: "utf8" }).trim(), join(bin, tool));
    const out = join(temp.dir, "release");
    const foreign: Target = process.arch === "x64" ? "linux-arm64" : "linux-x64";
    const { name, debianPackage } = targets[foreign].strip;
    const only = (...kinds: string[]): string[] => kinds.flatMap((kind) => ["--only", kind]);
    for (const [args, tools, packages] of [
      [only("deb"), "npm", "npm"],
      [only("deb", "oci"), "npm, dpkg-deb, apt-get", "npm dpkg apt"],
    ] as const) {
      const message = `not installed: ${name}, ${tools}. On Debian: apt-get install ${debianPackage} ${packages}`;
      expect(await refusal([...args, "--target", foreign, "--out", out], { PATH: bin })).toEqual([2, message]);
    }
    const checked = await refusal([...only("npm"), "--check", "--out", out], { PATH: bin });
    expect(checked).toEqual([2, "not installed: npm. On Debian: apt-get install npm"]);
    expect(readdirSync(temp.dir)).toEqual(["bin"]);
  });

  it("refuses a SOURCE_DATE_EPOCH that is no number", async () => {
    const [code] = await refusal(["--only", "npm", "--snapshot"], { SOURCE_DATE_EPOCH: "yesterday" });
    expect(code).toBe(2);
  });
});
