// The compose files, as far as it can be tested without Docker: its settings exist, its probe works, and two
// processes configured as it says are one service.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { envOf, settingNames } from "../../src/config/settings.ts";
import { backends } from "../../harness/databases/backends.ts";
import { testInstance, type TestInstance, type Workspace } from "../../harness/instances/test-instance.ts";
import { findRedis, hasRedis } from "../../harness/databases/redis.ts";
import { keyrack } from "../../harness/processes/cli.ts";

const read = (name: string): string =>
  readFileSync(fileURLToPath(new URL(`../../deploy/compose/${name}`, import.meta.url)), "utf8");
const compose = read("compose.yaml");

describe("deploy/compose", () => {
  it("sets only existing settings, to valid values", () => {
    const filled = compose.replace(/\$\{(\w+):[?-]([^}]*)\}/g, (_all, name: string, or: string) =>
      name === "POSTGRES_PASSWORD" ? "secret" : name === "PUBLIC_HOST" ? "keys.example.com" : or,
    );
    const env = Object.fromEntries(
      [...filled.matchAll(/^ +(KEYRACK_\w+): (.*)$/gm)].map(([, name, value]) => [name, value]),
    );
    const known: string[] = settingNames.map(envOf);
    expect(Object.keys(env).filter((name) => !known.includes(name))).toEqual([]);
    const { settings, warnings } = loadSettings({ env, cwd: "/" });
    expect(warnings).toEqual([]);
    expect(settings).toMatchObject({
      public_url: "https://keys.example.com",
      redis_url: ["redis://redis:6379"],
      trust_proxy: ["172.30.47.0/24"],
    });
    expect(compose).toContain("subnet: 172.30.47.0/24");
  });

  it("names every variable in .env.example, and both processes in the Caddyfile", () => {
    const wanted = new Set([...compose.matchAll(/\$\{(\w+)/g)].map(([, name]) => name));
    const given = [...read(".env.example").matchAll(/^(\w+)=/gm)].map(([, name]) => name);
    expect(new Set(given)).toEqual(wanted);
    for (const name of ["keyrack-1", "keyrack-2"]) {
      expect(compose).toContain(`\n  ${name}:\n`);
      expect(read("Caddyfile")).toContain(`${name}:4747`);
    }
  });
});

describe.runIf(backends.includes("postgres"))("two processes on PostgreSQL and Redis", () => {
  let redis: Awaited<ReturnType<typeof findRedis>>;
  let one: TestInstance;
  let two: TestInstance;
  let workspace: Workspace;
  beforeAll(async () => {
    redis = await findRedis();
    const flags = redis ? { redis_url: redis.url } : {};
    one = await testInstance("postgres", { flags });
    two = await testInstance("postgres", { flags, beside: one });
    workspace = await one.workspace();
  });
  afterAll(async () => {
    await two[Symbol.asyncDispose]();
    await one[Symbol.asyncDispose]();
    await redis?.stop();
  });
  const onTwo = (route: string, body?: unknown) => two.call(workspace.keys.sk_owner, route, body);

  it("respond to the health check", async () => {
    const command = /^ +test: \[CMD, keyrack, (.*)\]$/m.exec(compose)?.[1]?.split(", ") ?? [];
    const check = (url: string) => keyrack(command, { env: { KEYRACK_URL: url } });
    const codes = (await Promise.all([one.url, two.url, "http://127.0.0.1:1"].map(check))).map(({ code }) => code);
    expect(codes).toEqual([0, 0, 3]);
  });

  it("show each other's changes at once, a secret key's revocation included", async () => {
    const key = await workspace.mint();
    expect((await onTwo(`GET /v1/keys/${key.id}`)).status).toBe(200);
    await onTwo(`POST /v1/keys/${key.id}/revoke`, {});
    expect((await workspace.call("sk_owner", `GET /v1/keys/${key.id}`)).body.revoked_at).not.toBeNull();
    const poll = () =>
      two.call(workspace.keys.sk_admin, `GET /v1/policy/delta?project_id=${workspace.project_id}&since=0`);
    expect((await poll()).status).toBe(200);
    await workspace.call("sk_owner", `POST /v1/secret_keys/${workspace.keyIds.sk_admin}/revoke`, {});
    await expect.poll(async () => (await poll()).status).toBe(401);
  });

  it("wake each other's long polls", async () => {
    const { version } = (await onTwo(`GET /v1/policy/snapshot?project_id=${workspace.project_id}`)).body;
    const waiting = onTwo(`GET /v1/policy/delta?project_id=${workspace.project_id}&since=${version}&wait_ms=20000`);
    await expect.poll(() => two.app.services.feed.waiting).toBe(1);
    const key = await workspace.mint();
    expect((await waiting).body.changes).toMatchObject([{ key_id: key.id }]);
  });

  it.runIf(hasRedis())("hold one limit together", async () => {
    const limits = [{ id: "m", limit: 7, window_ms: 60_000, algorithm: "fixed", scope: "tenant" }];
    const body = {
      project_id: workspace.project_id,
      env: "live",
      key_id: null,
      tenant_id: workspace.tenant_id,
      cost: 1,
      limits,
    };
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        (i % 2 ? one : two).call(workspace.keys.sk_owner, "POST /v1/ratelimit/check", body),
      ),
    );
    expect(answers.filter(({ body: { allowed } }) => allowed)).toHaveLength(7);
    expect(new Set(answers.map(({ body: { store } }) => store))).toEqual(new Set(["redis"]));
  });

  it("have one leader, which alone runs the jobs", async () => {
    const leaders = () => [one, two].filter(({ app }) => app.services.worker.leads);
    await expect.poll(() => leaders().length).toBe(1);
    const [leader] = leaders();
    const follower = leader === one ? two : one;
    const did = vi.spyOn(leader!.app.services.store, "checkpointIfIdle");
    const didNot = vi.spyOn(follower.app.services.store, "checkpointIfIdle");
    const looked = vi.spyOn(follower.app.services.store, "tryBecomeLeader");
    one.clock.advance(10 * 60_000); // every short job is due in both
    await expect.poll(() => [did.mock.calls.length, looked.mock.calls.length > 1]).toEqual([1, true]);
    expect(didNot).not.toHaveBeenCalled();
  });
});
