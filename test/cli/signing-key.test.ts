// `keyrack signing-key` as a person runs it.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startInstance } from "../../src/server/start.ts";
import { loadSettings } from "../../src/config/load.ts";
import { silentLog } from "../../src/platform/log.ts";

const BIN = fileURLToPath(new URL("../../bin/keyrack", import.meta.url));
const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));

type Ran = { code: number; out: string; err: string };

function keyrack(...args: string[]): Promise<Ran> {
  return new Promise((resolve) => {
    execFile(BIN, args, { env: { PATH: process.env.PATH ?? "", KEYRACK_DATA_DIR: dir } }, (error, out, err) => {
      resolve({ code: typeof error?.code === "number" ? error.code : error ? 1 : 0, out, err });
    });
  });
}

async function serveOnce(during: () => Promise<void> = async () => {}): Promise<void> {
  const { settings } = loadSettings({ env: {}, flags: { data_dir: dir, port: "0" } });
  const app = await startInstance({ settings, log: silentLog });
  await during();
  await app.stop();
}

type Listed = { object: string; data: { object: string; kid: string; state: string }[] };
const states = (out: string): string[] => (JSON.parse(out) as Listed).data.map(({ state }) => state);

describe("keyrack signing-key", () => {
  beforeAll(() => serveOnce());
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  it("lists the key that signs and the standby", async () => {
    const { code, out } = await keyrack("signing-key", "list", "--json");
    expect(code).toBe(0);
    expect(states(out)).toEqual(["signing", "standby"]);
    const table = await keyrack("signing-key", "list");
    expect(table.out.split("\n")[0]).toMatch(/^KID\s+STATE\s+PUBLISHED/);
  });

  it("rotates, and with --compromised at once", async () => {
    expect(states((await keyrack("signing-key", "rotate", "--json")).out)).toEqual(["signing", "next", "standby"]);
    const { out } = await keyrack("signing-key", "rotate", "--compromised", "--json");
    expect(states(out)).toEqual(["removed", "signing", "standby"]);
    const { out: kid } = await keyrack("signing-key", "list", "--quiet");
    expect(kid.trim()).toBe((JSON.parse(out) as Listed).data[1]?.kid);
  });

  it("uses the running server, and says in one line if there is no database", async () => {
    await serveOnce(async () => {
      const { code, err, out } = await keyrack("signing-key", "list", "--quiet");
      expect([code, err]).toEqual([0, ""]);
      expect(out).toMatch(/^[\w-]{43}\n$/);
    });
    const nowhere = await keyrack("signing-key", "list", "--data-dir", join(dir, "nowhere"));
    expect(nowhere.code).toBe(2);
    expect(nowhere.err).toMatch(/^keyrack: There is no database at .*\n$/);
  });
});
