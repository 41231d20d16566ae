// examples/nginx-gateway with real nginx, gateway and server: the responses that a customer of the API gets.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, request, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startSeededServer, type SeededServer } from "../../harness/processes/seeded-server.ts";
import { startProcess, type Running } from "../../harness/processes/server.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { nginxVersion, startNginx, type Nginx } from "../../harness/processes/nginx.ts";
import { until } from "../../harness/waiting.ts";
import { portOf, stableAddress, type StableAddress } from "../../harness/processes/stable-address.ts";

const example = join(import.meta.dirname, "../../examples/nginx-gateway/keyrack.conf");

it("examples/nginx-gateway is under 80 lines", () => {
  expect(readFileSync(example, "utf8").split("\n").length).toBeLessThan(80);
});

describe.runIf(nginxVersion)(`keyrack gateway behind ${nginxVersion}`, () => {
  let temp: ReturnType<typeof tempDir>;
  let server: SeededServer;
  let gateway: Running;
  let gatewayAddress: StableAddress;
  let nginx: Nginx;
  let api: Server;
  let url = "";
  let env: Record<string, string>;
  let seeded: Record<"url" | "secret_key" | "project_id" | "tenant_id", string>;
  const reached: { url: string; headers: IncomingHttpHeaders; body: string }[] = [];

  const call = async <T>(method: string, path: string, body: unknown): Promise<T> => {
    const headers = { authorization: `Bearer ${seeded.secret_key}`, "content-type": "application/json" };
    const response = await fetch(seeded.url + path, { method, headers, body: JSON.stringify(body) });
    return (await response.json()) as T;
  };
  /** A key that the gateway has loaded. */
  const mint = async (more: object): Promise<{ id: string; key: string }> => {
    const { project_id, tenant_id } = seeded;
    const minted = await call<{ id: string; key: string }>("POST", "/v1/keys", {
      project_id,
      tenant_id,
      env: "live",
      ...more,
    });
    await expect
      .poll(() => fetch(`${url}status`, { headers: bearer(minted.key) }).then(({ status }) => status))
      .not.toBe(401);
    reached.length = 0;
    return minted;
  };
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
  const startGateway = async (more: Record<string, string> = {}): Promise<void> => {
    gateway = await startProcess(["gateway", "--json", "--mode", "nginx", "--port", "0"], { ...env, ...more });
    gatewayAddress.target = portOf(gateway.ready.url);
  };
  const stopGateway = (): Promise<number | NodeJS.Signals> => {
    gatewayAddress.target = null;
    return gateway.end("SIGTERM");
  };

  const startExample = (name: string, more: Record<string, string> = {}): Promise<Nginx> =>
    startNginx(join(temp.dir, name), example, "127.0.0.1:8080", {
      "127.0.0.1:4748": gatewayAddress.host,
      "127.0.0.1:3000": `127.0.0.1:${(api.address() as AddressInfo).port}`,
      ...more,
    });

  beforeAll(async () => {
    temp = tempDir();
    server = await startSeededServer();
    seeded = server.seed;
    env = {
      KEYRACK_URL: seeded.url,
      KEYRACK_SECRET_KEY: seeded.secret_key,
      KEYRACK_PROJECT_ID: seeded.project_id,
      HOME: temp.dir,
    };
    gatewayAddress = await stableAddress();
    await startGateway();
    api = createServer({ maxHeaderSize: 65_536 }, (req, res) => {
      const chunks: Buffer[] = [];
      req.on("data", (chunk: Buffer) => chunks.push(chunk));
      req.on("end", () => {
        reached.push({ url: req.url ?? "", headers: req.headers, body: Buffer.concat(chunks).toString() });
        res.writeHead(req.url === "/status/teapot" ? 403 : 200, { "content-type": "text/plain" });
        res.end("from the API");
      });
    }).listen(0, "127.0.0.1");
    await once(api, "listening");
    nginx = await startExample("nginx");
    url = nginx.url;
  });

  afterAll(async () => {
    await nginx?.[Symbol.asyncDispose]();
    await gatewayAddress?.[Symbol.asyncDispose]();
    await gateway?.end("SIGTERM");
    await server?.[Symbol.asyncDispose]();
    api?.close();
    temp[Symbol.dispose]();
  });

  it("200: the API gets the identity of the key, and no forged header", async () => {
    const { id, key } = await mint({ scopes: ["orders:read", "a b%"] });
    const forged = { "x-keyrack-tenant-id": "evil", "x-keyrack-scopes": "admin" };
    const response = await fetch(`${url}orders?x=1`, {
      method: "POST",
      headers: { ...bearer(key), ...forged },
      body: "hello",
    });
    expect([response.status, await response.text()]).toEqual([200, "from the API"]);
    expect(reached).toMatchObject([
      {
        url: "/orders?x=1",
        body: "hello",
        headers: {
          "x-keyrack-key-id": id,
          "x-keyrack-tenant-id": seeded.tenant_id,
          "x-keyrack-project-id": seeded.project_id,
          "x-keyrack-env": "live",
          "x-keyrack-scopes": "orders:read a%20b%25",
        },
      },
    ]);
    // More than the gateway reads.
    const large = {
      "x-api-key": key,
      cookie: "a".repeat(7_900),
      "x-large": "b".repeat(7_900),
      "x-more": "c".repeat(1_000),
    };
    expect((await fetch(`${url}status`, { headers: large })).status).toBe(200);
  });

  it("400: an empty scope in the configuration refuses every client, with the reason", async () => {
    const { key } = await mint({ scopes: ["orders:read"] });
    await using mistaken = await startExample("mistaken", { "scope=orders:read": "scope=" });
    const response = await fetch(`${mistaken.url}orders`, { headers: bearer(key) });
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: { code: "invalid_request", message: "scope must not be empty." } },
    ]);
    expect(reached).toEqual([]);
  });

  it("401: has the library's body and challenge, and the request never reaches the API", async () => {
    reached.length = 0;
    const none = await fetch(`${url}status`);
    expect([none.status, none.headers.get("www-authenticate")]).toEqual([401, 'Bearer realm="keyrack"']);
    expect(none.headers.get("content-type")).toBe("application/json");
    expect(none.headers.get("cache-control")).toBe("no-store");
    expect(await none.json()).toMatchObject({ error: { code: "missing_key" } });
    const wrong = await fetch(`${url}status`, { headers: bearer("kr_live_nonsense") });
    expect([wrong.status, await wrong.json()]).toMatchObject([401, { error: { code: "invalid_key" } }]);
    expect(wrong.headers.get("www-authenticate")).toBe('Bearer realm="keyrack", error="invalid_token"');
    expect(reached).toEqual([]);
  });

  it("403: names the missing scope", async () => {
    const { key } = await mint({ scopes: ["other"] });
    const response = await fetch(`${url}orders?scope=`, { headers: bearer(key) });
    expect(response.status).toBe(403);
    expect(await response.json()).toMatchObject({
      error: { code: "insufficient_scope", missing_scopes: ["orders:read"] },
    });
    expect(response.headers.get("www-authenticate")).toBe(
      'Bearer realm="keyrack", error="insufficient_scope", scope="orders:read"',
    );
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(reached).toEqual([]);
  });

  it("429: has retry-after; allowed responses have the limits too", async () => {
    const rule = { id: "tiny", limit: 3, window_ms: 3_600_000, algorithm: "fixed", scope: "key" };
    const { key } = await mint({ rate_limits: [rule] });
    const responses: Response[] = [];
    // A check that takes over 250 ms admits without counting, so a slow machine may need more than four requests.
    await until(
      async () => responses[responses.push(await fetch(`${url}status`, { headers: bearer(key) })) - 1]?.status !== 200,
    );
    const allowed = responses.slice(0, -1);
    const policies = allowed.map(({ headers }) => headers.get("ratelimit-policy")).filter((policy) => policy !== null);
    expect(new Set(policies)).toEqual(new Set(['"tiny";q=3;w=3600']));
    const denied = responses.at(-1) as Response;
    expect([denied.status, await denied.json()]).toMatchObject([429, { error: { code: "rate_limited" } }]);
    expect(Number(denied.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(denied.headers.get("ratelimit")).toMatch(/^"tiny";r=0;t=\d+$/);
    expect(reached.length).toBe(allowed.length);
  });

  it("leaves the API's own responses unchanged, and removes forged headers on an open location", async () => {
    const { key } = await mint({});
    const own = await fetch(`${url}status/teapot`, { headers: bearer(key) });
    expect([own.status, await own.text()]).toEqual([403, "from the API"]);
    reached.length = 0;
    const open = await fetch(`${url}health`, { headers: { "x-keyrack-tenant-id": "evil" } });
    expect(open.status).toBe(200);
    expect(reached[0]?.headers).not.toHaveProperty("x-keyrack-tenant-id");
    expect((await fetch(`${url}_keyrack`, { headers: bearer(key) })).status).toBe(404);
  });

  it("refuses a key without the scope however the path is written, and every path that is not named", async () => {
    const { key } = await mint({ scopes: ["other"] });
    const { port } = new URL(url);
    /** As written: fetch would normalise the path. */
    const status = (path: string): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        const sent = request({ host: "127.0.0.1", port, path, headers: bearer(key) }, (response) => {
          response.resume();
          resolve(response.statusCode);
        });
        sent.on("error", reject).end();
      });
    for (const path of ["/orders", "/ORDERS", "/Orders/1", "/%6Frders"])
      expect([path, await status(path)]).toEqual([path, 403]);
    for (const path of ["/", "/ordersx", "/order", "/admin", "/status.json", "/health/x"])
      expect([path, await status(path)]).toEqual([path, 403]);
    const dotted = ["/./orders", "/x/../orders", "/health/.", "/status/..;/orders", "/health#/../orders", "//orders"];
    const toOpen = ["/orders/../health", "/orders/..%2fhealth", "/orders/1/%2E./../health", "/orders/..\\health"];
    for (const path of [...dotted, ...toOpen]) expect([path, await status(path)]).toEqual([path, 400]);
    expect(reached).toEqual([]);
    for (const path of ["/STATUS/1", "/status/..a/v1.2?next=/a/../b%2f"]) expect(await status(path)).toBe(200);
  });

  it("rejects a revoked key once revoke --wait has returned: the gateway acknowledges like any node", async () => {
    const { id, key } = await mint({});
    const { propagation } = await call<{ propagation: object }>("POST", `/v1/keys/${id}/revoke?wait=true`, {});
    expect(propagation).toMatchObject({ complete: true, acked_nodes: 1, total_nodes: 1 });
    expect((await fetch(`${url}status`, { headers: bearer(key) })).status).toBe(401);
  });

  it("503: without a policy, and while the gateway is down; recovers afterwards", async () => {
    const { key } = await mint({});
    expect(await stopGateway()).toBe(0);
    const away = await fetch(`${url}status`, { headers: bearer(key) });
    expect([away.status, await away.json()]).toMatchObject([503, { error: { code: "unavailable" } }]);
    expect(away.headers.get("retry-after")).toBe("1");
    await startGateway({ KEYRACK_URL: "http://127.0.0.1:1" });
    expect(gateway.stderr()).toContain("no policy yet");
    const none = await fetch(`${url}status`, { headers: bearer(key) });
    expect([none.status, await none.json()]).toMatchObject([503, { error: { code: "unavailable" } }]);
    expect(none.headers.get("retry-after")).toBe("1");
    await stopGateway();
    await startGateway();
    expect((await fetch(`${url}status`, { headers: bearer(key) })).status).toBe(200);
  });
});
