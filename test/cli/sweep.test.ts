// Runs every command as a process against one seeded instance: success, unknown flags (2) and an unreachable server
// (3). The checkout by default; `npm run test:binary` runs the same on dist/keyrack.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { collectProblems } from "../../harness/processes/collect-problems.ts";
import type { Ran } from "../../harness/processes/cli.ts";
import {
  PASSWORD,
  startSeededServer,
  UNREACHABLE,
  type Created,
  type SeededServer,
} from "../../harness/processes/seeded-server.ts";
import { writeSmallRelease } from "../../harness/release/small-release.ts";
import { commandMap } from "../../tools/commands-map.ts";
import { leafCommands } from "../../tools/help.ts";

let cli: SeededServer;
let seed: SeededServer["seed"];
const ids: Record<string, string> = {};
/** Credentials by name: sessions of ada and eve, and eve's invitation. */
const tokens: Record<string, string> = {};

async function addMember(email: string): Promise<{ session: string; user_id: string }> {
  const session = await cli.signUp(email);
  const invite = await cli.api("POST", "/v1/invites", { email, role: "member" });
  const { user_id } = await cli.api("POST", "/v1/auth/invites/accept", { token: invite.token }, session);
  return { session, user_id };
}

beforeAll(async () => {
  cli = await startSeededServer();
  ({ seed } = cli);
  const key = { project_id: seed.project_id, tenant_id: seed.tenant_id, env: "live" };
  for (const name of ["show", "update", "rotate", "wait", "usage"])
    ids[name] = (await cli.api("POST", "/v1/keys", key)).id;
  for (const name of ["holder", "rotating", "leaked"]) tokens[name] = (await cli.api("POST", "/v1/keys", key)).key;
  await cli.api("PATCH", `/v1/projects/${seed.project_id}`, { key_policy: { holder_rotate: true } });
  for (const name of ["sk_rotate", "sk_revoke"])
    ids[name] = (await cli.api("POST", "/v1/secret_keys", { env: "live" })).id;
  await cli.api("PATCH", "/v1/workspace", { embed_origins: ["https://app.example.com"] });
  ids.project = (await cli.api("POST", "/v1/projects", { name: "P", slug: "to-delete" })).id;
  ids.tenant = (await cli.api("POST", "/v1/tenants", { external_id: "to-delete" })).id;
  for (const name of ["plan", "unused_plan"])
    ids[name] = (await cli.api("POST", "/v1/plans", { name: "Plan", slug: name.replace("_", "-") })).id;
  const quotas = [{ id: "calls", amount: 10, refill: "monthly" }];
  ids.metered = (await cli.api("POST", "/v1/tenants", { external_id: "metered", quotas })).id;
  ids.grant = (await cli.api("POST", `/v1/tenants/${ids.metered}/quotas/calls/grants`, { units: 5 })).id;
  ids.suspended = (await cli.api("POST", "/v1/tenants", { external_id: "to-suspend" })).id;
  const ada = await addMember("ada@example.com");
  tokens.ada = ada.session;
  ids.ada = ada.user_id;
  ids.leaver = (await addMember("leaver@example.com")).user_id;
  const login = { email: "ada@example.com", password: PASSWORD };
  ids.session = (await cli.api("POST", "/v1/auth/sessions", login, null)).id;
  ids.invite = (await cli.api("POST", "/v1/invites", { email: "x@example.com", role: "member" })).id;
  tokens.eve = await cli.signUp("eve@example.com");
  tokens.invite = (await cli.api("POST", "/v1/invites", { email: "eve@example.com", role: "member" })).token;
  const mail = await cli.run(["mail", "list", "--json", ...cli.dataDir]);
  ids.mail = (JSON.parse(mail.stdout) as { data: Created[] }).data[0]?.id ?? "";
  ids.backup = (await cli.run(["backup", "create", "--quiet", ...cli.dataDir])).stdout.trim();
  writeFileSync(join(cli.dir, "tenants.csv"), "external_id,name\nc1,One\nc2,Two\n");
  mkdirSync(join(cli.dir, "clean"));
  writeSmallRelease(join(cli.dir, "release"));
});

