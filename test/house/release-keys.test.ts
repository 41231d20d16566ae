// The list of keys that may sign a release, and that no private key is in the repository.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readText, root } from "../../harness/repository.ts";
import { parseAllowedSigners } from "../../src/cli/commands/release/allowed-signers.ts";
import { fingerprint } from "../../src/cli/commands/release/ssh-signature.ts";
import { IDENTITY, NAMESPACE } from "../../src/cli/commands/release/verify.ts";

const keys = parseAllowedSigners(readText("release-keys"), "release-keys", IDENTITY);

describe("release-keys", () => {
  it("lists at most two keys, each for releases only", () => {
    expect(keys.length).toBeLessThanOrEqual(2);
    for (const { namespaces } of keys) expect(namespaces).toEqual([NAMESPACE]);
  });

  it("has its fingerprints in SECURITY.md, and no others are there", () => {
    const shown = readText("SECURITY.md").match(/SHA256:[\w+/]+/g) ?? [];
    expect(shown).toEqual(keys.map(({ key }) => fingerprint(key)));
  });
});

describe("the repository", () => {
  it("holds no private key", () => {
    const tracked = execFileSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" }).split("\0");
    const files = tracked.filter((file) => file !== "" && existsSync(join(root, file)));
    const privateKey = /-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[\w+/=]{16}/;
    expect(files.filter((file) => privateKey.test(readText(file)))).toEqual([]);
  });
});
