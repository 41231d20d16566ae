// Signatures of releases: agreement with ssh-keygen in both directions, and refusal of everything else.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { armor, field, SshKey } from "../../harness/release/ssh-key.ts";
import { readText } from "../../harness/repository.ts";
import { parseAllowedSigners } from "../../src/cli/commands/release/allowed-signers.ts";
import {
  BadSignature,
  encodePublicKey,
  fingerprint,
  verifySignature,
} from "../../src/cli/commands/release/ssh-signature.ts";
import { IDENTITY, NAMESPACE } from "../../src/cli/commands/release/verify.ts";
import { ExitError } from "../../src/cli/ui/output.ts";
import { checkSignKey, signSums } from "../../tools/release/sign.ts";
import { IS_NIGHT, propertyRuns } from "../../harness/rounds.ts";

const message = Buffer.from("0".repeat(64) + "  keyrack-1.2.3-linux-x64.tar.gz\n");
const key = new SshKey();
const signers = parseAllowedSigners(key.line, "keys", IDENTITY);
const verify = (text: string, bytes: Uint8Array = message) => verifySignature(bytes, text, NAMESPACE, signers);

/** The message of the refusal; null if the signature was accepted. Any other error fails the test. */
function refusal(text: string, bytes: Uint8Array = message): string | null {
  try {
    verify(text, bytes);
    return null;
  } catch (error) {
    if (error instanceof BadSignature) return error.message;
    throw error;
  }
}

describe("a signature", () => {
  for (const algorithm of ["sha256", "sha512"])
    it(`by a listed key over ${algorithm} is accepted`, () => {
      expect(fingerprint(verify(key.sign(message, { algorithm })).key)).toBe(fingerprint(key.publicKey));
    });

  it("with CRLF line ends, or without the last one, is accepted", () => {
    const text = key.sign(message);
    expect([refusal(text.replaceAll("\n", "\r\n")), refusal(text.trimEnd())]).toEqual([null, null]);
  });

  /** Positions whose flipped bit `isAccepted` accepts: one bit of every byte, at night every bit. */
  function acceptedFlips(bytes: Buffer, isAccepted: (changed: Buffer) => boolean): number[] {
    const flips = Array.from({ length: bytes.length * 8 }, (_, bit) => bit);
    return flips.filter((bit) => {
      if (!IS_NIGHT && bit % 8 !== (bit >> 3) % 8) return false;
      const changed = Buffer.from(bytes);
      changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
      return isAccepted(changed);
    });
  }

  it("is refused after any single flipped bit, also of the message", () => {
    const text = key.sign(message);
    const bytes = Buffer.from(text, "latin1");
    expect(acceptedFlips(bytes, (changed) => refusal(changed.toString("latin1")) === null)).toEqual([]);
    expect(acceptedFlips(message, (changed) => refusal(text, changed) === null)).toEqual([]);
  });

  it("is refused when cut off at any byte", () => {
    const text = key.sign(message).trimEnd();
    const accepted = Array.from(text, (_, length) => length).filter(
      (length) => refusal(text.slice(0, length)) === null,
    );
    expect(accepted).toEqual([]);
  });

  it("of another kind is refused with its reason", () => {
    const other = new SshKey();
    const blob = Buffer.concat([Buffer.from("SSHSIG"), Buffer.from([0, 0, 0, 1])]);
    const rsa = field(Buffer.concat([field("ssh-rsa"), field(Buffer.alloc(32))]));
    const unlisted = `signed by ${fingerprint(other.publicKey)}, which is not a listed key`;
    expect({
      namespace: refusal(key.sign(message, { namespace: "file" })),
      key: refusal(other.sign(message)),
      text: refusal("-----BEGIN PGP SIGNATURE-----"),
      empty: refusal(""),
      version: refusal(armor(Buffer.concat([Buffer.from("SSHSIG"), Buffer.from([0, 0, 0, 2])]))),
      type: refusal(armor(Buffer.concat([blob, rsa]))),
      length: refusal(armor(Buffer.concat([blob, Buffer.from([255, 255, 255, 255])]))),
      reserved: refusal(key.sign(message, { reserved: "x" })),
      hash: refusal(key.sign(message, { algorithm: "sha1" })),
    }).toEqual({
      namespace: 'signed for "file" instead of "keyrack-release"',
      key: unlisted,
      text: "not an SSH signature",
      empty: "not an SSH signature",
      version: "not an SSH signature of version 1",
      type: "not Ed25519",
      length: "cut off",
      reserved: "its reserved field is not empty",
      hash: "its hash is neither sha256 nor sha512",
    });
  });

  it("made of arbitrary bytes is refused, and nothing else is thrown", () => {
    const whole = Buffer.from(key.sign(message).split("\n").slice(1, -2).join(""), "base64");
    const arbitrary = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.uint8Array({ maxLength: 300 }).map((bytes) => armor(Buffer.from(bytes))),
      // A valid one with a part replaced.
      fc
        .tuple(fc.nat(whole.length - 1), fc.nat(40), fc.uint8Array({ maxLength: 40 }))
        .map(([at, length, bytes]) =>
          Buffer.concat([whole.subarray(0, at), Buffer.from(bytes), whole.subarray(at + length)]),
        )
        .filter((bytes) => !bytes.equals(whole))
        .map(armor),
    );
    fc.assert(
      fc.property(arbitrary, (text) => refusal(text) !== null),
      { numRuns: propertyRuns(300) },
    );
  });
});

