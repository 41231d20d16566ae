// The setup link: printed by `keyrack serve` and `keyrack setup link`, to standard output only.
import { once } from "node:events";
import { chmodSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { backends, readyDatabase } from "../../harness/databases/backends.ts";
import { rawSql } from "../../harness/databases/raw-sql.ts";
import { startLocalInstance } from "../../harness/instances/local-instance.ts";
import { keyrack, tempDir } from "../../harness/processes/cli.ts";
import { startServer } from "../../harness/processes/server.ts";

const LINK = /^http:\/\/127\.0\.0\.1:\d+\/#\/setup\?token=(krset_[\w-]{40})$/;
const claim = (url: string, link: string): Promise<Response> =>
  fetch(`${url}/v1/setup`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      token: LINK.exec(link)?.[1],
      email: "ada@example.com",
      password: "correct horse battery staple",
      workspace_name: "Acme",
      workspace_slug: "acme",
    }),
  });

describe("the setup link", () => {
  it("is in the ready line, is printed again by the command, and ends with the claim", async () => {
    using temp = tempDir();
    const data = ["--data-dir", join(temp.dir, "data")];
    const server = await startServer(data, { KEYRACK_CONNECTIONS_MAX: "16" });
    const { url, setup_url, setup_expires_at } = server.ready as Record<string, string>;
    expect(setup_url).toMatch(LINK);
    expect(Date.parse(setup_expires_at ?? "")).toBeGreaterThan(Date.now());
    const asked = JSON.parse((await keyrack(["setup", "link", "--json", ...data])).stdout);
    expect(Object.keys(asked)).toEqual(["url", "expires_at"]);
    expect(asked.url).toMatch(LINK);
    const held = Array.from({ length: 14 }, () => connect(Number(new URL(url ?? "").port), "127.0.0.1"));
    await Promise.all(held.map((socket) => once(socket, "connect")));
    const { stdout: doctor } = await keyrack(["doctor", "--json", ...data]);
    for (const socket of held) socket.destroy();
    expect(doctor).toContain("keyrack setup link");
    expect(doctor).toContain("keyrack top --by connections");
    expect((await claim(url ?? "", setup_url ?? "")).status).toBe(201);
    const late = await keyrack(["setup", "link", ...data]);
    expect(late).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("already has an owner") });
    expect(server.stderr()).not.toContain("krset_");
    expect(await server.end("SIGTERM")).toBe(0);
    const again = await startServer(data);
    expect(again.ready).toMatchObject({ setup_url: null, setup_expires_at: null });
    await again.end("SIGTERM");
  });

  it("is not issued while KEYRACK_BOOTSTRAP is off", async () => {
    using temp = tempDir();
    const dir = join(temp.dir, "data");
    await (await startLocalInstance({ target: { kind: "sqlite", file: join(dir, "keyrack.db") }, dir })).app.stop();
    const data = ["--data-dir", dir];
    const env = { KEYRACK_BOOTSTRAP: "off" };
    const refused = await keyrack(["setup", "link", ...data], { env });
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("KEYRACK_BOOTSTRAP") });
    const link = (await keyrack(["setup", "link", "--quiet", ...data])).stdout.trim();
    expect(link).toMatch(LINK);
  });
});

