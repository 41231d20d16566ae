// install.sh --from: installs exactly what was signed, keeps the binary before it, and leaves no trace of a failure.
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { machine as emptyMachine, PROGRAMS } from "../../harness/release/machine.ts";
import { root } from "../../harness/repository.ts";
import { IS_NIGHT } from "../../harness/rounds.ts";
import { smallBinary, writeSmallRelease } from "../../harness/release/small-release.ts";
import { snapshot } from "../../harness/release/snapshot.ts";
import { SshKey } from "../../harness/release/ssh-key.ts";
import { flipBit, tamperings } from "../../harness/release/tampering.ts";
import { GLIBC_MIN } from "../../tools/release/deb.ts";
import { releasedInstallScript } from "../../tools/release/install-script.ts";

/** bash, the least strict of them, at night. */
const SHELLS = [["dash"], ["busybox", "sh"], ...(IS_NIGHT ? [["bash", "--posix"]] : [])].filter(([name = ""]) =>
  hasTool(name, `install.sh in ${name}`),
);
const sshKeygen = hasTool("ssh-keygen", "installing signed releases");
const arch = process.arch === "arm64" ? "arm64" : "x64";
const tarball = (version: string, machine = arch): string => `keyrack-${version}-linux-${machine}.tar.gz`;
const other = arch === "x64" ? "arm64" : "x64";
const key = new SshKey();

/** Shared by all tests and never changed: two signed releases and the install.sh that trusts their key. */
let shared: ReturnType<typeof tempDir>;
beforeAll(() => {
  shared = tempDir();
  writeSmallRelease(join(shared.dir, "1.2.3"), { key });
  writeSmallRelease(join(shared.dir, "1.3.0"), { version: "1.3.0", key });
});
afterAll(() => shared[Symbol.dispose]());

/** A machine with a copy of release 1.2.3 in the folder "release". */
function machine({ keys = key.line, ...options }: { shell?: string[]; programs?: string[]; keys?: string } = {}) {
  const script = releasedInstallScript(readFileSync(join(root, "install.sh"), "utf8"), keys);
  const made = emptyMachine({ script, ...options });
  cpSync(join(shared.dir, "1.2.3"), made.at("release"), { recursive: true });
  return made;
}

describe.runIf(sshKeygen).each(SHELLS.map((shell) => ({ shell })))("install.sh --from, in $shell", ({ shell }) => {
  it("installs a signed release, and keeps the one before as keyrack.previous", async () => {
    using m = machine({ shell });
    const first = await m.run(["--from", "release", "--require-signature"]);
    expect(first).toMatchObject({
      code: 0,
      output: expect.stringContaining("The signature is good.\nInstalled keyrack 1.2.3"),
    });
    expect(m.installed()).toEqual(["1.2.3", null]);
    expect(first.output).toMatch(/\nNext: keyrack serve\n$/);
    const second = await m.run(["--from", join(shared.dir, "1.3.0", tarball("1.3.0"))]);
    expect(second.code, second.output).toBe(0);
    expect(second.output).toMatch(/\nRestart the server to use it\.\n$/);
    expect(m.installed()).toEqual(["1.3.0", "1.2.3"]);
    // The same one again: what can be rolled back to stays, and nothing is to be done.
    const again = await m.run([`--from=${join(shared.dir, "1.3.0")}`, "--version=1.3.0"]);
    expect(again.code, again.output).toBe(0);
    expect(again.output).not.toMatch(/Next|Restart/);
    expect(m.installed()).toEqual(["1.3.0", "1.2.3"]);
    expect(readdirSync(m.at("prefix/bin")).toSorted()).toEqual(["keyrack", "keyrack.previous"]);
    expect(readdirSync(m.at("tmp"))).toEqual([]);
  });

  it("refuses a changed tarball and leaves no file", async () => {
    using m = machine({ shell });
    flipBit(m.at("release", tarball("1.2.3")));
    const before = snapshot(m.dir);
    for (const source of ["release", join("release", tarball("1.2.3"))])
      expect(await m.run(["--from", source])).toMatchObject({ code: 4, output: expect.stringContaining(".tar.gz: ") });
    expect(snapshot(m.dir)).toEqual(before);
  });

  it("goes back to the binary before, and forward again", async () => {
    using m = machine({ shell });
    const nothing = await m.run(["--rollback"]);
    expect(nothing).toMatchObject({ code: 1, output: expect.stringContaining("keyrack.previous") });
    await m.run(["--from", "release"]);
    await m.run(["--from", join(shared.dir, "1.3.0")]);
    const backend = await m.run(["--rollback"]);
    expect(backend).toMatchObject({ code: 0, output: expect.stringContaining("keyrack 1.2.3") });
    expect(backend.output).toContain("The schemas were not compared"); // there is no database
    expect(m.installed()).toEqual(["1.2.3", "1.3.0"]);
    expect((await m.run(["--rollback"])).code).toBe(0);
    expect(m.installed()).toEqual(["1.3.0", "1.2.3"]);
    expect(await m.run(["--uninstall"])).toMatchObject({ code: 0 });
    expect(readdirSync(m.at("prefix/bin"))).toEqual([]);
  });
});