describe("a list of keys", () => {
  const read = (text: string) => parseAllowedSigners(text, "keys", IDENTITY);
  const public64 = encodePublicKey(key.publicKey).toString("base64");

  it("may hold two keys, comments, blank lines, and keys of other identities, which do not count", () => {
    const other = new SshKey();
    const list = `# old and new\n\n${key.line}${other.line}someone@else ssh-ed25519 ${public64} comment\r\n`;
    expect(read(list).map((signer) => fingerprint(signer.key))).toEqual([
      fingerprint(key.publicKey),
      fingerprint(other.publicKey),
    ]);
  });

  it("restricts a key to its namespaces", () => {
    const signed = key.sign(message);
    const wrong = read(`${IDENTITY} namespaces="git,file" ssh-ed25519 ${public64}`);
    expect(() => verifySignature(message, signed, NAMESPACE, wrong)).toThrow("not a listed key");
    for (const options of ["", `namespaces="file,${NAMESPACE}" `])
      expect(
        verifySignature(message, signed, NAMESPACE, read(`${IDENTITY} ${options}ssh-ed25519 ${public64} c d`)).key,
      ).toEqual(key.publicKey);
  });

  for (const [what, line] of [
    ["another type of key", `${IDENTITY} ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAA`],
    ["a certificate authority", `${IDENTITY} cert-authority ssh-ed25519 ${public64}`],
    ["a validity that is not supported", `${IDENTITY} valid-before="20200101" ssh-ed25519 ${public64}`],
    ["two options", `${IDENTITY} namespaces="${NAMESPACE}",valid-before="20200101" ssh-ed25519 ${public64}`],
    ["a truncated key", `${IDENTITY} ssh-ed25519 ${public64.slice(0, 40)}`],
    ["a key without an identity", `ssh-ed25519 ${public64}`],
    ["a private key", "-----BEGIN OPENSSH PRIVATE KEY-----"],
  ] as const)
    it(`with ${what} is an error that names the line`, () => {
      expect(() => read(`# list\n${line}\n`)).toThrow(/^keys, line 2: /);
      expect(() => read(line)).toThrow(ExitError);
    });
});

const sshKeygen = hasTool("ssh-keygen", "signatures by ssh-keygen");

