// `keyrack config show/check/example`.
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { keyrack, refusedServe, tempDir } from "../../harness/processes/cli.ts";

describe("keyrack config", () => {
  it("shows name, value and source, and hides secrets", async () => {
    using temp = tempDir();
    writeFileSync(join(temp.dir, "keyrack.toml"), 'region = "eu"\nport = 5000\n');
    const env = { KEYRACK_DATABASE_URL: "postgres://u:hunter2@h/db", KEYRACK_PORT: "6000" };
    const { code, stdout } = await keyrack(["config", "show"], { env, cwd: temp.dir });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Network and TLS:\n {2}KEYRACK_HOST .*\n {2}KEYRACK_PORT +6000 +environment$/m);
    expect(stdout).toMatch(/KEYRACK_REGION +eu +file/);
    expect(stdout).toMatch(/KEYRACK_PORT +6000 +environment/);
    expect(stdout).toMatch(/KEYRACK_DATABASE_URL +\(hidden\) +environment/);
    expect(stdout).not.toContain("hunter2");
  });

  it("rejects an unknown key and suggests the nearest one; the example file is valid", async () => {
    using temp = tempDir();
    writeFileSync(join(temp.dir, "keyrack.toml"), 'regoin = "eu"\n');
    const bad = await keyrack(["config", "check"], { cwd: temp.dir });
    expect(bad.code).toBe(2);
    expect(bad.stderr).toContain('unknown setting "regoin". Did you mean "region"?');
    const { stdout } = await keyrack(["config", "example"]);
    writeFileSync(join(temp.dir, "keyrack.toml"), stdout.replaceAll(/^#([a-z_]+ = (?!""))/gm, "$1"));
    expect(await keyrack(["config", "check"], { cwd: temp.dir })).toMatchObject({
      code: 0,
      stdout: "The settings are valid.\n",
    });
  });

  it.each([
    [{ KEYRACK_TLS_CERT: "/x" }, "KEYRACK_TLS_CERT and KEYRACK_TLS_KEY go together."],
    [{ KEYRACK_BOOTSTRAP_TOKEN: "short" }, "The bootstrap token is too short"],
    [{ KEYRACK_METRICS: "127.0.0.1:4747" }, "KEYRACK_METRICS and KEYRACK_PORT name the same port."],
    [{ KEYRACK_METER_URL: "https://meter.example.com" }, "KEYRACK_METER_URL needs KEYRACK_PUBLIC_URL"],
    [{ KEYRACK_SCANNER_KEYS_FILE: "/x", KEYRACK_SCANNER_KEYS_URL: "https://keys.example.com" }, "not both"],
    [{ KEYRACK_BOOTSTRAP_TOKEN: "x".repeat(22), KEYRACK_BOOTSTRAP_TOKEN_FILE: "/x" }, "not both"],
    [{ KEYRACK_RESTORE_TEST_DATABASE_URL: "sqlite:x.db" }, "must be a postgres:// URL"],
    [{ KEYRACK_IDEMPOTENCY_STORE: "redis" }, "needs KEYRACK_REDIS_URL"],
  ])("refuses %j as a start does, which then creates nothing", async (env, message) => {
    using temp = tempDir();
    const checked = await keyrack(["config", "check"], { env, cwd: temp.dir });
    const served = await refusedServe([], env, temp.dir);
    for (const { code, stdout, stderr } of [checked, served])
      expect([code, stdout, stderr]).toEqual([2, "", expect.stringContaining(message)]);
    expect(readdirSync(temp.dir)).toEqual([]);
  });

  it("ignores a KEYRACK_PORT=tcp://… set by container links, with a warning", async () => {
    const ran = await keyrack(["config", "check"], { env: { KEYRACK_PORT: "tcp://10.0.0.1:80" } });
    expect(ran.code).toBe(0);
    expect(ran.stdout).toContain("ignored");
  });

  it("is not read from a file that others can write, and its hook does not run: exit 2", async () => {
    using temp = tempDir();
    const [file, ran] = [join(temp.dir, "keyrack.toml"), join(temp.dir, "ran")];
    mkdirSync(join(temp.dir, "data"), { mode: 0o700 });
    writeFileSync(file, `backup_hook = "touch ${ran}"\n`);
    chmodSync(file, 0o666);
    const commands = [["backup", "create", "--data-dir", "data"], ["config", "check"], ["doctor"]];
    const refused = commands.map((args) => keyrack(args, { cwd: temp.dir }));
    for (const { code, stdout, stderr } of await Promise.all([...refused, refusedServe([], {}, temp.dir)])) {
      expect([code, stdout], stderr).toEqual([2, ""]);
      expect(stderr).toContain(`${file} is not used: ${file} is writable by its group or by others.`);
      expect(stderr).toContain(`--config ${file}`);
    }
    expect(existsSync(ran)).toBe(false);
    const named = await keyrack(["doctor", "--config", file, "--data-dir", "data"], { cwd: temp.dir });
    expect(named.code).toBe(4);
    expect(named.stdout).toContain(`Others can change the settings file: ${file} is writable`);
  });
});
