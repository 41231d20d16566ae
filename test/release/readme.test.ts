// The ways to install that the README and docs/operate.md show, and to check a release that SECURITY.md shows, run as
// written, with a signed release made here. Without a binary the program in it is a script that starts the bundled one,
// and the image is left out; `npm run test:binary` runs all with the built one.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readImage, type Platform } from "../../harness/oci-image.ts";
import { makeCertificate, type CertificateFiles } from "../../harness/processes/certificate.ts";
import { canChroot, runInDebian } from "../../harness/processes/chroot.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { Container, mintKey, NEW_VOLUME } from "../../harness/processes/container.ts";
import { BIN } from "../../harness/processes/server.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { serveFiles, type FileServer } from "../../harness/release/file-server.ts";
import { writeSmallRelease, writeSums } from "../../harness/release/small-release.ts";
import { SshKey } from "../../harness/release/ssh-key.ts";
import { flipBit } from "../../harness/release/tampering.ts";
import { TESTED_VERSION } from "../../harness/release/tested-version.ts";
import { readText, root } from "../../harness/repository.ts";
import { VERSION } from "../../src/platform/version.ts";
import { architectures } from "../../tools/release/architectures.ts";
import { buildDeb } from "../../tools/release/deb.ts";
import { releasedInstallScript } from "../../tools/release/install-script.ts";
import { buildOci } from "../../tools/release/oci.ts";
import { buildTarball } from "../../tools/release/tarball.ts";
import { systemdUnit } from "../../tools/release/unit.ts";
import type { Target } from "../../tools/sea/targets.ts";
import { PLACEHOLDER } from "../../tools/version/places.ts";

const here: Target = process.arch === "x64" ? "linux-x64" : "linux-arm64";
const TIMEOUT_MS = 600_000;
const EPOCH = 1_700_000_000;
const PUBLISHED = "https://github.com/keyrack/keyrack/releases/download";
const builtBinary = process.env.KEYRACK_TEST_BIN;
const IMAGE = `keyrack-${TESTED_VERSION}-oci.tar`;
const DEB = `keyrack_${TESTED_VERSION}_${architectures[here]}.deb`;

/** The shell commands of a section. */
function blocksIn(file: string, title: string): string[] {
  const section = new RegExp(`^## ${title}\\n([\\s\\S]*?)^## `, "m").exec(readText(file))?.[1] ?? "";
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = ""]) => block);
}

const blocks = blocksIn("README.md", "Install");
const [source = "", release = ""] = blocks;
const [debian = ""] = blocksIn("docs/operate.md", "Debian package");
const [image = ""] = blocksIn("docs/operate.md", "Container image");
const variablesOf = (block: string): string => block.match(/^[A-Z]+=.*\n/gm)?.join("") ?? "";

const temp = tempDir();
const at = (...parts: string[]): string => join(temp.dir, ...parts);
afterAll(() => temp[Symbol.dispose]());
const key = new SshKey();
let certificate: CertificateFiles;
let server: FileServer | undefined;

async function makeRelease(): Promise<void> {
  mkdirSync(at("release"));
  mkdirSync(at("work"));
  writeFileSync(at("keyrack"), `#!/bin/sh\nexec ${BIN} "$@"\n`);
  writeFileSync(at("notices"), "Notices.\n");
  const common = { binary: builtBinary ?? at("keyrack"), target: here, version: TESTED_VERSION, epoch: EPOCH };
  const script = releasedInstallScript(readText("install.sh"), key.line);
  const installation = { "install.sh": script, "keyrack.service": systemdUnit("/usr/local/bin/keyrack") };
  await buildTarball({ ...common, out: at("release"), work: at("work"), notices: at("notices"), installation });
  await buildDeb({ ...common, out: at("release", DEB), notices: "Notices.\n" });
  writeFileSync(at("release/install.sh"), script);
  if (builtBinary) {
    const binaries = { [here]: builtBinary };
    await buildOci({ binaries, version: TESTED_VERSION, commit: null, out: at("release", IMAGE), epoch: EPOCH });
  }
  writeSums(at("release"), key);
}