afterAll(() => cli?.[Symbol.asyncDispose]());

const asAda = (): string[] => ["--session-token", tokens.ada ?? ""];

/** What to add to a command so that it succeeds. Commands that revoke or delete have a record of their own. */
const successes: Record<string, () => { args?: string[]; env?: Record<string, string>; input?: string }> = {
  login: () => ({ args: ["--secret-key", "-", "--profile", "one"], input: seed.secret_key }),
  whoami: () => ({}),
  "profile list": () => ({}),
  "workspace create": () => ({ args: ["--name", "W", "--slug", "www-w", "--bootstrap-token", seed.bootstrap_token] }),
  "workspace show": () => ({}),
  "workspace overview": () => ({}),
  "workspace update": () => ({ args: ["--name", "Renamed"] }),
  "project create": () => ({ args: ["--name", "P", "--slug", "made-here"] }),
  "project list": () => ({}),
  "project show": () => ({ args: [seed.project_id] }),
  "project update": () => ({ args: [seed.project_id, "--name", "Q"] }),
  "project key-policy-report": () => ({ args: [seed.project_id, "--max-ttl-days", "30"] }),
  "project delete": () => ({ args: [ids.project ?? ""] }),
  "tenant create": () => ({ args: ["--external-id", "made-here", "--meta", '{"a":1}'] }),
  "tenant list": () => ({}),
  "tenant show": () => ({ args: [seed.tenant_id] }),
  "tenant update": () => ({ args: [seed.tenant_id, "--unset", "name", "--plan-id", ids.plan ?? "", "--wait"] }),
  "plan create": () => ({ args: ["--name", "Pro", "--slug", "pro", "--scopes", "a", "--max-keys", "1000"] }),
  "plan list": () => ({}),
  "plan show": () => ({ args: [ids.plan ?? ""] }),
  "plan update": () => ({ args: [ids.plan ?? "", "--unset", "scopes", "--wait"] }),
  "plan delete": () => ({ args: [ids.unused_plan ?? ""] }),
  "quota show": () => ({ args: ["--tenant-id", ids.metered ?? ""] }),
  "quota grants": () => ({ args: ["--tenant-id", ids.metered ?? "", "--quota-id", "calls"] }),
  "quota grant": () => ({ args: ["--tenant-id", ids.metered ?? "", "--quota-id", "calls", "--units", "5"] }),
  "quota void": () => ({ args: [ids.grant ?? ""] }),
  "tenant suspend": () => ({ args: [ids.suspended ?? "", "--reason", "unpaid", "--wait"] }),
  "tenant resume": () => ({ args: [ids.suspended ?? ""] }),
  "tenant delete": () => ({ args: [ids.tenant ?? ""] }),
  "tenant revoke-embed-tokens": () => ({ args: [seed.tenant_id] }),
  "tenant import": () => ({ args: ["tenants.csv"] }),
  "key create": () => ({
    args: [
      "--project-id",
      seed.project_id,
      "--tenant-id",
      seed.tenant_id,
      "--env",
      "live",
      "--scopes",
      "a",
      "--scopes",
      "b",
    ],
  }),
  "key list": () => ({ args: ["--include-revoked", "--limit", "5"] }),
  "key show": () => ({ args: [ids.show ?? "", "--include", "effective"] }),
  "key update": () => ({ args: [ids.update ?? "", "--name", "n", "--allowed-cidrs", "10.0.0.0/8", "--wait"] }),
  "key rotate": () => ({ args: [ids.rotate ?? "", "--overlap-hours", "1"] }),
  "key revoke": () => ({ args: [ids.wait ?? "", "--wait"] }),
  "key disable": () => ({ args: [ids.update ?? "", "--wait", "--reason", "unpaid"] }),
  "key enable": () => ({ args: [ids.update ?? "", "--wait"] }),
  "key bulk": () => ({ args: ["disable", "--ids", ids.show ?? "", "--yes", "--wait"] }),
  "key find": () => ({ args: ["kr_live", "--limit", "5"] }),
  "key lookup": () => ({ input: tokens.holder ?? "" }),
  "self show": () => ({ input: tokens.holder ?? "" }),
  "self rotate": () => ({ input: tokens.rotating ?? "" }),
  "self revoke": () => ({ args: ["--reason", "leaked", "--wait"], input: tokens.leaked ?? "" }),
  "key usage": () => ({ args: [ids.usage ?? ""] }),
  "key ip-report": () => ({ args: [ids.usage ?? "", "--days", "30"] }),
  "secret-key create": () => ({ args: ["--env", "test"] }),
  "secret-key list": () => ({}),
  "secret-key show": () => ({ args: [ids.sk_rotate ?? ""] }),
  "secret-key rotate": () => ({ args: [ids.sk_rotate ?? ""] }),
  "secret-key revoke": () => ({ args: [ids.sk_revoke ?? "", "--reason", "done"] }),
  "environment list": () => ({}),
  "member list": () => ({}),
  "member update": () => ({ args: [ids.ada ?? "", "--role", "admin"] }),
  "member left-behind": () => ({ args: [ids.ada ?? ""] }),
  "member delete": () => ({ args: [ids.leaver ?? ""] }),
  "invite create": () => ({ args: ["--email", "new@example.com", "--role", "member"] }),
  "invite list": () => ({}),
  "invite revoke": () => ({ args: [ids.invite ?? ""] }),
  "invite accept": () => ({ args: ["--token", tokens.invite ?? "", "--session-token", tokens.eve ?? ""] }),
  "session list": () => ({ args: asAda() }),
  "session revoke": () => ({ args: [ids.session ?? "", ...asAda()] }),
  "session switch": () => ({ args: ["--workspace-id", seed.workspace_id, ...asAda()] }),
  "embed-token create": () => ({
    args: ["--project-id", seed.project_id, "--tenant-id", seed.tenant_id, "--env", "live"],
  }),
  "usage billing": () => ({}),
  "usage tenants": () => ({}),
  "usage series": () => ({}),
  "usage export": () => ({
    args: ["--from", startOfDay(-1), "--to", startOfDay(0), "--format", "csv", "--out", "usage.csv"],
  }),
  "audit list": () => ({ args: ["--limit", "2"] }),
  "audit verify": () => ({}),
  "audit export": () => ({ args: ["--out", "second.jsonl"] }),
  "audit checkpoint": () => ({}),
  "check-key": () => ({ args: ["-"], input: seed.secret_key }),
  scan: () => ({ args: ["clean"] }),
  "scan patterns": () => ({}),
  "signing-key list": () => ({ args: cli.dataDir }),
  "signing-key rotate": () => ({ args: cli.dataDir }),
  "node list": () => ({ args: ["--view", "fleet"] }),
  "node acks": () => ({ args: ["--project-id", seed.project_id, "--version", "1"] }),
  "setup link": () => ({ args: cli.dataDir }),
  "user list": () => ({ args: cli.dataDir }),
  "user create": () => ({ args: ["grace@example.com", ...cli.dataDir] }),
  "user unlock": () => ({ args: ["ada@example.com", ...cli.dataDir] }),
  "user reset-link": () => ({ args: ["ada@example.com", ...cli.dataDir] }),
  "meter status": () => ({ args: cli.dataDir }),
  "meter replay": () => ({ args: ["--from", startOfDay(-1), "--to", startOfDay(0), ...cli.dataDir] }),
  "meter retry": () => ({ args: cli.dataDir }),
  "mail list": () => ({ args: cli.dataDir }),
  "mail show": () => ({ args: [ids.mail ?? "", ...cli.dataDir] }),
  "backup create": () => ({ args: cli.dataDir }),
  "backup list": () => ({ args: cli.dataDir }),
  "backup verify": () => ({ args: [ids.backup ?? "", ...cli.dataDir] }),
  "backup prune": () => ({ args: ["--dry-run", ...cli.dataDir] }),
  "backup test": () => ({ args: [ids.backup ?? "", ...cli.dataDir] }),
  "db check": () => ({ args: cli.dataDir }),
  top: () => ({ args: cli.dataDir }),
  "release verify": () => ({ args: ["release", "--unsigned"] }),
  status: () => ({}),
  "config show": () => ({}),
  "config check": () => ({}),
  "config example": () => ({}),
  openapi: () => ({}),
  completion: () => ({ args: ["fish"] }),
  version: () => ({}),
  init: () => ({ args: ["--yes", "--data-dir", "fresh", "--out", "fresh.toml"] }),
};

