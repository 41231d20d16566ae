// `keyrack signing-key` as a person runs it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startInstance } from "../../src/server/start.ts";
import { loadSettings } from "../../src/config/load.ts";
import { silentLog } from "../../src/platform/log.ts";
import * as cli from "../../harness/processes/cli.ts";

let dir = "";

const keyrack = (...args: string[]): Promise<cli.Ran> => cli.keyrack(args, { env: { KEYRACK_DATA_DIR: dir } });

async function serveOnce(during: () => Promise<void> = async () => {}): Promise<void> {
  const { settings } = loadSettings({ env: {}, flags: { data_dir: dir, port: "0" } });
  const app = await startInstance({ settings, log: silentLog });
  await during();
  await app.stop();
}

type Listed = { object: string; data: { object: string; kid: string; state: string }[] };
const states = (out: string): string[] => (JSON.parse(out) as Listed).data.map(({ state }) => state);

describe("keyrack signing-key", () => {
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
    await serveOnce();
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  it("lists the key that signs and the standby", async () => {
    const { code, stdout } = await keyrack("signing-key", "list", "--json");
    expect(code).toBe(0);
    expect(states(stdout)).toEqual(["signing", "standby"]);
    const table = await keyrack("signing-key", "list");
    expect(table.stdout.split("\n")[0]).toMatch(/^KID\s+STATE\s+PUBLISHED/);
  });

  it("rotates, and with --compromised at once", async () => {
    expect(states((await keyrack("signing-key", "rotate", "--json")).stdout)).toEqual(["signing", "next", "standby"]);
    const { stdout } = await keyrack("signing-key", "rotate", "--compromised", "--json");
    expect(states(stdout)).toEqual(["removed", "signing", "standby"]);
    const { stdout: kid } = await keyrack("signing-key", "list", "--quiet");
    expect(kid.trim()).toBe((JSON.parse(stdout) as Listed).data[1]?.kid);
  });

  it("uses the running server, and says in one line if there is no database", async () => {
    await serveOnce(async () => {
      const { code, stderr, stdout } = await keyrack("signing-key", "list", "--quiet");
      expect([code, stderr]).toEqual([0, ""]);
      expect(stdout).toMatch(/^[\w-]{43}\n$/);
    });
    const nowhere = await keyrack("signing-key", "list", "--data-dir", join(dir, "nowhere"));
    expect(nowhere.code).toBe(2);
    expect(nowhere.stderr).toMatch(/^keyrack: There is no database at .*\n$/);
  });
});
