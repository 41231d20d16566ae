// The examples as written: each copied to its own folder, with the library installed from its package.

import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer } from "../../harness/processes/server.ts";
import { createClient } from "../../harness/api-client.ts";
import { portOf, stableAddress } from "../../harness/processes/stable-address.ts";
import { installSdk } from "../../harness/sdk/package.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { pace, until } from "../../harness/waiting.ts";

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "keyrack-examples-"));
const EXAMPLES = ["express-app", "hono-app", "fastify-idempotent-payments"];

beforeAll(async () => {
  for (const name of EXAMPLES) {
    const app = join(folder, name);
    installSdk(app);
    cpSync(join(root, "examples", name), app, { recursive: true });
    // The frameworks are not in the offline cache as packages; this repository has them installed.
    const { dependencies } = JSON.parse(readFileSync(join(app, "package.json"), "utf8")) as { dependencies: object };
    for (const other of Object.keys(dependencies).filter((one) => one !== "@keyrack/sdk")) {
      symlinkSync(join(root, "node_modules", other), join(app, "node_modules", other));
    }
  }
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

class Running {
  readonly url: string;
  readonly #child: ChildProcess;

  constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  async stop(): Promise<number | null> {
    if (this.#child.exitCode === null) {
      this.#child.kill("SIGTERM");
      await once(this.#child, "exit");
    }
    return this.#child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

type Where = Record<"url" | "secretKey" | "projectId", string>;

async function start(name: string, { url, secretKey, projectId }: Where, more = {}): Promise<Running> {
  const env = {
    PATH: process.env["PATH"],
    PORT: "0",
    KEYRACK_URL: url,
    KEYRACK_SECRET_KEY: secretKey,
    KEYRACK_PROJECT_ID: projectId,
    ...more,
  };
  const child = spawn(process.execPath, ["app.mjs"], {
    cwd: join(folder, name),
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  expect(line).toMatch(/^listening on http:\/\/127\.0\.0\.1:\d+$/);
  return new Running(child, line.slice("listening on ".length));
}

describe("every example", () => {
  for (const name of EXAMPLES) {
    it(`${name} is under 80 lines`, () => {
      expect(readFileSync(join(root, "examples", name, "app.mjs"), "utf8").split("\n").length).toBeLessThan(80);
    });
  }
});

describe("examples/express-app", () => {
  it("separates tenants and environments, requires scopes, and exits cleanly", async () => {
    await using plane = await FakeControlPlane.start();
    const scopes = ["orders:read", "orders:write"];
    const [live, test, reader] = [
      plane.mint({ scopes }),
      plane.mint({ scopes, env: "test" }),
      plane.mint({ scopes: ["orders:read"] }),
    ];
    await using app = await start("express-app", plane, { KEYRACK_CACHE_FILE: "" });
    const orders = (key: string, item?: string) =>
      fetch(`${app.url}/orders`, {
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        ...(item !== undefined && { method: "POST", body: JSON.stringify({ item }) }),
      });
    expect(await (await orders(live.key, "book")).json()).toEqual({ id: 1, item: "book", env: "live" });
    expect(await (await orders(reader.key)).json()).toMatchObject({ orders: [{ item: "book" }] });
    expect(await (await orders(test.key)).json()).toEqual({ orders: [] });
    expect((await orders(reader.key, "car")).status).toBe(403);
    expect((await fetch(`${app.url}/orders`)).status).toBe(401);
    const health = await fetch(`${app.url}/health`);
    expect([health.status, await health.json()]).toEqual([200, { degraded: false }]);
    expect(await app.stop()).toBe(0);
    expect(plane.ingest.events.length).toBe(5);
    expect(plane.feed.nodes.size).toBe(0);
  });
});

describe("examples/express-app while the real server is killed", () => {
  const STALE_MS = 1000;

  it("fails no valid request, becomes degraded, and receives a revocation made after the server is back", async () => {
    const data = join(folder, "data");
    await using address = await stableAddress();
    const { url } = address;
    let server = await startServer(["--data-dir", data]);
    address.target = portOf(server.ready.url);
    const { bootstrap_token_file } = server.ready;
    const boot = createClient({ url, bearer: readFileSync(String(bootstrap_token_file), "utf8").trim() });
    const { secret_key } = await boot.call("POST /v1/workspaces", { body: { name: "Acme", slug: "acme" } });
    const api = createClient({ url, bearer: secret_key.key });
    const project = await api.call("POST /v1/projects", { body: { name: "Orders", slug: "orders" } });
    const tenant = await api.call("POST /v1/tenants", { body: { external_id: "one" } });
    const want = { project_id: project.id, tenant_id: tenant.id, env: "live" as const, scopes: ["orders:read"] };
    const [valid, revoked] = [
      await api.call("POST /v1/keys", { body: want }),
      await api.call("POST /v1/keys", { body: want }),
    ];
    const where = { url, secretKey: secret_key.key, projectId: project.id };
    await using app = await start("express-app", where, { KEYRACK_STALE_MS: String(STALE_MS) });
    const orders = async (key: string | undefined): Promise<number> => {
      const response = await fetch(`${app.url}/orders`, { headers: { authorization: `Bearer ${key}` } });
      await response.text();
      return response.status;
    };
    const health = async () => (await (await fetch(`${app.url}/health`)).json()) as { degraded: boolean };
    const traffic = { statuses: new Set<number>(), stop: false };
    const running = (async () => {
      while (!traffic.stop) {
        traffic.statuses.add(await orders(valid.key));
        await pace();
      }
    })();

    await expect.poll(health).toEqual({ degraded: false });
    address.target = null;
    expect(await server.end("SIGKILL")).toBe("SIGKILL");
    await expect.poll(async () => (await health()).degraded).toBe(true);
    expect([await orders(valid.key), await orders(revoked.key), await orders("kr_live_nonsense")]).toEqual([
      200, 200, 401,
    ]);

    server = await startServer(["--data-dir", data]);
    address.target = portOf(server.ready.url);
    await expect.poll(async () => (await health()).degraded).toBe(false);
    const { propagation } = await api.call("POST /v1/keys/{id}/revoke", {
      params: { id: revoked.id },
      query: { wait: "true" },
      body: {},
    });
    expect(propagation).toMatchObject({ complete: true, acked_nodes: 1 });
    expect([await orders(valid.key), await orders(revoked.key)]).toEqual([200, 401]);
    traffic.stop = true;
    await running;
    expect([...traffic.statuses]).toEqual([200]);
    expect(await app.stop()).toBe(0);
    expect(await server.end("SIGTERM")).toBe(0);
  });
});

describe("examples/hono-app", () => {
  it("skips one route, spends leases, and checks a scope inside a handler", async () => {
    await using plane = await FakeControlPlane.start();
    const rule = {
      id: "per-minute",
      limit: 20,
      window_ms: 60_000,
      algorithm: "sliding" as const,
      scope: "key" as const,
    };
    const { key } = plane.mint({ rate_limits: [rule] });
    await using app = await start("hono-app", plane);
    const headers = { authorization: `Bearer ${key}` };
    expect((await fetch(`${app.url}/health`)).status).toBe(204);
    expect((await fetch(`${app.url}/whoami`)).status).toBe(401);
    // On a busy machine the first lease may come too late: such a request is admitted uncounted, without a header.
    const counted: Response[] = [];
    await until(async () => {
      const response = await fetch(`${app.url}/whoami`, { headers });
      if (response.headers.has("ratelimit-policy")) counted.push(response);
      return counted.length === 22;
    });
    expect(counted.map(({ status }) => status)).toEqual([...Array.from({ length: 20 }, () => 200), 429, 429]);
    expect(counted[0]?.headers.get("ratelimit-policy")).toBe('"per-minute";q=20;w=60');
    expect(plane.limits.checks.length).toBe(0);
    const [admin, plain] = [plane.mint({ scopes: ["everything:delete"] }).key, plane.mint().key];
    await plane.feed.acknowledged(1);
    const wipe = (key: string) => fetch(`${app.url}/everything`, { method: "DELETE", headers: { "x-api-key": key } });
    expect((await wipe(admin)).status).toBe(200);
    expect((await wipe(plain)).status).toBe(403);
    expect(await app.stop()).toBe(0);
  });
});

describe("examples/fastify-idempotent-payments", () => {
  it("charges once, lets a retry run after an error, and replays a declined charge", async () => {
    await using plane = await FakeControlPlane.start();
    const scopes = ["charges:write", "charges:read"];
    const { key } = plane.mint({ scopes });
    const other = plane.mint({ scopes, tenant_id: randomUUID() }).key;
    await using app = await start("fastify-idempotent-payments", plane);
    const charge = (idempotencyKey: string | null, body: object) =>
      fetch(`${app.url}/charges`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          ...(idempotencyKey !== null && { "idempotency-key": idempotencyKey }),
        },
        body: JSON.stringify(body),
      });
    const first = await charge('"order-7"', { amount: 500 });
    expect([first.status, await first.json()]).toEqual([201, { id: "ch_1", tenant: plane.tenantId }]);
    for (let i = 0; i < 2; i++) {
      const again = await charge('"order-7"', { amount: 500 });
      expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([201, "true"]);
    }
    expect((await charge('"order-7"', { amount: 1 })).status).toBe(422);
    expect((await charge(null, { amount: 1 })).status).toBe(400);
    expect((await charge("away", { amount: 2, card: "bank_away" })).status).toBe(502);
    expect((await charge("away", { amount: 2, card: "bank_away" })).status).toBe(502);
    expect((await charge("no", { amount: 3, card: "refused" })).status).toBe(402);
    expect((await charge("no", { amount: 3, card: "refused" })).headers.get("idempotent-replayed")).toBe("true");
    const chargesOf = async (key: string): Promise<unknown> =>
      (await fetch(`${app.url}/charges`, { headers: { authorization: `Bearer ${key}` } })).json();
    expect(await chargesOf(key)).toEqual({ charges: [500] });
    expect(await chargesOf(other)).toEqual({ charges: [] });
    expect(await app.stop()).toBe(0);
  });
});
