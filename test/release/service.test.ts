// install.sh --systemd on a Debian that is thrown away: the user, the data dir and the unit are made with the binary,
// or not at all.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { canChroot, runInDebian } from "../../harness/processes/chroot.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { writeSmallRelease } from "../../harness/release/small-release.ts";
import { root } from "../../harness/repository.ts";
import { releasedInstallScript } from "../../tools/release/install-script.ts";

const TESTS = "install.sh --systemd";
const TIMEOUT_MS = 600_000;
const temp = tempDir();
afterAll(() => temp[Symbol.dispose]());

const INSTALL = "sh /mnt/install.sh --from /mnt/release --systemd";
/** Defines `state`, which prints what the installation made. */
const PREPARE = `
  mkdir -p /etc/systemd/system
  rm -f /etc/systemd/system/keyrack.service
  userdel keyrack 2>/dev/null || true
  export KEYRACK_STATE_DIR=/srv/keyrack
  state() {
    id -un keyrack 2>/dev/null || echo no user
    stat -c '%n %a %U' /srv/keyrack 2>/dev/null || echo no data dir
    grep -h '^ExecStart=' /etc/systemd/system/keyrack.service 2>/dev/null || echo no unit
    ls -A /etc/systemd/system | grep 'keyrack.*new' || true
  }
`;

describe.runIf(canChroot(TESTS) && hasTool("useradd", TESTS))(TESTS, { timeout: TIMEOUT_MS }, () => {
  beforeAll(() => {
    writeSmallRelease(join(temp.dir, "release"));
    const script = readFileSync(join(root, "install.sh"), "utf8");
    writeFileSync(join(temp.dir, "install.sh"), releasedInstallScript(script, "# no key\n"));
  });

  function lines(script: string): string[] {
    const { status, output } = runInDebian(temp.dir, PREPARE + script);
    expect(status, output).toBe(0);
    return output.trim().split("\n");
  }

  it("makes the user, the data dir and the unit", () => {
    expect(lines(`${INSTALL} >/dev/null 2>&1\nstate`)).toEqual([
      "keyrack",
      "/srv/keyrack 700 keyrack",
      "ExecStart=/usr/local/bin/keyrack serve",
    ]);
  });

  it("makes a folder for the binary that the user may enter, whatever root's umask is", () => {
    const installed = `umask 077; ${INSTALL} --prefix /opt/keyrack >/dev/null 2>&1
      runuser -u keyrack -- /opt/keyrack/bin/keyrack version`;
    expect(lines(installed)).toEqual(["1.2.3"]);
  });

  it("makes nothing below a folder that the user may not enter", () => {
    const refused = `mkdir -m 700 /opt/private; ${INSTALL} --prefix /opt/private/keyrack 2>&1 && exit 9\nstate`;
    expect(lines(refused)).toEqual([
      expect.stringContaining("not signed"),
      "Created the system user keyrack",
      "install.sh: the user keyrack cannot enter /opt/private. Make it and its parents accessible (chmod a+x), or choose another folder with --prefix.",
      "no user",
      "no data dir",
      "no unit",
    ]);
  });

  // A folder in the binary's place: everything before the last step works.
  const FAIL = `mkdir -p /usr/local/bin/keyrack; ${INSTALL} >/dev/null 2>&1 && exit 9\nstate`;

  it("makes none of them if the binary cannot be placed", () => {
    expect(lines(FAIL)).toEqual(["no user", "no data dir", "no unit"]);
  });

  it("leaves those that were there before", () => {
    const before = `
      useradd --system keyrack; mkdir -m 750 /srv/keyrack
      echo ExecStart=/usr/bin/other > /etc/systemd/system/keyrack.service\n`;
    expect(lines(before + FAIL)).toEqual(["keyrack", "/srv/keyrack 750 root", "ExecStart=/usr/bin/other"]);
  });

  it("takes back a user that was made when a signal came", () => {
    const useradd = `
      printf '#!/bin/sh\\n/usr/sbin/useradd "$@"; kill -TERM $PPID\\n' > /usr/local/sbin/useradd
      chmod 755 /usr/local/sbin/useradd\n`;
    expect(lines(`${useradd}${INSTALL} >/dev/null 2>&1 && exit 9\nstate`)).toEqual([
      "no user",
      "no data dir",
      "no unit",
    ]);
  });
});
