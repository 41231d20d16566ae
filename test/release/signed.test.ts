// npm run release with a key: what it signs, what it refuses before it builds anything, and that what it made verifies.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { keyrack, tempDir } from "../../harness/processes/cli.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { SshKey } from "../../harness/release/ssh-key.ts";
import { flipBit } from "../../harness/release/tampering.ts";
import { root } from "../../harness/repository.ts";
import { IDENTITY, NAMESPACE } from "../../src/cli/commands/release/verify.ts";
import { commitOf, snapshotOf } from "../../tools/release/source.ts";

const { version } = snapshotOf(commitOf(root));
const release = (...args: string[]) =>
  spawnSync(process.execPath, [join(root, "tools/release/main.ts"), "--only", "npm", "--snapshot", ...args], {
    encoding: "utf8",
  });

/** A key of ssh-keygen, and the list of a fork that has this key alone. */
function fork() {
  const temp = tempDir();
  const at = (name: string): string => join(temp.dir, name);
  execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", at("key")]);
  const line = `${IDENTITY} namespaces="${NAMESPACE}" ${readFileSync(at("key.pub"), "utf8")}`;
  writeFileSync(at("keys"), line);
  return { at, line, [Symbol.dispose]: () => temp[Symbol.dispose]() };
}

describe.runIf(hasTool("ssh-keygen", "signed releases"))("npm run release", () => {
  it("signs with a listed key; its keys and its install.sh are the fork's, and it verifies until a bit changes", async () => {
    using f = fork();
    const out = f.at("release");
    const made = release("--out", out, "--sign-key", f.at("key"), "--own-keys", f.at("keys"));
    expect(made.status, made.stderr).toBe(0);
    const [last = ""] = made.stdout.trimEnd().split("\n").slice(-1);
    expect(last).toMatch(/^signed by SHA256:[\w+/]{43}$/);
    expect(readFileSync(join(out, "release-keys"), "utf8")).toBe(f.line);
    expect(readFileSync(join(out, "install.sh"), "utf8").includes(`<<'KEYS'\n${f.line.trimEnd()}\nKEYS\n`)).toBe(true);
    const verified = await keyrack(["release", "verify", out, "--keys", f.at("keys"), "--json"]);
    const report = JSON.parse(verified.stdout) as { files: { name: string }[] };
    expect([verified.code, report]).toMatchObject([
      0,
      { ok: true, version, signer: `${IDENTITY} ${last.slice("signed by ".length)}` },
    ]);
    const names = report.files.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining([`keyrack-sdk-${version}.tgz`, "install.sh", "RELEASE.json"]));
    expect((await keyrack(["release", "verify", out])).code).toBe(4); // not by a key of this repository
    flipBit(join(out, "install.sh"));
    const changed = await keyrack(["release", "verify", out, "--keys", f.at("keys")]);
    const stderr = "keyrack: Not verified. install.sh: its hash differs from SHA256SUMS.\n";
    expect(changed).toMatchObject({ code: 4, stdout: "", stderr });
  });

  it("refuses a key or a list that cannot be used with exit 2, before it makes anything", () => {
    using f = fork();
    writeFileSync(f.at("others"), new SshKey().line);
    writeFileSync(f.at("damaged"), `${f.line}ssh-ed25519 AAAA\n`);
    for (const [args, reason] of [
      [["--sign-key", f.at("key")], "not a listed key in"],
      [["--sign-key", f.at("key"), "--own-keys", f.at("others")], "not a listed key in"],
      [["--sign-key", f.at("nowhere"), "--own-keys", f.at("keys")], "ssh-keygen cannot sign with"],
      [["--own-keys", f.at("nowhere")], "Cannot read"],
      [["--own-keys", f.at("damaged")], "damaged, line 2: "],
    ] as const) {
      const { status, stderr } = release("--out", f.at("release"), ...args);
      expect([status, stderr]).toEqual([2, expect.stringContaining(reason) as string]);
    }
    expect(existsSync(f.at("release"))).toBe(false);
  });
});