describe.runIf(sshKeygen)("a release", () => {
  for (const { what, tamper, names } of tamperings(tarball("1.2.3"), tarball("1.2.3", other)))
    it(`with ${what} is refused by name, and nothing is changed`, async () => {
      using m = machine();
      mkdirSync(m.at("prefix/bin"));
      writeFileSync(m.at("prefix/bin/keyrack"), smallBinary("1.1.0"), { mode: 0o755 });
      tamper(m.at("release"), key);
      const before = snapshot(m.dir);
      const ran = await m.run(["--from", "release"]);
      expect(ran.code, ran.output).toBe(4);
      expect(ran.output).toContain(names);
      expect(snapshot(m.dir)).toEqual(before);
      expect(m.installed()).toEqual(["1.1.0", null]);
    });

  it("with a binary that does not run, or is of another version, is refused, and the folders made for it are removed", async () => {
    using m = machine();
    for (const [binary, reason] of [
      ["#!/bin/sh\nexit 1\n", "does not run on this machine"],
      [smallBinary("6.6.6"), "is version 6.6.6"],
    ] as const) {
      rmSync(m.at("release"), { recursive: true });
      writeSmallRelease(m.at("release"), { key, binary });
      const before = snapshot(m.dir);
      const ran = await m.run(["--from", "release", "--prefix", m.at("new/prefix")]);
      expect(ran.code, ran.output).not.toBe(0);
      expect(ran.output).toContain(reason);
      expect(snapshot(m.dir)).toEqual(before);
    }
  });
});

describe.runIf(sshKeygen)("the signature", () => {
  it("is skipped with one line without ssh-keygen, unless it is required; the checksum never is", async () => {
    using m = machine({ programs: PROGRAMS.filter((name) => name !== "ssh-keygen") });
    const before = snapshot(m.dir);
    expect(await m.run(["--from", "release", "--require-signature"])).toEqual({
      code: 4,
      output:
        "install.sh: ssh-keygen is not installed, so the signature cannot be checked (apt-get install openssh-client). Nothing was changed.\n",
    });
    expect(snapshot(m.dir)).toEqual(before);
    const ran = await m.run(["--from", "release"]);
    expect(ran.output.split("\n")[0]).toBe(
      "ssh-keygen is not installed: the signature is not checked, only the checksum.",
    );
    expect([ran.code, ...m.installed()]).toEqual([0, "1.2.3", null]);
    writeFileSync(m.at("release", tarball("1.2.3")), "changed");
    expect((await m.run(["--from", "release"])).code).toBe(4);
  });

  it("may be missing where no key is listed, or with --unsigned, unless it is required", async () => {
    using m = machine({ keys: "# no key yet\n" });
    expect((await m.run(["--from", "release"])).code).toBe(4); // signed, by a key that is not listed
    rmSync(m.at("release/SHA256SUMS.sig"));
    expect((await m.run(["--from", "release", "--require-signature"])).code).toBe(4);
    expect(m.installed()).toEqual([null, null]);
    const ran = await m.run(["--from", "release"]);
    expect(ran.output.split("\n")[0]).toBe("The release is not signed: only its checksum is checked.");
    using strict = machine();
    rmSync(strict.at("release/SHA256SUMS.sig"));
    expect((await strict.run(["--from", "release"])).code).toBe(4);
    expect((await strict.run(["--from", "release", "--unsigned"])).code).toBe(0);
    expect([ran.code, ...m.installed(), ...strict.installed()]).toEqual([0, "1.2.3", null, "1.2.3", null]);
  });

  it("is checked against the keys inside the script, not against a file that came with the release", async () => {
    using m = machine({ keys: new SshKey().line });
    for (const place of ["release-keys", "release/release-keys"]) writeFileSync(m.at(place), key.line);
    expect((await m.run(["--from", "release"])).code).toBe(4);
    expect(m.installed()).toEqual([null, null]);
  });

  it("by either of two listed keys is good", async () => {
    using m = machine({ keys: new SshKey().line + key.line });
    expect((await m.run(["--from", "release", "--require-signature"])).code).toBe(0);
  });
});