describe.runIf(sshKeygen)("with ssh-keygen", () => {
  /** A folder with a private key made by ssh-keygen, its list of allowed signers, and SHA256SUMS. */
  function folder() {
    const temp = tempDir();
    const at = (name: string): string => join(temp.dir, name);
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", at("key")]);
    const line = (file: string): string => `${IDENTITY} namespaces="${NAMESPACE}" ${readFileSync(file, "utf8")}`;
    writeFileSync(at("keys"), line(at("key.pub")));
    writeFileSync(at("SHA256SUMS"), message);
    const accepts = (keys: string, namespace = NAMESPACE): boolean => {
      const args = ["-Y", "verify", "-f", keys, "-I", IDENTITY, "-n", namespace, "-s", at("SHA256SUMS.sig")];
      return spawnSync("ssh-keygen", args, { input: message }).status === 0;
    };
    return { at, accepts, dir: temp.dir, [Symbol.dispose]: () => temp[Symbol.dispose]() };
  }

  it("agrees on signatures that the harness made", () => {
    using f = folder();
    writeFileSync(f.at("mine"), key.line);
    for (const algorithm of ["sha256", "sha512"]) {
      writeFileSync(f.at("SHA256SUMS.sig"), key.sign(message, { algorithm }));
      expect([f.accepts(f.at("mine")), f.accepts(f.at("keys")), f.accepts(f.at("mine"), "file")]).toEqual([
        true,
        false,
        false,
      ]);
    }
  });

  it("signs the sums of a release with a listed key, and prints its fingerprint", () => {
    using f = folder();
    checkSignKey(f.at("key"), f.at("keys"));
    const signer = signSums(f.dir, f.at("key"), f.at("keys"));
    const listed = parseAllowedSigners(readFileSync(f.at("keys"), "utf8"), "keys", IDENTITY);
    const text = readFileSync(f.at("SHA256SUMS.sig"), "utf8");
    expect(fingerprint(verifySignature(message, text, NAMESPACE, listed).key)).toBe(signer);
    expect(execFileSync("ssh-keygen", ["-lf", f.at("key.pub")], { encoding: "utf8" })).toContain(signer);
    expect([f.accepts(f.at("keys")), refusal(text)]).toEqual([true, `signed by ${signer}, which is not a listed key`]);
  });

  it("refuses to sign with a key that is not listed, and writes nothing", () => {
    using f = folder();
    writeFileSync(f.at("others"), key.line);
    writeFileSync(f.at("none"), "# no key yet\n");
    for (const keys of ["others", "none"]) {
      expect(() => checkSignKey(f.at("key"), f.at(keys))).toThrow("not a listed key");
      expect(() => signSums(f.dir, f.at("key"), f.at(keys))).toThrow(ExitError);
    }
    expect(() => signSums(f.dir, f.at("nowhere"), f.at("keys"))).toThrow("ssh-keygen cannot sign with");
    expect(() => readFileSync(f.at("SHA256SUMS.sig"))).toThrow("ENOENT");
  });

  it("makes and lists a key with the command in docs/releases.md", () => {
    using f = folder();
    mkdirSync(f.at(".ssh"));
    const [command = ""] = /^ssh-keygen -t .*$/m.exec(readText("docs/releases.md")) ?? [];
    const env = { PATH: process.env.PATH ?? "", HOME: f.dir };
    const unattended = command.replace("ssh-keygen", 'ssh-keygen -q -N ""');
    expect(spawnSync("sh", ["-c", unattended], { cwd: f.dir, env })).toMatchObject({ status: 0 });
    expect(signSums(f.dir, f.at(".ssh/keyrack-release"), f.at("release-keys"))).toMatch(/^SHA256:/);
    expect(f.accepts(f.at("release-keys"))).toBe(true);
  });

  it("refuses a listed key of another type", () => {
    using f = folder();
    execFileSync("ssh-keygen", ["-q", "-t", "ecdsa", "-N", "", "-C", "", "-f", f.at("ecdsa")]);
    expect(() => signSums(f.dir, f.at("ecdsa"), f.at("keys"))).toThrow("not Ed25519");
  });
});