/** What a server has beside the README's own programs: sudo, and a systemd that only logs what it is asked to do. */
const SERVER = `
exec 2>&1
export CURL_CA_BUNDLE=/mnt/server.crt HOME=/root
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
printf '#!/bin/sh\\nexec "$@"\\n' > /usr/local/sbin/sudo
printf '#!/bin/sh\\necho "systemctl $*"\\n' > /usr/local/sbin/systemctl
chmod 755 /usr/local/sbin/sudo /usr/local/sbin/systemctl
mkdir -p /root/downloads && cd /root/downloads
`;

/** Runs a block on a Debian that is thrown away, then `after`, and returns the output of that. */
function run(block: string, after: string, from = server): { before: string; after: string } {
  const script = block.replaceAll(PUBLISHED, from?.url ?? "").replace(/^VERSION=.*$/m, `VERSION=${TESTED_VERSION}`);
  const { status, output } = runInDebian(temp.dir, `${SERVER}${script}\necho ---\n${after}`);
  expect(status, output).toBe(0);
  const [before = "", rest = ""] = output.split("---\n");
  return { before, after: rest.trim() };
}

const SERVES = "keyrack version; keyrack ephemeral --seed -- keyrack project list --quiet 2>/dev/null";
const SERVED = new RegExp(`^${TESTED_VERSION.replaceAll(".", "\\.")}\\n[0-9a-f-]{36}$`);

