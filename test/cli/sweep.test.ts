// Every command, run as a process against one shared instance: success, refusal (1), wrong usage (2), nobody there (3),
// a failed verification (4). The checkout by default; `npm run test:binary` runs the same on dist/keyrack.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startServer, type Running } from "../../harness/processes/server.ts";
import { leafCommands } from "../../tools/help.ts";
import { keyrack, tempDir, type Ran } from "../../harness/processes/cli.ts";

const SWEEP_MS = 180_000;
const AT_ONCE = 4;
const PASSWORD = "a long enough pass phrase 17";
const NOBODY = "http://127.0.0.1:1";
const UNKNOWN = "01900000-0000-7000-8000-000000000000";

type Seeded = Record<
  "url" | "secret_key" | "project_id" | "tenant_id" | "workspace_id" | "mail_dir" | "bootstrap_token",
  string
>;
type Made = { id: string; key: string; token: string; user_id: string; user: { id: string } };

const temp = tempDir();
let server: Running;
let s: Seeded;
let env: Record<string, string>;
let session: string;
let member: string;
let inviteToken: string;
const ids: Record<string, string> = {};

async function api(method: string, path: string, body?: unknown, bearer: string | null = s.secret_key): Promise<Made> {
  const response = await fetch(s.url + path, {
    method,
    headers: {
      ...(bearer && { authorization: `Bearer ${bearer}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const answer: unknown = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
  return answer as Made;
}

/** The token in the newest mail to this address. */
function mailedToken(email: string): Promise<string> {
  return vi.waitFor(
    () => {
      for (const name of readdirSync(s.mail_dir).toReversed()) {
        const text = readFileSync(join(s.mail_dir, name), "utf8")
          .replace(/=\r?\n/g, "")
          .replaceAll("=3D", "=");
        const token = text.includes(email) ? /token=([\w.-]+)/.exec(text)?.[1] : undefined;
        if (token) return token;
      }
      throw new Error(`no mail to ${email} yet`);
    },
    { timeout: 15_000 },
  );
}

async function person(email: string): Promise<string> {
  await api("POST", "/v1/auth/users", { email, password: PASSWORD }, null);
  await api("POST", "/v1/auth/email_verifications/consume", { token: await mailedToken(email) }, null);
  return (await api("POST", "/v1/auth/sessions", { email, password: PASSWORD }, null)).token;
}

async function joined(email: string): Promise<{ session: string; user_id: string }> {
  const token = await person(email);
  const invite = await api("POST", "/v1/invites", { email, role: "member" });
  const { user_id } = await api("POST", "/v1/auth/invites/accept", { token: invite.token }, token);
  return { session: token, user_id };
}

beforeAll(async () => {
  server = await startServer(["--ephemeral", "--seed"]);
  s = server.ready as unknown as Seeded;
  const config = join(temp.dir, "config");
  env = {
    KEYRACK_URL: s.url,
    KEYRACK_SECRET_KEY: s.secret_key,
    XDG_CONFIG_HOME: config,
    NO_COLOR: "1",
    HOME: temp.dir,
  };
  const want = { project_id: s.project_id, tenant_id: s.tenant_id, env: "live" };
  for (const name of ["show", "update", "rotate", "revoke", "wait", "usage"])
    ids[name] = (await api("POST", "/v1/keys", want)).id;
  for (const name of ["sk_rotate", "sk_revoke"]) ids[name] = (await api("POST", "/v1/secret_keys", { env: "live" })).id;
  await api("PATCH", "/v1/workspace", { embed_origins: ["https://app.example.com"] });
  ids.project = (await api("POST", "/v1/projects", { name: "P", slug: "to-delete" })).id;
  ids.tenant = (await api("POST", "/v1/tenants", { external_id: "to-delete" })).id;
  const ada = await joined("ada@example.com");
  ({ session } = ada);
  member = ada.user_id;
  ids.gone = (await joined("gone@example.com")).user_id;
  ids.session = (await api("POST", "/v1/auth/sessions", { email: "ada@example.com", password: PASSWORD }, null)).id;
  ids.invite = (await api("POST", "/v1/invites", { email: "x@example.com", role: "member" })).id;
  ids.eve = await person("eve@example.com");
  inviteToken = (await api("POST", "/v1/invites", { email: "eve@example.com", role: "member" })).token;
  ids.mail =
    (JSON.parse((await run(["mail", "list", "--json", ...dataDir()])).stdout) as { data: Made[] }).data[0]?.id ?? "";
  ids.backup = (await run(["backup", "create", "--quiet", ...dataDir()])).stdout.trim();
  writeFileSync(join(temp.dir, "tenants.csv"), "external_id,name\nc1,One\nc2,Two\n");
  writeFileSync(join(temp.dir, "key.txt"), `${s.secret_key}\n`);
  mkdirSync(join(temp.dir, "clean"));
  await run(["audit", "export", "--out", "export.jsonl"]);
  const text = readFileSync(join(temp.dir, "export.jsonl"), "utf8");
  writeFileSync(join(temp.dir, "forged.jsonl"), text.replace("workspace.created", "workspace.updated"));
}, SWEEP_MS);

afterAll(async () => {
  await server.end("SIGTERM");
  temp[Symbol.dispose]();
});

const run = (args: string[], more: Record<string, string> = {}, input = ""): Promise<Ran> =>
  keyrack(args, { env: { ...env, ...more }, cwd: temp.dir, input });
const dataDir = (): string[] => ["--data-dir", server.ready.data_dir];
const asPerson = (): string[] => ["--session-token", session];

/** What to add to a command so that it succeeds. Commands that end things get a thing of their own. */
const successes: Record<string, () => { args?: string[]; env?: Record<string, string>; input?: string }> = {
  login: () => ({ args: ["--secret-key", "-", "--profile", "one"], input: s.secret_key }),
  whoami: () => ({}),
  "profile list": () => ({}),
  "workspace create": () => ({ args: ["--name", "W", "--slug", "www-w", "--bootstrap-token", s.bootstrap_token] }),
  "workspace show": () => ({}),
  "workspace update": () => ({ args: ["--name", "Renamed"] }),
  "project create": () => ({ args: ["--name", "P", "--slug", "made-here"] }),
  "project list": () => ({}),
  "project show": () => ({ args: [s.project_id] }),
  "project update": () => ({ args: [s.project_id, "--name", "Q"] }),
  "project delete": () => ({ args: [ids.project ?? ""] }),
  "tenant create": () => ({ args: ["--external-id", "made-here", "--meta", '{"a":1}'] }),
  "tenant list": () => ({}),
  "tenant show": () => ({ args: [s.tenant_id] }),
  "tenant update": () => ({ args: [s.tenant_id, "--unset", "name"] }),
  "tenant delete": () => ({ args: [ids.tenant ?? ""] }),
  "tenant revoke-embed-tokens": () => ({ args: [s.tenant_id] }),
  "tenant import": () => ({ args: ["tenants.csv"] }),
  "key create": () => ({
    args: ["--project-id", s.project_id, "--tenant-id", s.tenant_id, "--env", "live", "--scopes", "a", "--scopes", "b"],
  }),
  "key list": () => ({ args: ["--include-revoked", "--limit", "5"] }),
  "key show": () => ({ args: [ids.show ?? ""] }),
  "key update": () => ({ args: [ids.update ?? "", "--name", "n"] }),
  "key rotate": () => ({ args: [ids.rotate ?? "", "--overlap-hours", "1"] }),
  "key revoke": () => ({ args: [ids.wait ?? "", "--wait"] }),
  "key usage": () => ({ args: [ids.usage ?? ""] }),
  "secret-key create": () => ({ args: ["--env", "test"] }),
  "secret-key list": () => ({}),
  "secret-key show": () => ({ args: [ids.sk_rotate ?? ""] }),
  "secret-key rotate": () => ({ args: [ids.sk_rotate ?? ""] }),
  "secret-key revoke": () => ({ args: [ids.sk_revoke ?? "", "--reason", "done"] }),
  "environment list": () => ({}),
  "member list": () => ({}),
  "member update": () => ({ args: [member, "--role", "admin"] }),
  "member delete": () => ({ args: [ids.gone ?? ""] }),
  "invite create": () => ({ args: ["--email", "new@example.com", "--role", "member"] }),
  "invite list": () => ({}),
  "invite revoke": () => ({ args: [ids.invite ?? ""] }),
  "invite accept": () => ({ args: ["--token", inviteToken, "--session-token", ids.eve ?? ""] }),
  "session list": () => ({ args: asPerson() }),
  "session revoke": () => ({ args: [ids.session ?? "", ...asPerson()] }),
  "session switch": () => ({ args: ["--workspace-id", s.workspace_id, ...asPerson()] }),
  "embed-token create": () => ({ args: ["--project-id", s.project_id, "--tenant-id", s.tenant_id, "--env", "live"] }),
  "usage billing": () => ({}),
  "usage tenants": () => ({}),
  "audit list": () => ({ args: ["--limit", "2"] }),
  "audit verify": () => ({}),
  "audit export": () => ({ args: ["--out", "second.jsonl"] }),
  "audit checkpoint": () => ({}),
  "check-key": () => ({ args: ["-"], input: s.secret_key }),
  scan: () => ({ args: ["clean"] }),
  "signing-key list": () => ({ args: dataDir() }),
  "signing-key rotate": () => ({ args: dataDir() }),
  "user list": () => ({ args: dataDir() }),
  "user unlock": () => ({ args: ["ada@example.com", ...dataDir()] }),
  "user reset-link": () => ({ args: ["ada@example.com", ...dataDir()] }),
  "mail list": () => ({ args: dataDir() }),
  "mail show": () => ({ args: [ids.mail ?? "", ...dataDir()] }),
  "backup create": () => ({ args: dataDir() }),
  "backup list": () => ({ args: dataDir() }),
  "backup verify": () => ({ args: [ids.backup ?? "", ...dataDir()] }),
  "backup prune": () => ({ args: ["--dry-run", ...dataDir()] }),
  "backup test": () => ({ args: [ids.backup ?? "", ...dataDir()] }),
  "db check": () => ({ args: dataDir() }),
  doctor: () => ({ args: dataDir() }),
  status: () => ({}),
  "config show": () => ({}),
  "config check": () => ({}),
  "config example": () => ({}),
  openapi: () => ({}),
  completion: () => ({ args: ["fish"] }),
  version: () => ({}),
  init: () => ({ args: ["--yes", "--data-dir", "fresh", "--out", "fresh.toml"] }),
};

/** Tested where they can be: as processes of their own (serve.test.ts), in order below, or under a lock of their own. */
const ELSEWHERE = [
  "serve",
  "ephemeral",
  "gateway",
  "logout",
  "profile use",
  "profile remove",
  "db migrate",
  "db copy",
  "restore",
  "master-key rotate",
  "mail retry",
];

async function all<T>(items: readonly T[], work: (item: T) => Promise<string | undefined>): Promise<string[]> {
  const wrong: string[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const problem = await work(items[next++] as T);
      if (problem !== undefined) wrong.push(problem);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return wrong;
}

const said = (args: readonly string[], { code, stderr, stdout }: Ran): string =>
  `${args.join(" ")} → ${code}: ${stderr || stdout.slice(0, 200)}`;

describe("every command", { timeout: SWEEP_MS }, () => {
  it("is in this table", async () => {
    const leaves = (await leafCommands()).map(({ words }) => words.join(" "));
    expect(leaves.filter((name) => !(name in successes) && !ELSEWHERE.includes(name))).toEqual([]);
    expect(Object.keys(successes).filter((name) => !leaves.includes(name))).toEqual([]);
  });

  it("succeeds with 0, says something for people, and nothing on stderr", async () => {
    const wrong = await all(Object.entries(successes), async ([name, row]) => {
      const { args = [], env: more, input } = row();
      const words = [...name.split(" "), ...args];
      const ran = await run(words, more, input);
      const quietOk = ran.stdout.trim().length > 0 || name === "audit export";
      return ran.code === 0 && ran.stderr === "" && quietOk ? undefined : said(words, ran);
    });
    expect(wrong).toEqual([]);
  });

  it("refuses an unknown flag before it does anything", async () => {
    const wrong: string[] = [];
    for (const { words, command } of await leafCommands()) {
      let said = "";
      let ran = false;
      command.exitOverride().configureOutput({ writeErr: (text) => (said += text) });
      command.action(() => {
        ran = true;
      });
      const { args = [] } = successes[words.join(" ")]?.() ?? {};
      const refusal = await command.parseAsync([...args, "--no-such-flag"], { from: "user" }).then(
        () => null,
        (error: unknown) => (error as { code?: string }).code,
      );
      if (ran || refusal !== "commander.unknownOption" || !said.includes("--no-such-flag")) wrong.push(words.join(" "));
    }
    expect(wrong).toEqual([]);
  });

  it("refuses an unknown flag with 2 and one line of why: one of each noun, as a process", async () => {
    const nouns = new Map((await leafCommands()).map(({ words }) => [words[0], words]));
    const wrong = await all([...nouns.values()], async (words) => {
      const { args = [] } = successes[words.join(" ")]?.() ?? {};
      const ran = await run([...words, ...args, "--no-such-flag"]);
      return ran.code === 2 && ran.stdout === "" && ran.stderr.includes("--no-such-flag")
        ? undefined
        : said(words, ran);
    });
    expect(wrong).toEqual([]);
  });
});

describe("exit codes", { timeout: SWEEP_MS }, () => {
  const overHttp =
    /^(whoami|workspace|project|tenant|key|secret-key|environment|member|invite|session|embed-token|usage|audit|status|login)\b/;

  it("3 and the address, when nobody is there", async () => {
    const rows = Object.entries(successes).filter(([name]) => overHttp.test(name));
    const wrong = await all(rows, async ([name, row]) => {
      const { args = [], input } = row();
      const file = name === "tenant import" ? ["tenants.csv", "--restart"] : args;
      const words = [...name.split(" "), ...file, "--url", NOBODY];
      const ran = await run(words, {}, input);
      return ran.code === 3 && ran.stdout === "" && ran.stderr.includes(NOBODY) ? undefined : said(words, ran);
    });
    expect(wrong).toEqual([]);
  });

  for (const [why, args, code, says] of [
    ["an id that is nowhere", () => ["key", "show", UNKNOWN], 1, "No such key."],
    ["a refused field", () => ["project", "create", "--name", "P", "--slug", "X"], 1, "slug"],
    ["a bad credential", () => ["project", "list", "--secret-key", "krsk_live_x"], 1, "keyrack login"],
    ["an operator asking for nobody", () => ["user", "unlock", "no@example.com", ...dataDir()], 1, "No such"],
    ["a missing flag", () => ["key", "create"], 2, "--project-id, --tenant-id, --env"],
    [
      "JSON that is none",
      () => ["tenant", "create", "--external-id", "a", "--meta", "{"],
      2,
      "--meta is not valid JSON",
    ],
    ["a word that is no choice", () => ["secret-key", "create", "--env", "prod"], 2, "live, test"],
    ["an unknown noun", () => ["keys"], 2, "key"],
    ["a profile that is not there", () => ["project", "list", "--profile", "nope"], 2, "profile list"],
    ["no data dir", () => ["user", "list", "--data-dir", "nowhere"], 2, "There is no database"],
    ["a schema change under a running server", () => ["db", "migrate", ...dataDir()], 2, "is using the data dir"],
    ["a restore under a running server", () => ["restore", ...dataDir()], 1, "Stop it first"],
    ["a backup that is nowhere", () => ["backup", "verify", "20200101T000000Z-000000", ...dataDir()], 1, "no backup"],
    [
      "a database that is not there",
      () => ["init", "--yes", "--database-url", "postgres://x@127.0.0.1:1/x", "--out", "n.toml"],
      3,
      "Nothing was written",
    ],
    ["a forged log", () => ["audit", "verify", "--file", "forged.jsonl"], 4, "broken at seq 1: hash_mismatch"],
    ["a mistyped key", () => ["check-key", "kr_live_abc"], 4, "mistyped"],
    ["a key in a file", () => ["scan", "key.txt"], 4, "1 key found"],
  ] as const) {
    it(`${code} for ${why}`, async () => {
      const ran = await run([...args()]);
      expect(ran.code, ran.stderr).toBe(code);
      expect(ran.stderr).toContain(says);
      expect(ran.stderr).not.toMatch(/\n\s+at /);
      expect(ran.stdout + ran.stderr).not.toContain(s.secret_key);
    });
  }
});

describe("output", { timeout: SWEEP_MS }, () => {
  it("--json is the API's body unchanged, --quiet the id, and the key on create and rotate", async () => {
    const body = await (
      await fetch(`${s.url}/v1/projects/${s.project_id}`, { headers: { authorization: `Bearer ${s.secret_key}` } })
    ).text();
    expect((await run(["project", "show", s.project_id, "--json"])).stdout).toBe(`${body}\n`);
    expect((await run(["project", "show", s.project_id, "--quiet"])).stdout).toBe(`${s.project_id}\n`);
    const want = ["--project-id", s.project_id, "--tenant-id", s.tenant_id, "--env", "test", "--quiet"];
    expect((await run(["key", "create", ...want])).stdout).toMatch(/^kr_test_[\w-]{40}\n$/);
    expect((await run(["key", "rotate", ids.usage ?? "", "--quiet"])).stdout).toMatch(/^kr_live_[\w-]{40}\n$/);
    const refused = await run(["key", "show", UNKNOWN, "--json"]);
    expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: "not_found" } });
  });

  it("text that others chose cannot steer the terminal", async () => {
    await api("POST", "/v1/tenants", { external_id: "evil", name: "\u001b[2J\u202egnp" });
    const { stdout } = await run(["tenant", "list"]);
    expect(stdout).not.toContain("\u001b");
    expect(stdout).toContain("\\u001b[2J\\u202egnp");
  });

  it("a bulk run goes on after an interruption and makes nothing twice", async () => {
    const csv = join(temp.dir, "bulk.csv");
    writeFileSync(csv, `tenant_id,name\n${`${s.tenant_id},k\n`.repeat(6)}`);
    const args = ["key", "create", "--from-csv", csv, "--project-id", s.project_id, "--env", "live"];
    expect((await run([...args, "--url", NOBODY])).code).toBe(3);
    expect((await run(args)).stdout).toContain("Created 6 keys from 6 rows.");
    const state = readFileSync(`${csv}.keyrack-state`, "utf8").split("\n");
    writeFileSync(`${csv}.keyrack-state`, `${state.slice(0, 3).join("\n")}\n{"row":`); // as a crash would leave it
    expect((await run(args)).stdout).toContain("Created 4 keys from 6 rows. An earlier run created 2.");
    const kept = readFileSync(`${csv}.keys.csv`, "utf8").trim().split("\n").slice(1);
    expect(new Set(kept.map((line) => line.split(",")[0])).size).toBe(6);
    expect(kept).toHaveLength(6);
  });
});

describe("profiles", { timeout: SWEEP_MS }, () => {
  it("keep credentials private, for their own server only, and forget them", async () => {
    const own = { XDG_CONFIG_HOME: join(temp.dir, "profiles"), KEYRACK_SECRET_KEY: "", KEYRACK_URL: "" };
    const login = await run(
      ["login", "--url", s.url, "--email", "ada@example.com", "--password-stdin", "--profile", "ada"],
      own,
      PASSWORD,
    );
    expect(login).toMatchObject({ code: 0, stderr: "" });
    expect((await run(["login", "--url", s.url, "--secret-key", "-", "--profile", "ci"], own, s.secret_key)).code).toBe(
      0,
    );
    expect((await run(["whoami", "--profile", "ada"], own)).stdout).toContain("ada@example.com");
    expect((await run(["project", "list", "--quiet"], own)).stdout).toContain(s.project_id);
    const listed = await run(["profile", "list"], own);
    expect(listed.stdout).not.toContain(s.secret_key);
    const elsewhere = await run(["project", "list", "--url", NOBODY], own);
    expect(elsewhere).toMatchObject({ code: 2, stderr: expect.stringContaining("No credential for") as string });
    expect((await run(["profile", "use", "ada"], own)).code).toBe(0);
    expect((await run(["logout"], own)).stdout).toContain("Ended the session");
    expect((await run(["profile", "remove", "ci"], own)).code).toBe(0);
    expect((await run(["profile", "list", "--json"], own)).stdout).toBe('{"object":"list","data":[]}\n');
  });
});
