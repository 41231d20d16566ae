// `keyrack release verify`: what it accepts, and that it refuses every release that is not exactly what was signed.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keyrack, tempDir } from "../../harness/processes/cli.ts";
import { writeSmallRelease, writeSums } from "../../harness/release/small-release.ts";
import { snapshot } from "../../harness/release/snapshot.ts";
import { SshKey } from "../../harness/release/ssh-key.ts";
import { tamperings } from "../../harness/release/tampering.ts";
import { parseAllowedSigners } from "../../src/cli/commands/release/allowed-signers.ts";
import { fingerprint } from "../../src/cli/commands/release/ssh-signature.ts";
import { IDENTITY, verifyRelease, type ReleaseReport } from "../../src/cli/commands/release/verify.ts";

const X64 = "keyrack-1.2.3-linux-x64.tar.gz";
const ARM64 = "keyrack-1.2.3-linux-arm64.tar.gz";
const key = new SshKey();
const keys = parseAllowedSigners(key.line, "keys", IDENTITY);
const signer = `${IDENTITY} ${fingerprint(key.publicKey)}`;

let temp: ReturnType<typeof tempDir>;
beforeAll(() => {
  temp = tempDir();
  writeSmallRelease(join(temp.dir, "release"), { key });
  writeFileSync(join(temp.dir, "keys"), key.line);
});
afterAll(() => temp[Symbol.dispose]());

/** A copy of the signed release, which a test may change. */
function release() {
  const own = tempDir();
  cpSync(join(temp.dir, "release"), own.dir, { recursive: true });
  const at = (name: string): string => join(own.dir, name);
  return { dir: own.dir, at, [Symbol.dispose]: () => own[Symbol.dispose]() };
}

const problems = ({ files }: ReleaseReport) => files.filter(({ ok }) => !ok);

describe("a signed release", () => {
  it("is verified as a folder, complete and unchanged", async () => {
    const report = await verifyRelease([join(temp.dir, "release")], { keys, unsigned: false });
    expect(report).toEqual({
      ok: true,
      version: "1.2.3",
      signer,
      files: ["NOTES.md", ARM64, X64].map((name) => ({ name, ok: true, reason: null })),
    });
  });

  it("is verified by single files, whether or not the others were downloaded", async () => {
    using instance = release();
    rmSync(instance.at(ARM64));
    const report = await verifyRelease([instance.at(X64), instance.at("SHA256SUMS")], { keys, unsigned: false });
    expect(report).toMatchObject({ ok: true, signer, files: [{ name: X64, ok: true, reason: null }] });
  });

  for (const { what, tamper, names } of tamperings(X64, ARM64))
    it(`is refused with ${what}, by name`, async () => {
      using instance = release();
      tamper(instance.dir, key);
      const before = snapshot(instance.dir);
      const report = await verifyRelease([instance.dir], { keys, unsigned: false });
      expect(report.ok).toBe(false);
      const found = problems(report).map(({ name, reason }) => `${name}: ${reason}`);
      expect(found.filter((text) => text.includes(names))).not.toEqual([]);
      const single = await verifyRelease([instance.at(X64)], { keys, unsigned: false });
      expect(single.ok).toBe(false);
      expect(snapshot(instance.dir)).toEqual(before);
    });

  it("is refused with a file that is not listed", async () => {
    using instance = release();
    writeFileSync(instance.at("extra.sh"), "");
    mkdirSync(instance.at("folder"));
    const report = await verifyRelease([instance.dir], { keys, unsigned: false });
    const reason = "not listed in SHA256SUMS";
    expect(problems(report)).toEqual(["extra.sh", "folder"].map((name) => ({ name, ok: false, reason })));
    expect((await verifyRelease([instance.at("extra.sh")], { keys, unsigned: false })).ok).toBe(false);
  });

  it("is refused by a list without keys, and with a signature of the wrong size", async () => {
    using instance = release();
    expect(problems(await verifyRelease([instance.dir], { keys: [], unsigned: true }))).toEqual([
      {
        name: "SHA256SUMS.sig",
        ok: false,
        reason: `signed by ${fingerprint(key.publicKey)}, which is not a listed key`,
      },
    ]);
    writeFileSync(instance.at("SHA256SUMS.sig"), Buffer.alloc((1 << 20) + 1));
    expect(problems(await verifyRelease([instance.dir], { keys, unsigned: false }))).toMatchObject([
      { name: "SHA256SUMS.sig" },
    ]);
  });

  const sum = "0".repeat(64);
  for (const [what, line, reason] of [
    ["a slash", `${sum}  ../keyrack`, 'line 4 names "../keyrack", with a slash'],
    ["an absolute path", `${sum}  /etc/passwd`, 'line 4 names "/etc/passwd", with a slash'],
    ["a file twice", `${sum}  NOTES.md`, 'line 4 names "NOTES.md" for the second time'],
    ["the parent folder", `${sum}  ..`, 'line 4 names "..", which is no file of a release'],
    ["itself", `${sum}  SHA256SUMS`, 'line 4 names "SHA256SUMS", which is no file of a release'],
    ["a control character", `${sum}  a\u001bb`, 'line 4 names "a\u001bb", which is no file of a release'],
    ["a short sum", `${sum.slice(1)}  x`, "line 4 is not a checksum and a name"],
    ["a sum in capitals", `${"A".repeat(64)}  x`, "line 4 is not a checksum and a name"],
    ["an empty line", "", "line 4 is not a checksum and a name"],
  ] as const)
    it(`is refused when SHA256SUMS contains ${what}, even if that is what was signed`, async () => {
      using instance = release();
      const text = Buffer.from(`${readFileSync(instance.at("SHA256SUMS"), "latin1")}${line}\n`);
      writeFileSync(instance.at("SHA256SUMS"), text);
      writeFileSync(instance.at("SHA256SUMS.sig"), key.sign(text));
      const report = await verifyRelease([instance.dir], { keys, unsigned: false });
      expect(problems(report)).toEqual([{ name: "SHA256SUMS", ok: false, reason }]);
    });
});

