// `keyrack serve`, as a process.
import { chmodSync, existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it } from "vitest";
import { BIN, cleanEnv, startServer } from "../../harness/processes/server.ts";
import { backends, readyDatabase } from "../../harness/databases/backends.ts";
import { startLocalInstance } from "../../harness/instances/local-instance.ts";
import { keyrack, refusedServe, tempDir } from "../../harness/processes/cli.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";

const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);

describe("keyrack serve", () => {
  it("creates everything private to its owner, refuses a second process and an exposed master key, and keeps all at a second start", async () => {
    using temp = tempDir();
    const data = join(temp.dir, "data");
    const first = await startServer(["--data-dir", data]);
    const health = await fetch(`${first.ready.url}/healthz`);
    expect(await health.json()).toMatchObject({ status: "ok", region: "local", redis: { configured: false } });
    expect(Object.keys(first.ready)).toEqual([
      "event",
      "url",
      "data_dir",
      "bootstrap_token_file",
      "pid",
      "setup_url",
      "setup_expires_at",
    ]);
    expect(first.ready).toMatchObject({ event: "listening", pid: first.child.pid, data_dir: data });
    expect(mode(data)).toBe("700");
    for (const file of ["keyrack.db", "keyrack.lock", "master.key", "bootstrap.token"]) {
      expect(mode(join(data, file)), file).toBe("600");
    }
    const token = readFileSync(join(data, "bootstrap.token"), "utf8");
    expect(token).toMatch(/^krboot_[A-Za-z0-9_-]{32}[0-9a-f]{8}\n$/);
    expect(first.stderr()).not.toContain(token.trim());
    expect(first.stderr()).toContain("a master key was created");
    expect(await refusedServe(["--port", "0", "--data-dir", data])).toMatchObject({
      code: 1,
      stderr: `keyrack: Another Keyrack process is using the data dir ${data}.\n`,
    });
    expect(await first.end("SIGTERM")).toBe(0);
    expect(existsSync(join(data, "keyrack.db-wal"))).toBe(false);
    chmodSync(join(data, "master.key"), 0o644);
    const exposed = await refusedServe(["--data-dir", data]);
    expect(exposed.code).toBe(2);
    expect(exposed.stderr).toContain("is readable by others. Run: chmod 600");
    chmodSync(join(data, "master.key"), 0o600);
    const second = await startServer(["--data-dir", data]);
    expect(readFileSync(join(data, "bootstrap.token"), "utf8")).toBe(token);
    expect(await second.end("SIGTERM")).toBe(0);
  });

  it("prints a command for the first workspace that keeps the bootstrap token out of process lists", async () => {
    using temp = tempDir();
    const file = join(temp.dir, "my token");
    writeFileSync(file, "0123456789-bootstrap-token-of-a-test\n", { mode: 0o600 });
    const env = { KEYRACK_PORT: "0", KEYRACK_BOOTSTRAP_TOKEN_FILE: file };
    const child = spawn(BIN, ["serve", "--data-dir", join(temp.dir, "data")], {
      env: cleanEnv(env),
      stdio: ["ignore", "pipe", "ignore"],
    });
    const ended = once(child, "exit");
    try {
      for await (const line of createInterface({ input: child.stdout })) {
        if (!line.includes(" workspace create ")) continue;
        expect(line).toContain(`  KEYRACK_BOOTSTRAP_TOKEN_FILE='${file}' `);
        expect(line).not.toContain("--bootstrap-token");
        const words = line
          .slice(line.indexOf("workspace create"))
          .replace("--save ", "")
          .replaceAll('"', "")
          .split(" ");
        expect(await keyrack(words, { env: { KEYRACK_BOOTSTRAP_TOKEN_FILE: file } })).toMatchObject({ code: 0 });
        return;
      }
      expect.unreachable("no command was printed");
    } finally {
      child.kill("SIGTERM");
      await ended;
    }
  });

  it("answers a request in flight at SIGTERM", async () => {
    using temp = tempDir();
    const server = await startServer(["--ephemeral", "--seed"], { TMPDIR: temp.dir });
    const { url, secret_key, project_id, tenant_id } = server.ready as Record<string, string>;
    const body = JSON.stringify({ project_id, tenant_id, env: "live" });
    const { port } = new URL(url as string);
    const socket = connect(Number(port), "127.0.0.1");
    const answer = socket.toArray();
    const head = [
      `POST /v1/keys HTTP/1.1`,
      "host: x",
      `authorization: Bearer ${secret_key}`,
      "content-type: application/json",
    ];
    socket.write(`${[...head, `content-length: ${body.length}`].join("\r\n")}\r\n\r\n${body.slice(0, 10)}`);
    // Once a second request on another connection is answered, the first one has arrived.
    await (await fetch(`${url}/healthz`)).text();
    const ended = server.end("SIGTERM");
    await expect
      .poll(() =>
        fetch(`${url}/healthz`).then(
          () => "open",
          () => "closed",
        ),
      )
      .toBe("closed");
    socket.write(body.slice(10));
    expect(Buffer.concat((await answer) as Buffer[]).toString()).toMatch(/^HTTP\/1.1 201 /);
    expect(await ended).toBe(0);
    expect(readdirSync(temp.dir)).toEqual([]);
  });

  it("prints no setup link while KEYRACK_BOOTSTRAP is off, and exits with 1 when the stop fails", async () => {
    using temp = tempDir();
    const server = await startServer(["--data-dir", temp.dir], { KEYRACK_BOOTSTRAP: "off" });
    expect(server.ready).toMatchObject({ setup_url: null });
    renameSync(join(temp.dir, "keyrack.db-wal"), join(temp.dir, "moved"));
    expect(await server.end("SIGTERM")).toBe(1);
    expect(server.stderr()).toMatch(/^keyrack: .*-wal/m);
  });

  it("explains why operator commands do not reach it where the path of the data dir is too long", async () => {
    using temp = tempDir();
    const dir = join(temp.dir, "x".repeat(100));
    const { app } = await startLocalInstance({ target: { kind: "sqlite", file: join(dir, "keyrack.db") }, dir });
    const refused = await keyrack(["user", "list", "--data-dir", dir]);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("move the data dir to a shorter path")]);
    await app.stop();
  });

  for (const [why, args, env, code, message] of [
    [
      "a malformed database URL",
      ["--database-url", "mysql://x/y"],
      {},
      2,
      "--database-url: must be sqlite:FILE or postgres://",
    ],
    ["an unknown flag", ["--prot", "1"], {}, 2, "unknown option '--prot'"],
    ["an invalid port", ["--port", "99999"], {}, 2, "--port: must be a whole number from 0 to 65535"],
    ["a misspelt variable", [], { KEYRACK_PROT: "1" }, 2, "Unknown setting KEYRACK_PROT. Did you mean KEYRACK_PORT?"],
    ["a certificate without a key", [], { KEYRACK_TLS_CERT: "/x" }, 2, "go together"],
    [
      "a bootstrap token that looks like a secret key",
      [],
      { KEYRACK_BOOTSTRAP_TOKEN: `krsk_live_${"a".repeat(40)}` },
      2,
      "must not look like another credential (secret_key)",
    ],
    ["a data dir that cannot be created", ["--data-dir", "/proc/keyrack/data"], {}, 2, "cannot be used: ENOENT"],
    ["a short bootstrap token", [], { KEYRACK_BOOTSTRAP_TOKEN: "hunter2" }, 2, "too short"],
    ["--seed without --ephemeral", ["--seed"], {}, 2, "--seed requires --ephemeral"],
    [
      "an unreachable database",
      ["--database-url", "postgres://x@127.0.0.1:1/x"],
      {},
      3,
      "The database cannot be reached",
    ],
  ] as const) {
    it(`rejects ${why} with one sentence and exit ${code}`, async () => {
      using temp = tempDir();
      const ran = await refusedServe(["--data-dir", join(temp.dir, "d"), ...args], env, temp.dir);
      expect(ran).toMatchObject({ code, stdout: "" });
      expect(ran.stderr).toContain(message);
      expect(ran.stderr).not.toMatch(/\n\s+at /);
    });
  }

  it("rejects a place where the master key cannot be written, and names the setting", async () => {
    using temp = tempDir();
    const file = join(temp.dir, "none", "master.key");
    const ran = await refusedServe(["--data-dir", join(temp.dir, "data")], { KEYRACK_MASTER_KEY_FILE: file });
    const message = `${file} cannot be written: ENOENT. Check its folder, or set KEYRACK_MASTER_KEY_FILE.`;
    expect([ran.code, ran.stderr.trim().split("\n").at(-1)]).toEqual([2, `keyrack: ${message}`]);
  });

  it("rejects an unusable data dir with one sentence and exit 2", async () => {
    using temp = tempDir();
    writeFileSync(join(temp.dir, "file"), "");
    const ran = await refusedServe(["--data-dir", join(temp.dir, "file", "d")]);
    expect(ran).toMatchObject({ code: 2 });
    expect(ran.stderr).toMatch(/^keyrack: The data dir .* cannot be used: ENOTDIR\.\n$/);
  });

  for (const backend of backends) {
    it(`rejects a wrong or missing master key and a newer schema with exit 2, and changes nothing, on ${backend}`, async () => {
      using temp = tempDir();
      const database = await readyDatabase(backend);
      const { target } = database;
      const url = target.kind === "sqlite" ? `sqlite:${target.file}` : target.url;
      const serve = (dir: string) => ["--data-dir", join(temp.dir, dir), "--database-url", url];
      await (await startLocalInstance({ target, dir: join(temp.dir, "one") })).app.stop();
      const missing = await refusedServe(serve("two"));
      expect(missing.code).toBe(2);
      expect(missing.stderr).toContain("KEYRACK_MASTER_KEY_FILE");
      expect(existsSync(join(temp.dir, "two", "master.key"))).toBe(false);
      const file = join(temp.dir, "other.key");
      writeFileSync(file, "ab".repeat(32), { mode: 0o600 });
      const other = await refusedServe(serve("two"), { KEYRACK_MASTER_KEY_FILE: file });
      expect(other.code).toBe(2);
      expect(other.stderr).toContain("is not the one this database was set up with");
      await rawSql(
        target,
        "insert into schema_migrations (version, name, checksum, applied_at) values (9999, '9999_future', 'x', 1)",
      );
      const newer = await refusedServe(serve("one"));
      expect(newer.code).toBe(2);
      expect(newer.stderr).toContain("newer than this version of Keyrack");
      await database.dispose();
    });
  }
});

