// The route and the status in reports, where a framework or a server makes them hard to find.

import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createServer as createHttp2Server,
  type Http2Server,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import express from "express";
import fastify from "fastify";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import * as onExpress from "../../src/sdk/adapters/express.ts";
import * as onFastify from "../../src/sdk/adapters/fastify.ts";
import * as onFetch from "../../src/sdk/adapters/fetch.ts";
import * as onNode from "../../src/sdk/adapters/node.ts";
import { internalsOf } from "../../src/sdk/internals.ts";
import type { ProtectOptions } from "../../src/sdk/protect-options.ts";
import { startTestKeyrack, type TestKeyrack } from "../../harness/sdk/test-keyrack.ts";
import { until } from "../../harness/waiting.ts";

let instance: TestKeyrack;
let headers: Record<string, string>;
beforeEach(async () => {
  instance = await startTestKeyrack();
  const { key } = instance.plane.mint();
  headers = { "x-api-key": key };
  await until(() => instance.keyrack.verify(key).ok);
});
afterEach(() => instance[Symbol.asyncDispose]());

/** Route and status of every event, once all of them are sent. */
async function reported(): Promise<[string | null, number][]> {
  await instance.keyrack.close();
  return instance.plane.ingest.events.map(({ route, status }) => [route, status]);
}

async function statusesOf(listener: Parameters<typeof createServer>[1], paths: string[]): Promise<number[]> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const statuses = [];
  for (const path of paths) {
    const response = await fetch(url + path, { headers });
    await response.text();
    statuses.push(response.status);
  }
  server.close().closeAllConnections();
  await once(server, "close");
  return statuses;
}

describe("on express", () => {
  const requests = ["/api/a", "/API/b", "/Api/v12", "/api/one"];
  const app = (isCaseSensitive = false) => {
    const app = express();
    if (isCaseSensitive) app.enable("case sensitive routing");
    const [router, protect] = [express.Router(), onExpress.protect(instance.keyrack)];
    router.get(["/a", "/b"], protect, (_req, res) => void res.end());
    router.get(/^\/v\d+/, protect, (_req, res) => void res.end());
    router.get("/one", protect, (_req, res) => void res.end());
    app.use("/api", router);
    app.use("/API", router);
    return app;
  };

  it("the route of a list and of a regular expression is named, whatever case the client writes", async () => {
    expect(await statusesOf(app(), requests)).toEqual([200, 200, 200, 200]);
    expect(await reported()).toEqual([
      ["/api/a|/api/b", 200],
      ["/api/a|/api/b", 200],
      ["/api/^\\/v\\d+/", 200],
      ["/api/one", 200],
    ]);
  });

  it("the route keeps its case where that matters to express", async () => {
    expect(await statusesOf(app(true), ["/api/one", "/API/one", "/Api/one"])).toEqual([200, 200, 404]);
    expect(await reported()).toEqual([
      ["/api/one", 200],
      ["/API/one", 200],
    ]);
  });
});

describe("on fastify", () => {
  it("a request by inject is reported with the status of its response", async () => {
    const app = fastify();
    app.get("/orders", { onRequest: onFastify.protect(instance.keyrack) }, async () => ({ orders: [] }));
    app.get("/empty", { onRequest: onFastify.protect(instance.keyrack) }, (_request, reply) => reply.code(204).send());
    for (const url of ["/orders", "/empty"]) await app.inject({ url, headers });
    expect((await app.inject("/orders")).statusCode).toBe(401);
    await app.close();
    expect(await reported()).toEqual([
      ["/orders", 200],
      ["/empty", 204],
      ["/orders", 401],
    ]);
  });
});

it("a request to fastify over HTTP/2 is judged and reported as one over HTTP/1", async () => {
  const app = fastify({ http2: true });
  app.get("/orders/:id", { onRequest: onFastify.protect(instance.keyrack) }, async () => "in");
  const client = connect(await app.listen({ port: 0, host: "127.0.0.1" }));
  const statusOf = async (more: object): Promise<unknown> => {
    const [response] = await once(client.request({ ":path": "/orders/1", ...more }).resume(), "response");
    return (response as Record<string, unknown>)[":status"];
  };
  expect([await statusOf(headers), await statusOf({})]).toEqual([200, 401]);
  client.close();
  await app.close();
  expect(await reported()).toEqual([
    ["/orders/:id", 200],
    ["/orders/:id", 401],
  ]);
});

