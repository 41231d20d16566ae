// A finished release on a machine with Debian alone: install.sh, the Debian package and the image give the same
// program, and each serves. Not part of the default run: `npm run release -- --snapshot && npm run test:release`.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readImage, type Platform } from "../../harness/oci-image.ts";
import { canChroot, runInDebian } from "../../harness/processes/chroot.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { Container, mintKey, NEW_VOLUME } from "../../harness/processes/container.ts";

const folder = process.env.KEYRACK_TEST_RELEASE ?? "";
const architecture = process.arch === "x64" ? "amd64" : "arm64";
const TIMEOUT_MS = 600_000;
const temp = tempDir();
afterAll(() => temp[Symbol.dispose]());

type Facts = { version: string; commit: string; release: boolean };

/** Hides what a developer's machine has and a server has not: Node, npm and compilers. */
const BARE = "rm -rf /usr/bin/node /usr/bin/npm /usr/local/bin/node /usr/local/bin/npm /usr/bin/cc /usr/bin/gcc\n";
const MINT = `keyrack ephemeral --seed -- sh -c 'keyrack key create --project-id $KEYRACK_PROJECT_ID \\
  --tenant-id $KEYRACK_TENANT_ID --env live --quiet' 2>/dev/null`;

/** Installs on a Debian that is thrown away; returns what the program says of itself, and a key it minted. */
function installed(install: string): { facts: Facts; key: string } {
  const { status, output } = runInDebian(
    temp.dir,
    `${BARE}${install}\necho ---\nkeyrack version --json\n${MINT}`,
    folder,
  );
  expect(status, output).toBe(0);
  const [facts = "", key = ""] = output.split("---\n")[1]?.split("\n") ?? [];
  return { facts: JSON.parse(facts) as Facts, key };
}

describe.runIf(folder && canChroot("an installed release"))("an installed release", { timeout: TIMEOUT_MS }, () => {
  const file = (pattern: RegExp): string => readdirSync(folder).find((name) => pattern.test(name)) ?? "";
  const facts = (): Facts => JSON.parse(readFileSync(join(folder, "RELEASE.json"), "utf8")) as Facts;
  const expectFacts = (found: Facts): void => {
    const { version, commit } = facts();
    expect(found).toMatchObject({ version, commit, release: !version.includes("-dev.") });
  };
  const MINTED = /^kr_live_[\w-]{40}$/;

  it("is in place by install.sh", () => {
    const signed = existsSync(join(folder, "SHA256SUMS.sig"));
    const { facts, key } = installed(`sh /mnt/install.sh --from /mnt ${signed ? "" : "--unsigned"}`);
    expectFacts(facts);
    expect(key).toMatch(MINTED);
  });

  it("is in place by dpkg", () => {
    const { facts, key } = installed(`dpkg --force-unsafe-io -i /mnt/${file(new RegExp(`_${architecture}\\.deb$`))}`);
    expectFacts(facts);
    expect(key).toMatch(MINTED);
  });

  it("is in place by its image", async () => {
    const { platforms } = readImage(join(folder, file(/-oci\.tar$/)), temp.dir);
    const platform = platforms.get(architecture) as Platform;
    expect(platform.config.config.Labels).toMatchObject({ "org.opencontainers.image.revision": facts().commit });
    const service = await new Container(platform, temp.dir, NEW_VOLUME).serve();
    try {
      expectFacts(JSON.parse((await service.cli(["version", "--json"])).stdout) as Facts);
      expect(await mintKey(service)).toMatch(MINTED);
    } finally {
      expect(await service.stop()).toBe(0);
    }
  });
});