describe("keyrack serve, when it cannot listen", () => {
  for (const [why, args, env, message] of [
    ["a missing certificate", [], { KEYRACK_TLS_CERT: "nope.pem", KEYRACK_TLS_KEY: "nope.pem" }, /KEYRACK_TLS_CERT/],
    ["an invalid certificate", [], { KEYRACK_TLS_CERT: "bad.pem", KEYRACK_TLS_KEY: "bad.pem" }, /KEYRACK_TLS_CERT/],
    ["a certificate without a key", [], { KEYRACK_TLS_CERT: "bad.pem" }, /go together/],
    ["an address of another machine", ["--host", "192.0.2.1"], {}, /Cannot listen on 192\.0\.2\.1/],
    ["an unknown host name", ["--host", "no-such-host.invalid"], {}, /Cannot listen on no-such-host/],
  ] as const) {
    it(`fails for ${why} with one sentence and exit 2`, async () => {
      using temp = tempDir();
      writeFileSync(join(temp.dir, "bad.pem"), "not a certificate");
      const ran = await refusedServe(["--port", "0", "--data-dir", "data", ...args], env, temp.dir);
      expect(ran.code, ran.stderr).toBe(2);
      const lines = ran.stderr
        .trim()
        .split("\n")
        .filter((line) => line.startsWith("keyrack:"));
      expect(lines).toEqual([expect.stringMatching(message)]);
    });
  }
});
