// The single binary runs without a checkout. Not part of the default run: `npm run build && npm run test:binary`.
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { TESTED_VERSION } from "../../harness/release/tested-version.ts";
import { DEADLINE_MS } from "../../harness/waiting.ts";

const binary = process.env.KEYRACK_TEST_BIN ?? "";

function copyBinary(dir: string): string {
  const path = join(dir, "keyrack");
  copyFileSync(binary, path);
  chmodSync(path, 0o755);
  return path;
}

const exec = (path: string, args: string[], env: Record<string, string> = {}, cwd = "/") =>
  spawnSync(path, args, { env, cwd, encoding: "utf8", timeout: DEADLINE_MS });

describe.runIf(binary)("the single binary", () => {
  it("runs in an empty folder with an empty environment", () => {
    using temp = tempDir();
    const path = copyBinary(temp.dir);
    const ran = exec(path, ["ephemeral", "--seed", "--", path, "audit", "verify"], { TMPDIR: temp.dir }, temp.dir);
    expect(ran.stdout).toMatch(/^Audit log verified: \d+ rows/);
    expect(ran.status).toBe(0);
  });

  it("runs from a read-only folder with an unwritable HOME", () => {
    using temp = tempDir();
    const path = copyBinary(temp.dir);
    const tmp = join(temp.dir, "tmp");
    mkdirSync(tmp);
    chmodSync(temp.dir, 0o555);
    const ran = exec(path, ["ephemeral", "--", "/bin/echo", "done"], { HOME: "/proc/nowhere", TMPDIR: tmp });
    chmodSync(temp.dir, 0o755);
    expect(ran).toMatchObject({ status: 0, stdout: "done\n" });
  });

  it("unpacks its native addons by checksum, replaces a tampered one, and leaves no temporary files", async () => {
    using temp = tempDir();
    const env = { KEYRACK_CACHE_DIR: join(temp.dir, "cache"), TMPDIR: temp.dir };
    const ephemeral = () => exec(binary, ["ephemeral", "--", "/bin/true"], env);
    expect(ephemeral().status).toBe(0);
    const folder = join(temp.dir, "cache", "native");
    const [file = ""] = readdirSync(folder).filter((name) => name.startsWith("better-sqlite3"));
    expect(file).toMatch(/^better-sqlite3-[0-9a-f]{16}\.node$/);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    const { size } = statSync(join(folder, file));
    chmodSync(join(folder, file), 0o700);
    writeFileSync(join(folder, file), "not an addon");
    const runs = Array.from(
      { length: 4 },
      () =>
        new Promise<number | null>((resolve) => {
          spawn(binary, ["ephemeral", "--", "/bin/true"], { env, stdio: "ignore" }).on("exit", resolve);
        }),
    );
    expect(await Promise.all(runs)).toEqual([0, 0, 0, 0]);
    expect(statSync(join(folder, file)).size).toBe(size);
    expect(readdirSync(folder).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  it("fails with one line if it can unpack nowhere", () => {
    const nowhere = "/proc/nowhere";
    const ran = exec(binary, ["audit", "verify", "--offline", "--database-url", "sqlite:/etc/hostname"], {
      KEYRACK_CACHE_DIR: nowhere,
      KEYRACK_DATA_DIR: nowhere,
      HOME: nowhere,
      TMPDIR: nowhere,
    });
    expect(ran.stderr).toMatch(/^keyrack: No folder to unpack native addons into: .* Set KEYRACK_CACHE_DIR .*\n$/);
    expect(ran.status).toBe(2);
  });

  it("ignores NODE_OPTIONS, so that no other script runs", () => {
    using temp = tempDir();
    writeFileSync(join(temp.dir, "x.cjs"), 'console.log("injected")');
    const ran = exec(binary, ["version"], { NODE_OPTIONS: `--require ${join(temp.dir, "x.cjs")}` });
    expect(ran.stdout).toBe(`${TESTED_VERSION}\n`);
  });

  it("contains the web assets and both addons: serves the portal and signs people up", async () => {
    using temp = tempDir();
    const child = spawn(binary, ["serve", "--ephemeral", "--seed", "--json"], { env: { TMPDIR: temp.dir } });
    const exited = new Promise((resolve) => child.on("exit", resolve));
    const line = await new Promise<string>((resolve) => createInterface({ input: child.stdout }).once("line", resolve));
    const { url } = JSON.parse(line) as { url: string };
    expect((await fetch(`${url}/embed/portal.js`)).status).toBe(200);
    const body = JSON.stringify({ email: "ada@example.com", password: "a long enough pass phrase 17" });
    const headers = { "content-type": "application/json" };
    expect((await fetch(`${url}/v1/auth/users`, { method: "POST", headers, body })).status).toBe(202);
    child.kill("SIGTERM");
    expect(await exited).toBe(0);
  });
});