describe.runIf(sshKeygen)("the source", () => {
  it("must be the version asked for, and for this machine", async () => {
    using m = machine();
    for (const [args, code] of [
      [["--from", "release", "--version", "1.2.4"], 4],
      [["--from", join("release", tarball("1.2.3", other))], 2],
      [["--from", "nowhere"], 2],
      [["--from", "install.sh"], 2],
      [["--from", "http://127.0.0.1:1/"], 2],
      [["--from", ""], 2],
      [["--from", "release", "--version", "1/2"], 2],
      [["--from", "release", "--rollback"], 2],
      [["--from", "release", "--unsigned", "--require-signature"], 2],
      [["--version", "1.2.3"], 2],
      [["--force"], 2],
      [[], 2], // no checkout to build from
    ] as const)
      expect((await m.run([...args])).code, args.join(" ")).toBe(code);
    expect(m.installed()).toEqual([null, null]);
  });

  it("that cannot be copied, as on a full disk, is not called incomplete", async () => {
    using m = machine({ programs: PROGRAMS.filter((name) => name !== "cp") });
    writeFileSync(m.at("programs/cp"), "#!/bin/sh\necho 'cp: No space left on device' >&2\nexit 1\n", { mode: 0o755 });
    const before = snapshot(m.dir);
    const line = `install.sh: cannot copy SHA256SUMS from ${m.at("release")} to ${m.at("prefix")}. Nothing was changed.`;
    const output = `cp: No space left on device\n${line}\n`;
    expect(await m.run(["--from", "release"])).toEqual({ code: 1, output });
    expect(snapshot(m.dir)).toEqual(before);
  });

  it("of two versions in one folder is chosen with --version", async () => {
    using m = machine();
    const sums = ["1.2.3", "1.3.0"]
      .map((version) => readFileSync(join(shared.dir, version, "SHA256SUMS"), "utf8"))
      .join("");
    cpSync(join(shared.dir, "1.3.0", tarball("1.3.0")), m.at("release", tarball("1.3.0")));
    writeFileSync(m.at("release/SHA256SUMS"), sums);
    writeFileSync(m.at("release/SHA256SUMS.sig"), key.sign(Buffer.from(sums)));
    expect((await m.run(["--from", "release"])).code).toBe(4);
    expect((await m.run(["--from", "release", "--version", "1.3.0"])).code).toBe(0);
    expect(m.installed()).toEqual(["1.3.0", null]);
  });

  it("is the folder of that name here, whatever CDPATH says", async () => {
    using m = machine();
    mkdirSync(m.at("elsewhere/release"), { recursive: true });
    expect((await m.run(["--from", "release"], { CDPATH: m.at("elsewhere") })).code).toBe(0);
    expect(m.installed()).toEqual(["1.2.3", null]);
  });

  it("brings its unit", async () => {
    using m = machine();
    mkdirSync(m.at("units"));
    writeFileSync(m.at("programs/id.sh"), "#!/bin/sh\necho 0\n");
    chmodSync(m.at("programs/id.sh"), 0o755);
    rmSync(m.at("programs/id"));
    symlinkSync(m.at("programs/id.sh"), m.at("programs/id"));
    const ran = await m.run(["--from", "release", "--systemd"], { KEYRACK_UNIT_DIR: m.at("units") });
    expect(ran.code, ran.output).toBe(0);
    const state = `# ${m.at("state")} was created by install.sh`;
    expect(readFileSync(m.at("units/keyrack.service"), "utf8")).toBe(
      `[Service]\nExecStart=${m.at("prefix/bin/keyrack")} serve\n${state}\n`,
    );
    expect(readdirSync(m.at("units"))).toEqual(["keyrack.service"]);
  });
});

describe.runIf(sshKeygen)("glibc", () => {
  it.each([
    ["2.28", 1],
    ["2.33", 1],
    [GLIBC_MIN, 0],
    ["2.41", 0],
    ["3.0", 0],
  ])("%s is accepted if it loads the addons inside the binary", async (version, code) => {
    using m = machine({ programs: PROGRAMS.filter((name) => name !== "getconf") });
    writeFileSync(m.at("programs/getconf"), `#!/bin/sh\necho "glibc ${version}"\n`, { mode: 0o755 });
    const before = snapshot(m.dir);
    const ran = await m.run(["--from", "release"]);
    expect(ran.code, ran.output).toBe(code);
    expect(ran.output.includes(`requires glibc ${GLIBC_MIN} or newer`)).toBe(code === 1);
    if (code === 1) expect(snapshot(m.dir)).toEqual(before);
  });
});
