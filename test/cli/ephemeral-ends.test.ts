// How an ephemeral instance ends: whatever ends it, its data is deleted.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { ephemeralFolders, keyrack, tempDir } from "../../harness/processes/cli.ts";
import { BIN, cleanEnv, startServer } from "../../harness/processes/server.ts";
import { until } from "../../harness/waiting.ts";

describe("an ephemeral instance", () => {
  it("is deleted after a signal while it starts", async () => {
    using temp = tempDir();
    const starting = spawn(BIN, ["serve", "--ephemeral", "--json"], {
      env: cleanEnv({ TMPDIR: temp.dir }),
      stdio: "ignore",
    });
    await until(() => ephemeralFolders(temp.dir).length > 0 || starting.exitCode !== null);
    starting.kill("SIGHUP"); // which reloads certificates where a server has any
    await once(starting, "close");
    expect(ephemeralFolders(temp.dir)).toEqual([]);
  });

  // SIGTERM is in serve.test.ts, SIGINT in ephemeral.test.ts.
  it("is deleted after SIGHUP while it runs", async () => {
    using temp = tempDir();
    const running = await startServer(["--ephemeral"], { TMPDIR: temp.dir });
    expect(ephemeralFolders(temp.dir)).toHaveLength(1);
    expect(await running.end("SIGHUP")).toBe(0);
    expect(ephemeralFolders(temp.dir)).toEqual([]);
  });

  it("is deleted when the command is killed, and exits with the signal's status", async () => {
    using temp = tempDir();
    const ran = await keyrack(["ephemeral", "--", "sh", "-c", "kill -9 $$"], { env: { TMPDIR: temp.dir } });
    expect(ran.code).toBe(137);
    expect(ephemeralFolders(temp.dir)).toEqual([]);
  });

  it("exits 127 with one line if the command does not exist", async () => {
    const ran = await keyrack(["ephemeral", "--", "no-such-command-here"]);
    expect(ran.code).toBe(127);
    expect(ran.stderr).toContain("Cannot run no-such-command-here: ENOENT");
  });
});
