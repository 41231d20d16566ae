// Throwaway instances keep out of everything that is not theirs and leave nothing behind, however they end.
import { readdirSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { BIN, cleanEnv, startServer } from "../../harness/processes/server.ts";
import { keyrack, tempDir } from "../../harness/processes/cli.ts";

const left = (dir: string): string[] => readdirSync(dir).filter((name) => name.startsWith("keyrack-ephemeral-"));

describe("a throwaway instance", () => {
  it("touches no database, key or port that the environment or a settings file names", async () => {
    using temp = tempDir();
    const precious = join(temp.dir, "precious.db");
    writeFileSync(join(temp.dir, "keyrack.toml"), `database_url = "sqlite:${precious}"\nport = 1\n`);
    const env = {
      TMPDIR: temp.dir,
      KEYRACK_DATABASE_URL: `sqlite:${precious}`,
      KEYRACK_BOOTSTRAP_TOKEN: "a-token-of-the-real-deployment",
      KEYRACK_MASTER_KEY_FILE: join(temp.dir, "precious.key"),
    };
    const ran = await keyrack(["ephemeral", "--seed", "--", "sh", "-c", "echo $KEYRACK_BOOTSTRAP_TOKEN"], {
      cwd: temp.dir,
      env,
    });
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringMatching(/^krboot_/) });
    expect(readdirSync(temp.dir)).toEqual(["keyrack.toml"]);
  });

  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    it(`is gone after ${signal}, while it starts and when it runs`, async () => {
      using temp = tempDir();
      const starting = spawn(BIN, ["serve", "--ephemeral", "--json"], {
        env: cleanEnv({ TMPDIR: temp.dir }),
        stdio: "ignore",
      });
      while (left(temp.dir).length === 0 && starting.exitCode === null)
        await new Promise((resolve) => setImmediate(resolve));
      starting.kill(signal);
      await once(starting, "close");
      expect(left(temp.dir)).toEqual([]);
      const running = await startServer(["--ephemeral"], { TMPDIR: temp.dir });
      expect(left(temp.dir)).toHaveLength(1);
      expect(await running.end(signal)).toBe(0);
      expect(left(temp.dir)).toEqual([]);
    });
  }

  it("is gone when the command is killed, and hands its signal's status on", async () => {
    using temp = tempDir();
    const ran = await keyrack(["ephemeral", "--", "sh", "-c", "kill -9 $$"], { env: { TMPDIR: temp.dir } });
    expect(ran.code).toBe(137);
    expect(left(temp.dir)).toEqual([]);
  });

  it("takes no data dir", async () => {
    using temp = tempDir();
    const ran = await keyrack(["serve", "--ephemeral", "--data-dir", join(temp.dir, "data")]);
    expect(ran).toMatchObject({ code: 2, stdout: "" });
    expect(readdirSync(temp.dir)).toEqual([]);
  });
});

describe("a start that cannot listen", () => {
  for (const [why, args, env, says] of [
    [
      "a certificate that is not there",
      [],
      { KEYRACK_TLS_CERT: "nope.pem", KEYRACK_TLS_KEY: "nope.pem" },
      /KEYRACK_TLS_CERT/,
    ],
    ["a certificate that is none", [], { KEYRACK_TLS_CERT: "bad.pem", KEYRACK_TLS_KEY: "bad.pem" }, /KEYRACK_TLS_CERT/],
    ["half of TLS", [], { KEYRACK_TLS_CERT: "bad.pem" }, /go together/],
    ["an address that is not ours", ["--host", "192.0.2.1"], {}, /Cannot listen on 192\.0\.2\.1/],
    ["a name that is none", ["--host", "no-such-host.invalid"], {}, /Cannot listen on no-such-host/],
  ] as const) {
    it(`${why}: one sentence, exit 2`, async () => {
      using temp = tempDir();
      writeFileSync(join(temp.dir, "bad.pem"), "not a certificate");
      const ran = await keyrack(["serve", "--port", "0", "--data-dir", "data", ...args], { cwd: temp.dir, env });
      expect(ran.code, ran.stderr).toBe(2);
      const lines = ran.stderr
        .trim()
        .split("\n")
        .filter((line) => line.startsWith("keyrack:"));
      expect(lines).toEqual([expect.stringMatching(says)]);
    });
  }
});