describe("keyrack doctor", () => {
  it("warns of open sign-up at a public URL, also one that only begins like a loopback address", async () => {
    using temp = tempDir();
    const warns = async (url: string): Promise<boolean> => {
      const env = { KEYRACK_PUBLIC_URL: url, KEYRACK_SIGN_UP: "open" };
      const { stdout } = await keyrack(["doctor", "--json", "--data-dir", temp.dir], { env });
      return stdout.includes("Anyone can sign up");
    };
    const urls = [
      "https://localhost.example.com",
      "https://127.example.com",
      "https://localhost:4747",
      "http://127.0.0.1",
    ];
    expect(await Promise.all(urls.map(warns))).toEqual([true, true, false, false]);
  });

  it("says whether the metering system answers, and names one that is reached over plain http", async () => {
    using temp = tempDir();
    const findings = async (url: string): Promise<[string, string][]> => {
      const env = { KEYRACK_METER_URL: url };
      const { stdout } = await keyrack(["doctor", "--json", "--data-dir", temp.dir], { env });
      const { findings: all } = JSON.parse(stdout) as { findings: { level: string; what: string }[] };
      return all.flatMap(({ level, what }) => (/meter|Usage/.test(what) ? [[level, what]] : []));
    };
    const methods: unknown[] = [];
    const meter = createServer((request, response) => {
      methods.push(request.method);
      response.writeHead(405).end();
    }).listen(0, "0.0.0.0");
    await once(meter, "listening");
    const { port } = meter.address() as AddressInfo;
    const reachable = ["ok", "The metering system is reachable."];
    expect(await findings(`http://127.0.0.1:${port}/events`)).toEqual([reachable]);
    expect(await findings(`http://0.0.0.0:${port}/events`)).toEqual([
      ["risk", "Usage is pushed over plain http."],
      reachable,
    ]);
    expect(methods).toEqual(["HEAD", "HEAD"]);
    meter.close();
    await once(meter, "close");
    expect(await findings(`http://127.0.0.1:${port}/events`)).toEqual([
      ["fail", "Cannot use the metering system: ECONNREFUSED."],
    ]);
  });

  it.runIf(backends.includes("postgres"))("says on PostgreSQL that limits are shared on Redis only", async () => {
    using temp = tempDir();
    const { target, dispose } = await readyDatabase("postgres");
    const env = { KEYRACK_DATABASE_URL: target.kind === "postgres" ? target.url : "", KEYRACK_BACKUP_EVERY: "24h" };
    const whats = async (more: Record<string, string> = {}): Promise<string[]> => {
      const { stdout } = await keyrack(["doctor", "--json", "--data-dir", temp.dir], { env: { ...env, ...more } });
      return (JSON.parse(stdout) as { findings: { what: string }[] }).findings.map(({ what }) => what);
    };
    const shared = expect.stringContaining("counts rate limits on its own") as string;
    const backups = await whats();
    expect(backups).toContainEqual(shared);
    expect(backups).toContain("Backups and restore tests are scheduled.");
    const more = { KEYRACK_REDIS_URL: "redis://127.0.0.1:1", KEYRACK_BACKUP_HOOK: "true" };
    const others = await whats(more);
    expect(others).not.toContainEqual(shared);
    expect(others).toContain("Backups and restore tests are scheduled, and copies are kept elsewhere.");
    await dispose();
  });

  it("reports what the record of backups says, settings that a start refuses, and secrets that others can read", async () => {
    using temp = tempDir();
    const dir = join(temp.dir, "data");
    const target = { kind: "sqlite", file: join(dir, "keyrack.db") } as const;
    await (await startLocalInstance({ target, dir })).app.stop();
    const key = join(temp.dir, "tls.key");
    writeFileSync(key, "not a key");
    chmodSync(key, 0o644); // the instance has tightened the umask of this process
    const report = async (env: Record<string, string> = {}) => {
      const { code, stdout } = await keyrack(["doctor", "--json", "--data-dir", dir], { env });
      return { code, findings: (JSON.parse(stdout) as { findings: { level: string; what: string }[] }).findings };
    };
    const whats = async (env: Record<string, string> = {}) => (await report(env)).findings.map(({ what }) => what);
    const sameDisk = "Backups are stored on the same disk as the data.";
    expect((await report()).code).toBe(0);
    expect(await whats()).toEqual(expect.arrayContaining([sameDisk, "No backup has been made yet."]));
    expect(await whats({ KEYRACK_BACKUP_DIR: `${dir}-elsewhere` })).toContain(sameDisk);
    expect(await whats({ KEYRACK_BACKUP_HOOK: "true" })).not.toContain(sameDisk);
    const rare = expect.stringContaining("Restore tests are more than 8 days apart") as string;
    expect(await whats({ KEYRACK_RESTORE_TEST_EVERY: "9d" })).toContainEqual(rare);
    expect(await whats({ KEYRACK_RESTORE_TEST_EVERY: "8d" })).not.toContainEqual(rare);
    const refused = await report({
      KEYRACK_TLS_KEY: key,
      KEYRACK_MASTER_KEY_FILE: join(temp.dir, "none"),
      KEYRACK_IDEMPOTENCY_STORE: "redis",
      KEYRACK_BOOTSTRAP_TOKEN: "short",
    });
    expect(refused.code).toBe(4);
    const failed = refused.findings.filter(({ level }) => ["risk", "fail"].includes(level)).map(({ what }) => what);
    expect(failed).toEqual(
      expect.arrayContaining([
        "KEYRACK_TLS_CERT and KEYRACK_TLS_KEY go together.",
        "KEYRACK_IDEMPOTENCY_STORE=redis needs KEYRACK_REDIS_URL.",
        "The bootstrap token is too short: it needs at least 22 random characters.",
        `${key} is readable by others. Run: chmod 600 ${key}`,
        `There is no master key at ${join(temp.dir, "none")}, and this database was set up with one. Set KEYRACK_MASTER_KEY_FILE to that key's file.`,
      ]),
    );
    const [none, own] = [join(temp.dir, "none"), join(dir, "master.key")];
    const rightKey = readFileSync(own);
    for (const [what, damage] of [
      [`There is no master key at ${own}, and this database was set up with one`, () => rmSync(own)],
      ["is not the one this database was set up with", () => writeFileSync(own, "ab".repeat(32), { mode: 0o600 })],
      ["does not hold a master key", () => writeFileSync(own, "short")],
      ["is readable by others", () => chmodSync(own, 0o644)],
    ] as const) {
      damage();
      const { code, findings } = await report();
      expect(code).toBe(4);
      expect(findings.filter((each) => each.what.includes(what))).toMatchObject([
        { level: "fail", mend: expect.any(String) },
      ]);
    }
    rmSync(own);
    writeFileSync(own, rightKey, { mode: 0o600 });
    expect((await report()).code).toBe(0);
    const unread = { KEYRACK_BOOTSTRAP_TOKEN_FILE: none, KEYRACK_BOOTSTRAP: "off" }; // a start does not read it
    expect((await whats(unread)).filter((what) => what.includes(none))).toEqual([]);
    rmSync(join(dir, "bootstrap.token"));
    expect(await whats()).toContain("The bootstrap token is active, although its file was deleted.");
    expect((await keyrack(["backup", "create", "--data-dir", dir])).code).toBe(0);
    expect(await whats()).toContainEqual(expect.stringMatching(/^Last backup: \S+\. Last restore test: never\.$/));
    const hook = { KEYRACK_BACKUP_HOOK: "exit 1; #" };
    expect((await keyrack(["backup", "create", "--data-dir", dir], { env: hook })).code).toBe(1);
    expect((await report()).findings).toContainEqual(
      expect.objectContaining({ level: "fail", what: expect.stringContaining("The last backup failed at") }),
    );
    await rawSql(target, "delete from deployment where name = 'master_key_fingerprint'"); // the next start makes a key
    const missing = await whats({ KEYRACK_MASTER_KEY_FILE: none });
    expect(missing.filter((what) => what.includes(none))).toEqual([]);
  });

  it("names a master key that others can read, whatever database there is, and one that is no longer used", async () => {
    using temp = tempDir();
    const [own, other] = [join(temp.dir, "master.key"), join(temp.dir, "other.key")];
    const readable = async (env: Record<string, string>) => {
      const { stdout } = await keyrack(["doctor", "--json", "--data-dir", temp.dir], { env });
      const { findings } = JSON.parse(stdout) as { findings: { level: string; what: string }[] };
      return findings.filter(({ what }) => what.includes("is readable by others")).map(({ what }) => what);
    };
    const unreachable = { KEYRACK_DATABASE_URL: "postgres://127.0.0.1:1/none" };
    const write = (file: string, mode: number) => {
      writeFileSync(file, "ab".repeat(32));
      chmodSync(file, mode);
    };
    write(other, 0o644);
    const otherReadable = `${other} is readable by others. Run: chmod 600 ${other}`;
    expect(await readable({ KEYRACK_MASTER_KEY_FILE: other })).toEqual([otherReadable]);
    expect(await readable({ KEYRACK_MASTER_KEY_FILE: other, ...unreachable })).toEqual([otherReadable]);
    write(own, 0o644);
    expect(await readable(unreachable)).toEqual([`${own} is readable by others. Run: chmod 600 ${own}`]);
    write(other, 0o600);
    expect(await readable({ KEYRACK_MASTER_KEY_FILE: other })).toEqual(["master.key is readable by others."]);
    write(own, 0o600);
    expect(await readable({ KEYRACK_MASTER_KEY_FILE: other })).toEqual([]);
  });

  it.each(backends)("checks the settings of the running instance, not those of the shell (%s)", async (backend) => {
    using temp = tempDir();
    const { target, dispose } = await readyDatabase(backend);
    const { app } = await startLocalInstance({
      target,
      dir: temp.dir,
      flags: { throttle: "off", backup_every: "off" },
    });
    const { code, stdout } = await keyrack(["doctor", "--json", "--data-dir", temp.dir]);
    await app.stop();
    await dispose();
    const { findings } = JSON.parse(stdout) as { findings: { level: string; what: string }[] };
    const whats = findings.map(({ what }) => what);
    expect(whats[0]).toContain("Its settings were checked, not those of this shell.");
    expect(whats).toContainEqual(expect.stringContaining("Throttling is off"));
    expect(whats).toContain("No backups are scheduled.");
    expect(whats).toContainEqual(expect.stringContaining("The database is reachable"));
    expect(findings.filter(({ level }) => level === "fail")).toHaveLength(1);
    expect(code).toBe(4);
  });

  it.runIf(backends.includes("postgres"))("fails for a PostgreSQL whose sessions may only read", async () => {
    using temp = tempDir();
    const { target, dispose } = await readyDatabase("postgres");
    if (target.kind !== "postgres") throw new Error("not PostgreSQL");
    const url = new URL(target.url);
    url.searchParams.set("options", "-c default_transaction_read_only=on");
    const env = { KEYRACK_DATABASE_URL: url.href };
    const { code, stdout } = await keyrack(["doctor", "--json", "--data-dir", temp.dir], { env });
    await dispose();
    expect(stdout).toContain("The database accepts no changes");
    expect(code).toBe(4);
  });

  it("does not call ok what it did not check", async () => {
    using temp = tempDir();
    const args = ["doctor", "--data-dir", join(temp.dir, "nowhere")];
    const { code, stdout } = await keyrack([...args, "--json"]);
    const { findings } = JSON.parse(stdout) as { findings: unknown[] };
    expect(code).toBe(4);
    expect(findings).toContainEqual({ level: "skip", what: "The database was not checked.", mend: null });
    expect((await keyrack([...args, "--quiet"])).stdout).not.toContain("not checked");
  });

  it("names live nodes that verify with an unrestricted secret key, and no others", async () => {
    using temp = tempDir();
    const dir = join(temp.dir, "data");
    const { app } = await startLocalInstance({ target: { kind: "sqlite", file: join(dir, "keyrack.db") }, dir });
    type Made = { id: string; key: string; secret_key: { key: string } };
    const call = async (bearer: string, method: string, path: string, body?: object): Promise<Made> => {
      const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
      const reply = await fetch(app.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) });
      return JSON.parse((await reply.text()) || "{}") as Made;
    };
    const bootstrap = readFileSync(join(dir, "bootstrap.token"), "utf8").trim();
    const made = await call(bootstrap, "POST", "/v1/workspaces", { name: "Acme", slug: "acme" });
    const owner = made.secret_key.key;
    const project = await call(owner, "POST", "/v1/projects", { name: "API", slug: "api" });
    const verifier = await call(owner, "POST", "/v1/secret_keys", { env: "live", permissions: ["verify"] });
    const poll = (bearer: string, node: string) =>
      call(bearer, "GET", `/v1/policy/delta?project_id=${project.id}&since=1&node=${node}`);
    await poll(owner, "powerful");
    await poll(verifier.key, "modest");
    await app.stop(); // what nodes reported is written
    const { findings } = JSON.parse((await keyrack(["doctor", "--json", "--data-dir", dir])).stdout);
    const found = findings.filter(({ what }: { what: string }) => what.includes("unrestricted secret key"));
    expect(found).toMatchObject([{ level: "risk", what: expect.stringContaining("powerful") }]);
    expect(found[0].what).not.toContain("modest");
  });
});
