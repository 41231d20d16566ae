// `npm run release` as a command: its refusals, and a whole release of the part that is built in seconds. Releases with a
// binary are made by the tests that install one.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { root } from "../../harness/repository.ts";
import { VERSION } from "../../src/platform/version.ts";
import { firstDifference } from "../../tools/release/compare.ts";
import { targets, type Target } from "../../tools/sea/targets.ts";

const MAIN = join(root, "tools/release/main.ts");

function release(args: string[], env: Record<string, string> = {}) {
  const ran = spawnSync(process.execPath, [MAIN, ...args], { encoding: "utf8", env: { ...process.env, ...env } });
  return { code: ran.status, stdout: ran.stdout, stderr: ran.stderr };
}

describe("npm run release", () => {
  it("makes the same bytes twice, with lists that cover all of them, and says that it is unsigned", () => {
    using temp = tempDir();
    const [a, b] = [join(temp.dir, "a"), join(temp.dir, "b")];
    const epoch = { SOURCE_DATE_EPOCH: "1700000000" };
    const first = release(["--only", "npm", "--out", a], { ...epoch, TZ: "Asia/Kathmandu" });
    expect([first.code, first.stdout.trimEnd().split("\n").at(-1)]).toEqual([
      0,
      expect.stringMatching(/^unsigned/) as string,
    ]);
    expect(release(["--only", "npm", "--out", b], epoch).code).toBe(0);
    expect(firstDifference(a, b)).toBeNull();
    const packages = [`keyrack-sdk-${VERSION}.tgz`, `keyrack-${VERSION}.cdx.json`];
    const documents = ["NOTES.md", "install.sh", "release-keys"];
    const lists = ["RELEASE.json", "SHA256SUMS"];
    expect(readdirSync(a).toSorted()).toEqual([...packages, ...documents, ...lists].toSorted());
    execFileSync("sha256sum", ["--check", "--strict", "--status", "SHA256SUMS"], { cwd: a });
    const manifest = JSON.parse(readFileSync(join(a, "RELEASE.json"), "utf8")) as { files: { name: string }[] };
    expect(manifest).toMatchObject({ version: VERSION, source_date_epoch: 1_700_000_000, targets: {} });
    expect(manifest.files.map(({ name }) => name).toSorted()).toEqual([...packages, ...documents].toSorted());
  });

  for (const [args, reason] of [
    [["--target", "linux-mips"], "--target is one of linux-x64, linux-arm64, not linux-mips"],
    [["--only", "rpm"], "--only is one of tar, deb, oci, npm, not rpm"],
    [["--frobnicate"], "Unknown option '--frobnicate'"],
  ] as const) {
    it(`refuses ${args.join(" ")} with exit 2`, () => {
      const { code, stderr } = release([...args]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(reason) as string]);
    });
  }

  it("names the Debian packages of missing tools with exit 2, and makes nothing", () => {
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
      [only("deb"), "npm, dpkg-deb", "npm dpkg"],
      [only("deb", "oci"), "npm, dpkg-deb, apt-get", "npm dpkg apt"],
    ] as const) {
      const { code, stderr } = release([...args, "--target", foreign, "--out", out], { PATH: bin });
      const message = `not installed: ${name}, ${tools}. On Debian: apt-get install ${debianPackage} ${packages}\n`;
      expect([code, stderr]).toEqual([2, message]);
    }
    const checked = release([...only("npm"), "--check", "--out", out], { PATH: bin });
    expect(checked.stderr).toBe("not installed: npm. On Debian: apt-get install npm\n");
    expect(readdirSync(temp.dir)).toEqual(["bin"]);
  });

  it("refuses a SOURCE_DATE_EPOCH that is no number", () => {
    expect(release(["--only", "npm"], { SOURCE_DATE_EPOCH: "yesterday" }).code).toBe(2);
  });
});
