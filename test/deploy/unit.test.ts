// The systemd unit: one source, the same text from install.sh and from a release, accepted by systemd.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { hasTool } from "../../harness/processes/tools.ts";
import { systemdUnit } from "../../tools/release/unit.ts";

const valuesOf = (setting: string): string[] =>
  systemdUnit("/bin/true")
    .split("\n")
    .filter((line) => line.startsWith(`${setting}=`))
    .map((line) => line.slice(setting.length + 1));

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

  it("restarts the server after what passes by itself, and not after bad settings or a storage failure", () => {
    expect(valuesOf("Restart")).toEqual(["on-failure"]);
    expect(valuesOf("RestartPreventExitStatus")).toEqual(["2 70"]);
  });

  it("tries to start for as long as the database is away", () => {
    expect(["RestartSec", "StartLimitIntervalSec"].flatMap(valuesOf)).toEqual(["5s", "0"]);
  });

  it("answers a refused system call with an error, never with a signal that ends the server", () => {
    expect(valuesOf("SystemCallErrorNumber")).toEqual(["EPERM"]);
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

    /** The calls of a group such as @resources, which may contain other groups. */
    function callsOf(name: string): string[] {
      if (!name.startsWith("@")) return [name];
      const { stdout } = spawnSync("systemd-analyze", ["syscall-filter", name], { encoding: "utf8" });
      const members = stdout.split("\n").filter((line) => /^ +[@\w]/.test(line));
      return members.flatMap((line) => callsOf(line.trim()));
    }

    it("allows what the server, SQLite and a hook call, and nothing else that needs a privilege or changes resources", () => {
      const allowed = new Set<string>();
      for (const value of valuesOf("SystemCallFilter")) {
        const removes = value.startsWith("~");
        for (const call of value.replace("~", "").split(" ").flatMap(callsOf))
          if (removes) allowed.delete(call);
          else allowed.add(call);
      }
      // Worker threads call setpriority; nice and ionice of a hook, setpriority and ioprio_set.
      const needed = ["setpriority", "ioprio_set", "sched_getaffinity", "prlimit64", "memfd_create"];
      needed.push("clone3", "execve", "fdatasync", "fcntl", "statx", "madvise", "rseq", "capget");
      expect(needed.filter((call) => !allowed.has(call))).toEqual([]);
      const denied = ["mount", "ptrace", "bpf", "chroot", "setuid", "reboot", "init_module"];
      denied.push("setrlimit", "sched_setaffinity", "sched_setscheduler", "mbind"); // of @resources
      expect(denied.filter((call) => allowed.has(call))).toEqual([]);
    });
  });
});
