// The Debian package: what it contains, and what dpkg does with it on a Debian that is thrown away afterwards. The
// program in it is a script, or the binary that `npm run test:binary` names.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canChroot, runInDebian } from "../../harness/processes/chroot.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { IS_NIGHT } from "../../harness/rounds.ts";
import { TESTED_VERSION } from "../../harness/release/tested-version.ts";
import { buildDeb, GLIBC_MIN } from "../../tools/release/deb.ts";

const EPOCH = 1_700_000_000;
const TIMEOUT_MS = 600_000;
const builtBinary = process.env.KEYRACK_TEST_BIN;
const target = process.arch === "x64" ? "linux-x64" : "linux-arm64";

const temp = tempDir();
const at = (...parts: string[]): string => join(temp.dir, ...parts);
afterAll(() => temp[Symbol.dispose]());

async function build(version: string, out: string): Promise<void> {
  const script = at("keyrack");
  writeFileSync(script, `#!/bin/sh\necho ${version}\n`);
  const binary = builtBinary ?? script;
  await buildDeb({ binary, target, version, out, epoch: EPOCH, notices: "Notices.\n" });
}

describe.runIf(hasTool("dpkg-deb", "the Debian package"))("the Debian package", { timeout: TIMEOUT_MS }, () => {
  beforeAll(async () => {
    await build(TESTED_VERSION, at("one.deb"));
    await build("99.0.0-rc.1", at("two.deb"));
  }, TIMEOUT_MS);

  it("contains exactly these files, all owned by root by number", () => {
    const lines = execFileSync("dpkg-deb", ["--contents", at("one.deb")], { encoding: "utf8" })
      .trim()
      .split("\n");
    const files = lines.map((line) => line.split(/\s+/)).filter(([mode]) => !mode?.startsWith("d"));
    expect(files.map(([mode, owner, , , , path]) => `${mode} ${owner} ${path}`)).toEqual([
      "-rw-r----- 0/0 ./etc/keyrack/keyrack.env",
      "-rw-r--r-- 0/0 ./lib/systemd/system/keyrack.service",
      "-rwxr-xr-x 0/0 ./usr/bin/keyrack",
      "-rw-r--r-- 0/0 ./usr/share/bash-completion/completions/keyrack",
      "-rw-r--r-- 0/0 ./usr/share/doc/keyrack/README.md",
      "-rw-r--r-- 0/0 ./usr/share/doc/keyrack/THIRD_PARTY_NOTICES.txt.gz",
      "-rw-r--r-- 0/0 ./usr/share/doc/keyrack/changelog.gz",
      "-rw-r--r-- 0/0 ./usr/share/doc/keyrack/copyright",
      "-rw-r--r-- 0/0 ./usr/share/fish/vendor_completions.d/keyrack.fish",
      "-rw-r--r-- 0/0 ./usr/share/zsh/vendor-completions/_keyrack",
    ]);
  });

  it("declares what it needs, and its pre-releases come before the release", () => {
    const field = (file: string, name: string): string =>
      execFileSync("dpkg-deb", ["--field", at(file), name], { encoding: "utf8" }).trim();
    expect(field("one.deb", "Depends")).toBe(`libc6 (>= ${GLIBC_MIN}), libstdc++6, libgcc-s1, adduser`);
    expect(field("one.deb", "Suggests")).toBe("postgresql-client");
    expect([field("one.deb", "Version"), field("two.deb", "Version")]).toEqual([
      TESTED_VERSION.replace("-", "~"),
      "99.0.0~rc.1",
    ]);
  });

  it("has the same bytes when it is built elsewhere, with another umask", async () => {
    const hash = (file: string): string =>
      createHash("sha256")
        .update(readFileSync(at(file)))
        .digest("hex");
    mkdirSync(at("elsewhere"));
    const { TMPDIR } = process.env;
    const umask = process.umask(0o077);
    process.env.TMPDIR = at("elsewhere");
    try {
      await build(TESTED_VERSION, at("again.deb"));
    } finally {
      process.umask(umask);
      if (TMPDIR === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = TMPDIR;
    }
    expect(hash("again.deb")).toBe(hash("one.deb"));
  });

  it("has scripts of POSIX sh", () => {
    for (const name of ["postinst", "prerm", "postrm"]) {
      const script = execFileSync("dpkg-deb", ["--info", at("one.deb"), name], { encoding: "utf8" });
      expect(script.startsWith("#!/bin/sh\n")).toBe(true);
      expect(execFileSync("sh", ["-n"], { input: script }).length).toBe(0);
    }
  });

  describe.runIf(canChroot("dpkg in a chroot") && hasTool("adduser", "dpkg in a chroot"))("in dpkg", () => {
    const DPKG = 'dpkg() { command dpkg --force-unsafe-io --force-confold "$@" </dev/null; }\n';
    /** A systemd that only logs what it is asked to do. */
    const SYSTEMD = `mkdir -p /run/systemd/system
      printf '#!/bin/sh\\necho "$*" >> /systemctl.log\\n' > /usr/local/sbin/systemctl
      chmod 755 /usr/local/sbin/systemctl
      asked() { echo "$1: $(cat /systemctl.log 2>/dev/null | tr '\\n' ' ')"; rm -f /systemctl.log; }\n`;

    function lines(script: string): string[] {
      const { status, output } = runInDebian(temp.dir, DPKG + script);
      expect(status, output).toBe(0);
      return output.trim().split("\n");
    }

    it("makes the user, the data dir and the settings file, and starts nothing", () => {
      const output = lines(`
        dpkg -i /mnt/one.deb >/dev/null
        getent passwd keyrack | cut -d: -f1,6,7
        stat -c '%n %a %U:%G' /var/lib/keyrack /etc/keyrack/keyrack.env
        echo "settings: $(grep -vc '^#\\|^$' /etc/keyrack/keyrack.env)"
        ls /etc/systemd/system/multi-user.target.wants | grep -c keyrack || true
        pgrep -c keyrack || true
        dpkg --verify keyrack
        /usr/bin/keyrack version`);
      expect(output).toEqual([
        "keyrack:/var/lib/keyrack:/usr/sbin/nologin",
        "/var/lib/keyrack 700 keyrack:keyrack",
        "/etc/keyrack/keyrack.env 640 root:keyrack",
        "settings: 0",
        "0",
        "0",
        TESTED_VERSION,
      ]);
    });

    it("keeps the settings when it is removed; purging removes them and the data is left", () => {
      const output = lines(`
        dpkg -i /mnt/one.deb >/dev/null
        echo data > /var/lib/keyrack/keyrack.db
        echo KEYRACK_PORT=5000 >> /etc/keyrack/keyrack.env
        mkdir -p /etc/systemd/system/multi-user.target.wants
        ln -s /lib/systemd/system/keyrack.service /etc/systemd/system/multi-user.target.wants/
        dpkg -r keyrack >/dev/null
        ls /usr/bin/keyrack /lib/systemd/system/keyrack.service 2>/dev/null || echo removed
        tail -n 1 /etc/keyrack/keyrack.env
        dpkg -P keyrack | grep -v '^(Reading\\|^Purging'
        ls -d /etc/keyrack /etc/systemd/system/multi-user.target.wants/keyrack.service 2>/dev/null || echo purged
        cat /var/lib/keyrack/keyrack.db
        stat -c '%a %U:%G' /var/lib/keyrack`);
      expect(output).toEqual([
        "removed",
        "KEYRACK_PORT=5000",
        "Keyrack's data was not removed: it is in /var/lib/keyrack. Delete it, and the user keyrack, when you no longer need them.",
        "purged",
        "data",
        "700 keyrack:keyrack",
      ]);
    });

    it("keeps changed settings, data and their owners over an upgrade, and goes back to the older package", () => {
      const output = lines(`
        dpkg -i /mnt/one.deb >/dev/null
        sed -i 's/^#KEYRACK_PORT=.*/KEYRACK_PORT=5000/' /etc/keyrack/keyrack.env
        echo data > /var/lib/keyrack/keyrack.db
        dpkg -i /mnt/two.deb >/dev/null
        grep -c '^KEYRACK_PORT=5000$' /etc/keyrack/keyrack.env
        stat -c '%a %U:%G' /etc/keyrack/keyrack.env
        cat /var/lib/keyrack/keyrack.db
        dpkg-query -W -f '\${Version} \${Status}\\n' keyrack
        dpkg -i /mnt/one.deb >/dev/null 2>&1
        cat /var/lib/keyrack/keyrack.db
        dpkg-query -W -f '\${Version} \${Status}' keyrack`);
      const older = `${TESTED_VERSION.replace("-", "~")} install ok installed`;
      expect(output).toEqual(["1", "640 root:keyrack", "data", "99.0.0~rc.1 install ok installed", "data", older]);
    });

    // apt reads the lists of every package first.
    it.runIf(IS_NIGHT && hasTool("apt-get", "the older Debian package"))("goes back with apt too", () => {
      const output = lines(`
        dpkg -i /mnt/two.deb >/dev/null
        apt-get install -y --allow-downgrades /mnt/one.deb >/dev/null 2>&1
        dpkg-query -W -f '\${Version} \${Status}' keyrack`);
      expect(output).toEqual([`${TESTED_VERSION.replace("-", "~")} install ok installed`]);
    });

    it("asks systemd to restart on an upgrade only what was running, and to stop on removal", () => {
      const output = lines(`${SYSTEMD}
        dpkg -i /mnt/one.deb >/dev/null; asked install
        dpkg -i /mnt/two.deb >/dev/null; asked upgrade
        dpkg -r keyrack >/dev/null; asked remove
        dpkg -P keyrack >/dev/null; asked purge`);
      expect(output.map((line) => line.trim())).toEqual([
        "install: daemon-reload",
        "upgrade: daemon-reload try-restart keyrack.service",
        "remove: stop keyrack.service daemon-reload",
        "purge: daemon-reload",
      ]);
    });

    it("has scripts that are safe to repeat", () => {
      const output = lines(`
        dpkg -i /mnt/one.deb >/dev/null
        uid=$(id -u keyrack)
        chmod 750 /var/lib/keyrack
        for n in 1 2; do /var/lib/dpkg/info/keyrack.postinst configure ${TESTED_VERSION}; done
        [ "$(id -u keyrack)" = "$uid" ] && stat -c '%a' /var/lib/keyrack
        /var/lib/dpkg/info/keyrack.prerm remove && /var/lib/dpkg/info/keyrack.prerm remove && echo stopped twice
        cp /var/lib/dpkg/info/keyrack.postrm /postrm
        dpkg -P keyrack >/dev/null
        rm -rf /var/lib/keyrack
        /postrm purge && /postrm purge && echo purged twice`);
      expect(output).toEqual(["750", "stopped twice", "purged twice"]);
    });

    it("uses the user that install.sh made, and refuses a person's account", () => {
      expect(lines(`useradd --system keyrack; dpkg -i /mnt/one.deb >/dev/null; stat -c %U /var/lib/keyrack`)).toEqual([
        "keyrack",
      ]);
      const refused = runInDebian(temp.dir, `${DPKG}useradd --uid 4321 keyrack; dpkg -i /mnt/one.deb`);
      expect(refused.status).toBe(1);
      expect(refused.output).toContain("not a system user");
    });

    it.runIf(builtBinary)("gives a server that mints a key as its own user", () => {
      const output = lines(`
        dpkg -i /mnt/one.deb >/dev/null
        cat > /serve.sh <<'END'
        exec keyrack ephemeral --seed -- sh -c 'keyrack key create --project-id $KEYRACK_PROJECT_ID \\
          --tenant-id $KEYRACK_TENANT_ID --env live --quiet'
END
        chmod 755 /serve.sh
        runuser -u keyrack -- sh /serve.sh 2>/dev/null`);
      expect(output).toEqual([expect.stringMatching(/^kr_live_[\w-]{40}$/)]);
    });
  });
});
