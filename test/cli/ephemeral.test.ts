// `keyrack ephemeral` and `keyrack serve --ephemeral`: they touch nothing of the operator's and leave nothing behind.
// More ways to end are in ephemeral-ends.test.ts.
import { readdirSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { BIN, cleanEnv } from "../../harness/processes/server.ts";
import { ephemeralFolders, keyrack, refusedServe, tempDir } from "../../harness/processes/cli.ts";
import { until } from "../../harness/waiting.ts";

const VARIABLES = [
  "KEYRACK_BOOTSTRAP_TOKEN",
  "KEYRACK_MAIL_DIR",
  "KEYRACK_PROJECT_ID",
  "KEYRACK_SECRET_KEY",
  "KEYRACK_TENANT_ID",
  "KEYRACK_TEST_SECRET_KEY",
  "KEYRACK_URL",
  "KEYRACK_VERIFY_KEY",
  "KEYRACK_WORKSPACE_ID",
];

describe("an ephemeral instance", () => {
  it("ignores what belongs to the caller, gives the command its own, exits with its status, leaves nothing", async () => {
    using temp = tempDir();
    const production = join(temp.dir, "production.db");
    writeFileSync(join(temp.dir, "keyrack.toml"), `database_url = "sqlite:${production}"\nport = 1\n`);
    const env: Record<string, string> = {
      TMPDIR: temp.dir,
      KEYRACK_DATABASE_URL: `sqlite:${production}`,
      KEYRACK_BOOTSTRAP_TOKEN: "a-token-of-the-real-deployment",
      KEYRACK_MASTER_KEY_FILE: join(temp.dir, "production.key"),
    };
    const outer = ["SECRET_KEY", "TEST_SECRET_KEY", "SESSION_TOKEN", "PROFILE", "PROJECT_ID"];
    for (const name of outer) env[`KEYRACK_${name}`] = "of-the-caller";
    const script = 'env; test -n "$KEYRACK_TENANT_ID" && exit 7';
    const ran = await keyrack(["ephemeral", "--seed", "--", "sh", "-c", script], { cwd: temp.dir, env });
    expect(ran.code).toBe(7);
    expect(ran.stdout).toMatch(/^KEYRACK_BOOTSTRAP_TOKEN=krboot_/m);
    expect(readdirSync(temp.dir)).toEqual(["keyrack.toml"]);
    expect(ran.stdout).toContain("KEYRACK_URL=http://");
    expect(ran.stdout).not.toContain("of-the-caller");
    expect(ran.stderr).toContain(
      "An ephemeral instance ignores KEYRACK_MASTER_KEY_FILE, KEYRACK_BOOTSTRAP_TOKEN, KEYRACK_DATABASE_URL.",
    );
    expect(ran.stderr).not.toContain("master key"); // it is deleted with its instance
    const names = Array.from(ran.stdout.matchAll(/^(KEYRACK_\w+)=/gm), ([, name = ""]) => name).toSorted();
    expect(names).toEqual([...VARIABLES, "KEYRACK_DATABASE_URL", "KEYRACK_MASTER_KEY_FILE"].toSorted());
    const { warnings } = loadSettings({ env: Object.fromEntries(names.map((name) => [name, ""])), cwd: tmpdir() });
    expect(warnings).toEqual([]); // a server that the command starts knows each name
  });

  it("refuses a demonstration that is not ephemeral, is seeded too, or is too large, and a size without one", async () => {
    expect(await refusedServe(["--demo"])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--demo requires --ephemeral"),
    });
    const size = await refusedServe(["--ephemeral", "--demo-keys", "5"]);
    expect(size).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining("--demo-keys requires --demo") });
    const both = await refusedServe(["--ephemeral", "--demo", "--seed"]);
    expect(both).toMatchObject({ code: 2, stderr: expect.stringContaining("cannot be used together") });
    const large = await keyrack(["serve", "--ephemeral", "--demo", "--demo-keys", "200001"]);
    expect(large).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--demo-keys must be a number from 1 to 200000"),
    });
  });

  it("rejects a data dir", async () => {
    using temp = tempDir();
    const ran = await refusedServe(["--ephemeral", "--data-dir", join(temp.dir, "data")]);
    expect(ran).toMatchObject({ code: 2, stdout: "" });
    expect(readdirSync(temp.dir)).toEqual([]);
  });

  it("prints what --seed created as variables of a shell, the same that a command gets, and is deleted after SIGINT", async () => {
    using temp = tempDir();
    const serving = spawn(BIN, ["serve", "--ephemeral", "--seed"], {
      env: cleanEnv({ TMPDIR: temp.dir }),
      stdio: ["ignore", "pipe", "ignore"],
    });
    let printed = "";
    serving.stdout.on("data", (chunk: Buffer) => (printed += chunk.toString()));
    await until(() => printed.includes("setup?token=") || serving.exitCode !== null);
    const exported = printed.matchAll(/^ {2}export (KEYRACK_\w+)="([^"]+)"$/gm);
    const values = Object.fromEntries([...exported].map(([, name, value]) => [name, value]));
    const shown = await fetch(`${values.KEYRACK_URL}/v1/tenants/${values.KEYRACK_TENANT_ID}`, {
      headers: { authorization: `Bearer ${values.KEYRACK_SECRET_KEY}` },
    });
    expect(ephemeralFolders(temp.dir)).toHaveLength(1);
    serving.kill("SIGINT");
    expect(await once(serving, "close")).toEqual([0, null]);
    expect(ephemeralFolders(temp.dir)).toEqual([]);
    expect(shown.status).toBe(200);
    expect(Object.keys(values).toSorted()).toEqual(VARIABLES);
  });
});