describe("README.md", { timeout: TIMEOUT_MS }, () => {
  it("shows the source, and then a release, of this version or the next; docs/operate.md has the packages", () => {
    expect(blocks.length).toBe(2);
    // 0.1.0 has none of the files.
    const shown = VERSION === "0.1.0" ? PLACEHOLDER : VERSION;
    expect(variablesOf(release)).toBe(`VERSION=${shown}\nRELEASE=${PUBLISHED}/v$VERSION\n`);
    for (const block of [debian, image])
      expect(variablesOf(block)).toBe(`VERSION=${PLACEHOLDER}\nRELEASE=${PUBLISHED}/v$VERSION\n`);
    expect(source.match(/^\S+(?: \w+)?/gm)).toEqual(["git clone", "./install.sh", "keyrack serve"]);
  });

  const canRun = canChroot("the README's installations") && hasTool("curl", "the README's installations");
  describe.runIf(canRun)("installs", () => {
    beforeAll(async () => {
      await makeRelease();
      certificate = makeCertificate(temp.dir, "server", "localhost");
      server = await serveFiles(at("release"), certificate);
    }, TIMEOUT_MS);
    afterAll(() => server?.[Symbol.asyncDispose]());

    it.runIf(hasTool("ssh-keygen", "the README's signed release"))("a release, after looking at install.sh", () => {
      const { before, after } = run(release, SERVES);
      // What was looked at is all of install.sh: too long for a matcher.
      const shown = [
        "# Installs Keyrack from a release",
        "The signature is good.\n",
        `Installed keyrack ${TESTED_VERSION} as /usr/local/bin/keyrack\n`,
      ];
      expect(shown.filter((text) => !before.includes(text))).toEqual([]);
      expect(after).toMatch(SERVED);
    });

    it.runIf(hasTool("apt-get", "the README's Debian package"))("the Debian package", () => {
      const { before, after } = run(debian, `command -v keyrack; ${SERVES}`);
      expect(before).toContain("systemctl enable --now keyrack\n");
      const [path, ...served] = after.split("\n");
      expect(path).toBe("/usr/bin/keyrack");
      expect(served.join("\n")).toMatch(SERVED);
    });

    it.runIf(hasTool("apt-get", "the README's Debian package"))("no Debian package that was changed", async () => {
      cpSync(at("release"), at("changed"), { recursive: true });
      flipBit(at("changed", DEB));
      await using changed = await serveFiles(at("changed"), certificate);
      const { before, after } = run(debian, "command -v keyrack || echo none", changed);
      expect(before).toContain(`${DEB}: FAILED\n`);
      expect(after).toBe("none");
    });

    it.runIf(builtBinary)("the image", async () => {
      // No engine runs in most test environments: the image is started as one would start it.
      const commands = image.replaceAll(/ \\\n */g, " ");
      const words = [...commands.matchAll(/^ *podman (\w+) (.*)$/gm)].map(([, verb = "", rest = ""]) => [verb, rest]);
      const hardened = "--read-only --cap-drop all --security-opt no-new-privileges";
      expect(words).toEqual([
        ["load", "-i keyrack-$VERSION-oci.tar"],
        ["run", `-d --name keyrack ${hardened} -p 127.0.0.1:4747:4747 -v keyrack:/data keyrack:$VERSION`],
      ]);
      const fetched = commands.replace(/^ *podman load/m, "  echo load").replace(/^podman.*\n/gm, "");
      expect(run(fetched, "cat keyrack-*-oci.tar | sha256sum").after).toBe(
        execFileSync("sha256sum", { input: readFileSync(at("release", IMAGE)), encoding: "utf8" }).trim(),
      );
      const index = execFileSync("tar", ["-xOf", at("release", IMAGE), "index.json"], { encoding: "utf8" });
      expect(index).toContain(`"io.containerd.image.name":"docker.io/library/keyrack:${TESTED_VERSION}"`);
      const { platforms } = readImage(at("release", IMAGE), temp.dir);
      const platform = platforms.get(architectures[here]) as Platform;
      expect(platform.config.config).toMatchObject({ ExposedPorts: { "4747/tcp": {} }, Volumes: { "/data": {} } });
      const service = await new Container(platform, temp.dir, NEW_VOLUME).serve();
      try {
        expect(await mintKey(service)).toMatch(/^kr_live_/);
      } finally {
        expect(await service.stop()).toBe(0);
      }
    });

    it.runIf(builtBinary)("from source", () => {
      // A port of its own. The file may not exist yet when it is first read.
      const serve = "KEYRACK_PORT=0 keyrack serve > /served 2>&1 &";
      const started = source.replace(/^keyrack serve/m, serve);
      expect(started).toContain(serve);
      const stop = `until grep -os 'listening on http:.*:' /served; do kill -0 $!; sleep 0.1; done; kill $!; wait $!`;
      const { before, after } = run(`cd ${root}\n${started}`, `${stop}\n${SERVES}`);
      const [, built = ""] = /^Installed keyrack (\S+) as \/usr\/local\/bin\/keyrack$/m.exec(before) ?? [];
      expect(built).toMatch(new RegExp(`^${VERSION}-dev\\.`));
      const [listening, ...rest] = after.split("\n");
      expect(listening).toBe("listening on http://127.0.0.1:");
      expect(rest).toEqual([built, expect.stringMatching(/^[0-9a-f-]{36}$/)]);
    });
  });
});

describe.runIf(hasTool("ssh-keygen", "the check in SECURITY.md"))("SECURITY.md", () => {
  const block = /^```sh\n([\s\S]*?)^```$/m.exec(readText("SECURITY.md"))?.[1] ?? "";
  const check = () => spawnSync("sh", ["-ec", block], { cwd: at("check"), encoding: "utf8" });

  it("checks a release of which some files were downloaded, and refuses one that was changed", () => {
    const folder = at("check/keyrack-release");
    writeSmallRelease(folder, { key });
    writeFileSync(at("check/release-keys"), key.line);
    rmSync(join(folder, "keyrack-1.2.3-linux-arm64.tar.gz"));
    const good = check();
    expect(good.status, good.stderr).toBe(0);
    expect(good.stdout).toContain("keyrack-1.2.3-linux-x64.tar.gz: OK\n");
    flipBit(join(folder, "keyrack-1.2.3-linux-x64.tar.gz"));
    expect(check().status).toBe(1);
    writeSums(folder);
    expect(check().status).toBe(255);
  });
});