describe("the option route", () => {
  const webRequest = (path: string) => new Request(`http://app${path}`, { headers });

  it("names the route on node and fetch, which have none", async () => {
    const named = onNode.protect(instance.keyrack, { route: "/orders/:id" }, (_req, res) => res.end());
    await statusesOf((req, res) => void named(req, res), ["/orders/1", "/orders/2"]);
    const route = (request: Request) => new URL(request.url).pathname.replace(/\d+/, ":id");
    await onFetch.protect(instance.keyrack, { route }, () => new Response())(webRequest("/users/7"));
    await onFetch.protect(instance.keyrack, {}, () => new Response())(webRequest("/users/7"));
    expect((await reported()).map(([name]) => name)).toEqual(["/orders/:id", "/orders/:id", "/users/:id", null]);
  });

  it("replaces the framework's, unless its function throws or returns no text", async () => {
    const app = fastify();
    const broken = () => {
      throw new Error("the vendor's own bug");
    };
    const routes: NonNullable<ProtectOptions["route"]>[] = ["own", broken, () => null, (async () => "own") as never];
    for (const [i, route] of routes.entries())
      app.get(`/${i}`, { onRequest: onFastify.protect(instance.keyrack, { route }) }, async () => "");
    for (const i of routes.keys()) await app.inject({ url: `/${i}`, headers });
    await app.close();
    expect((await reported()).map(([name]) => name)).toEqual(["own", "/1", "/2", "/3"]);
  });

  it.each(["", 5, null, {}])("is refused when the route is created if it is no name: %o", (route) => {
    const guard = () => internalsOf(instance.keyrack).guard({ route } as unknown as ProtectOptions);
    expect(guard).toThrow(/route must be a text or a function/);
  });
});

describe("on a server of node:http2", () => {
  /** Serves one connection until `talk` is done. */
  async function serveHttp2(
    handler: onNode.Handler,
    talk: (client: ClientHttp2Session, server: Http2Server) => Promise<void>,
  ): Promise<void> {
    const server = createHttp2Server(onNode.protect(instance.keyrack, {}, handler));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    await talk(client, server);
    client.close();
    server.close();
    await once(server, "close");
  }

  /** Sends a request, and resets it at `moment`, which gets what the client has of the response. */
  async function leave(
    client: ClientHttp2Session,
    server: Http2Server,
    moment: (sent: ClientHttp2Stream) => Promise<unknown>,
  ): Promise<void> {
    const opened = once(server, "stream") as Promise<[ServerHttp2Stream]>;
    const sent = client.request({ ":path": "/", ...headers });
    const [received] = await opened;
    await moment(sent);
    const closed = once(received, "close");
    sent.close(constants.NGHTTP2_CANCEL);
    await closed;
  }

  /** Holds calls of the library to this path: resolves at the first, and returns what lets them continue. */
  function holdCalls(end: string): [Promise<void>, () => void] {
    const [called, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    instance.plane.injectFault = async ({ path }) => {
      if (!path.endsWith(end)) return undefined;
      called.resolve();
      await gate.promise;
      return undefined;
    };
    return [called.promise, gate.resolve];
  }

  it("protect of node is the listener, without a cast, and its requests are reported", async () => {
    const bodies: string[] = [];
    await serveHttp2(
      (req, res) => void res.end(req.keyrack?.tenantId),
      async (client) => {
        for (const sent of [headers, {}]) {
          const stream = client.request({ ":path": "/", ...sent }).setEncoding("utf8");
          let body = "";
          for await (const chunk of stream) body += chunk;
          bodies.push(body);
        }
      },
    );
    expect(bodies).toEqual([instance.plane.tenantId, expect.stringContaining("missing_key")]);
    expect(await reported()).toEqual([
      [null, 200],
      [null, 401],
    ]);
  });

  // More than the client's window, so that a part is still to be sent when it leaves.
  const large = "x".repeat(1 << 20);
  it.each<[string, (res: ServerResponse) => unknown]>([
    ["after the head", (res) => res.writeHead(200).flushHeaders()],
    ["after a part", (res) => res.write("part")],
    ["while the end is sent", (res) => res.end(large)],
  ])("a client that leaves %s is reported as 499", async (_, respond) => {
    await serveHttp2(
      (_req, res) => respond(res),
      (client, server) => leave(client, server, (sent) => once(sent, "response")),
    );
    expect(await reported()).toEqual([[null, 499]]);
  });

  it("a client that leaves before there is a response is reported as 499", async () => {
    const ran = Promise.withResolvers<void>();
    await serveHttp2(
      () => ran.resolve(),
      (client, server) => leave(client, server, () => ran.promise),
    );
    expect(await reported()).toEqual([[null, 499]]);
  });

  it("a client that leaves while idempotent stores the response is reported as 499", async () => {
    headers["idempotency-key"] = "k";
    const [storing, stored] = holdCalls("/complete");
    const respond: onNode.Handler = (_req, res) => res.end("charged");
    await serveHttp2(onNode.idempotent(instance.keyrack, respond), async (client, server) => {
      await leave(client, server, () => storing);
      stored();
    });
    expect(await reported()).toEqual([[null, 499]]);
  });

  it("a client that leaves while its limits are checked is reported as 499", async () => {
    const rule = { id: "r", limit: 5, window_ms: 60_000, algorithm: "fixed" as const, scope: "key" as const };
    const { key } = instance.plane.mint({ rate_limits: [rule] });
    await until(() => instance.keyrack.verify(key).ok);
    headers = { "x-api-key": key };
    const [checking, checked] = holdCalls("/check");
    const ran = Promise.withResolvers<void>();
    await serveHttp2(
      () => ran.resolve(),
      async (client, server) => {
        await leave(client, server, () => checking);
        checked();
        await ran.promise;
      },
    );
    expect(await reported()).toEqual([[null, 499]]);
  });
});