/** Tested elsewhere: long-running, in a fixed order, with a lock, or (doctor) because throttling is off here. */
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
  "doctor",
];

const startOfDay = (days: number): string =>
  new Date(Math.floor(Date.now() / 86_400_000 + days) * 86_400_000).toISOString();

const describeRun = (args: readonly string[], { code, stderr, stdout }: Ran): string =>
  `${args.join(" ")} → ${code}: ${stderr || stdout.slice(0, 200)}`;

describe("every command", () => {
  it("is in this table", async () => {
    const leaves = (await leafCommands()).map(({ words }) => words.join(" "));
    expect(leaves.filter((name) => !(name in successes) && !ELSEWHERE.includes(name))).toEqual([]);
    expect(Object.keys(successes).filter((name) => !leaves.includes(name))).toEqual([]);
  });

  it("succeeds with 0, prints a result, and prints nothing on stderr", async () => {
    const problems = await collectProblems(Object.entries(successes), async ([name, row]) => {
      const { args = [], env: more, input } = row();
      const words = [...name.split(" "), ...args];
      const ran = await cli.run(words, more, input);
      const hasOutput = ran.stdout.trim().length > 0;
      return ran.code === 0 && ran.stderr === "" && hasOutput ? undefined : describeRun(words, ran);
    });
    expect(problems).toEqual([]);
  });

  it("rejects an unknown flag before it does anything", async () => {
    const problems: string[] = [];
    for (const { words, command } of await leafCommands()) {
      let printed = "";
      let acted = false;
      command.exitOverride().configureOutput({ writeErr: (text) => (printed += text) });
      command.action(() => {
        acted = true;
      });
      const { args = [] } = successes[words.join(" ")]?.() ?? {};
      const error = await command.parseAsync([...args, "--no-such-flag"], { from: "user" }).then(
        () => null,
        (thrown: unknown) => (thrown as { code?: string }).code,
      );
      if (acted || error !== "commander.unknownOption" || !printed.includes("--no-such-flag"))
        problems.push(words.join(" "));
    }
    expect(problems).toEqual([]);
  });

  it("rejects an unknown flag with exit 2, as a process", async () => {
    const some = ["key create", "user list", "serve", "scan"].map((name) => name.split(" "));
    const problems = await collectProblems(some, async (words) => {
      const { args = [] } = successes[words.join(" ")]?.() ?? {};
      const ran = await cli.run([...words, ...args, "--no-such-flag"]);
      return ran.code === 2 && ran.stdout === "" && ran.stderr.includes("--no-such-flag")
        ? undefined
        : describeRun(words, ran);
    });
    expect(problems).toEqual([]);
  });

  const OVER_HTTP =
    /^(whoami|workspace|project|tenant|key|secret-key|environment|member|invite|session|embed-token|usage|audit|status|login|self)\b/;

  it("exits 3 and names the address if the server is unreachable", async () => {
    // Commands of the map share one implementation: one of each noun.
    const mapped = new Map(Object.values(commandMap).map(({ command }) => [command.split(" ")[0], command]));
    const shared = new Set<string>(Object.values(commandMap).map(({ command }) => command));
    for (const command of mapped.values()) shared.delete(command);
    const rows = Object.entries(successes).filter(([name]) => OVER_HTTP.test(name) && !shared.has(name));
    const problems = await collectProblems(rows, async ([name, row]) => {
      const { args = [], input } = row();
      const file = name === "tenant import" ? ["tenants.csv", "--restart"] : args;
      const words = [...name.split(" "), ...file, "--url", UNREACHABLE];
      const ran = await cli.run(words, {}, input);
      return ran.code === 3 && ran.stdout === "" && ran.stderr.includes(UNREACHABLE)
        ? undefined
        : describeRun(words, ran);
    });
    expect(problems).toEqual([]);
  });
});