describe("an unsigned release", () => {
  it("is accepted only with --unsigned, and still checked", async () => {
    using instance = release();
    rmSync(instance.at("SHA256SUMS.sig"));
    expect((await verifyRelease([instance.dir], { keys, unsigned: false })).ok).toBe(false);
    expect(await verifyRelease([instance.dir], { keys, unsigned: true })).toMatchObject({ ok: true, signer: null });
    writeFileSync(instance.at("NOTES.md"), "Other notes.\n");
    expect(problems(await verifyRelease([instance.dir], { keys, unsigned: true }))).toEqual([
      { name: "NOTES.md", ok: false, reason: "its hash differs from SHA256SUMS" },
    ]);
    writeSums(instance.dir);
    expect((await verifyRelease([instance.dir], { keys, unsigned: true })).ok).toBe(true);
  });
});

describe("the command", () => {
  const run = (...args: string[]) => keyrack(["release", "verify", ...args], { cwd: temp.dir });

  it("prints one line and exits 0, or the problem and exits 4", async () => {
    expect(await run("release", "--keys", "keys")).toEqual({
      code: 0,
      stdout: `Verified 3 files of keyrack 1.2.3, signed by ${signer}.\n`,
      stderr: "",
    });
    const reason = `signed by ${fingerprint(key.publicKey)}, which is not a listed key`;
    expect(await run(join("release", X64))).toEqual({
      code: 4,
      stdout: "",
      stderr: `keyrack: Not verified. SHA256SUMS.sig: ${reason}.\n`,
    });
  });

  it("lists several problems, the first again in the error", async () => {
    using instance = release();
    for (const name of [X64, ARM64]) rmSync(instance.at(name));
    const ran = await run(instance.dir, "--keys", "keys");
    expect([ran.stdout, ran.stderr]).toEqual([
      `${ARM64}: missing\n${X64}: missing\n`,
      `keyrack: Not verified. ${ARM64}: missing.\n`,
    ]);
  });

  it("prints the report as JSON, with the same exit code", async () => {
    const good = await run("release", "--keys", "keys", "--json");
    expect([good.code, Object.keys(JSON.parse(good.stdout) as object)]).toEqual([
      0,
      ["ok", "version", "signer", "files"],
    ]);
    const bad = await run("nowhere", "--keys", "keys", "--json");
    expect(bad.code).toBe(4);
    expect(JSON.parse(bad.stdout)).toEqual({
      ok: false,
      version: null,
      signer: null,
      files: [{ name: "SHA256SUMS", ok: false, reason: "missing" }],
    });
  });

  it("exits 2 for paths in two folders and for a list of keys that cannot be read", async () => {
    expect(await run("release", "keys", "--keys", "keys")).toMatchObject({ code: 2, stdout: "" });
    const unreadable = await run("release", "--keys", "nowhere");
    expect(unreadable).toMatchObject({ code: 2, stdout: "", stderr: "keyrack: Cannot read nowhere: ENOENT.\n" });
  });
});
