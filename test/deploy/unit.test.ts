// The systemd unit: one source, the same text from install.sh and from a release, accepted by systemd.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { systemdUnit } from "../../tools/release/unit.ts";

describe("the systemd unit", () => {
  it("runs the binary it is made for, as its own user, and may write to the data dir alone", () => {
    const unit = systemdUnit("/usr/bin/keyrack");
    expect(unit.includes("@BINARY@")).toBe(false);
    const lines = unit.split("\n");
    for (const line of [
      "ExecStart=/usr/bin/keyrack serve",
      "User=keyrack",
      "Environment=KEYRACK_DATA_DIR=/var/lib/keyrack",
      "EnvironmentFile=-/etc/keyrack/keyrack.env",
      "ProtectSystem=strict",
      "NoNewPrivileges=yes",
    ])
      expect(lines).toContain(line);
    expect(lines.filter((line) => line.startsWith("ReadWritePaths="))).toEqual(["ReadWritePaths=/var/lib/keyrack"]);
  });

  describe.runIf(hasTool("systemd-analyze", "the unit in systemd"))("in systemd", () => {
    /** What systemd reports about a unit. Its ExecStart must exist, so the test's is a file of every machine. */
    function verify(text: string): { status: number | null; output: string } {
      using temp = tempDir();
      const file = join(temp.dir, "keyrack.service");
      writeFileSync(file, text);
      const ran = spawnSync("systemd-analyze", ["verify", "--man=no", file], { encoding: "utf8" });
      return { status: ran.status, output: ran.stdout + ran.stderr };
    }

    it("is accepted without a remark", () => {
      expect(verify(systemdUnit("/bin/true"))).toEqual({ status: 0, output: "" });
    });

    it("would not be with a misspelled setting", () => {
      expect(verify(systemdUnit("/bin/true").replace("ProtectHome", "ProtectHomes")).output).toContain("ProtectHomes");
    });
  });
});
