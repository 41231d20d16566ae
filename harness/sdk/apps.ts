// The same small vendor application in every framework, over a socket. One suite tests them all, so that an adapter
// that differs fails.
//
//   GET  /open     skip: true                     GET /read    scopes: ["read"]
//   GET  /me       protect alone: the context     GET /lax     failMode: "open", scopes: ["read"]
//   GET  /header   getKey: the x-my-key header    POST /pay    protect + idempotent
//   GET  /free     limits: "off"                  GET /leased  limits: "lease"
//   GET  /from     getIp: an address of 203.0.113.0/24

import { createServer, type RequestListener, type Server } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import express from "express";
import fastify from "fastify";
import { H3 } from "h3";
import { Hono } from "hono";
import { toNodeHandler } from "srvx/node";
import * as onExpress from "../../src/sdk/adapters/express.ts";
import * as onFastify from "../../src/sdk/adapters/fastify.ts";
import * as onFetch from "../../src/sdk/adapters/fetch.ts";
import * as onH3 from "../../src/sdk/adapters/h3.ts";
import * as onHono from "../../src/sdk/adapters/hono.ts";
import * as onNode from "../../src/sdk/adapters/node.ts";
import type { Context } from "../../src/sdk/index.ts";
import type { Keyrack } from "../../src/sdk/instance.ts";

/** The handler of /pay, supplied by the test. */
export type Pay = () => Promise<{ status: number; body: string; headers?: Record<string, string> }>;
/** `connections`: how many the server still has. */
export type App = { url: string; connections(): Promise<number>; close(): Promise<void> };
type Make = (keyrack: Keyrack, pay: Pay) => Promise<App>;

const payOptions = { ttlMs: 60_000 };
const routes = {
  "/open": { skip: true },
  "/read": { scopes: ["read"] },
  "/me": {},
  "/lax": { failMode: "open", scopes: ["read"] },
  "/free": { limits: "off" },
  "/leased": { limits: "lease" },
  "/from": { getIp: () => "203.0.113.9" },
} as const;
type Route = keyof typeof routes;

const toJson = (context: Context | null | undefined) => ({ keyrack: context === undefined ? "undefined" : context });

async function listen(listener: RequestListener): Promise<App> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return appOf(server);
}

function appOf(server: Server): App {
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  };
  const connections = promisify(server.getConnections.bind(server));
  return { url: `http://127.0.0.1:${port}`, connections, close };
}

function webListener(serve: (request: Request) => Response | Promise<Response>): RequestListener {
  return toNodeHandler(serve) as unknown as RequestListener;
}

export const apps: Record<string, Make> = {
  async express(keyrack, pay) {
    const app = express();
    for (const [path, options] of Object.entries(routes)) {
      app.get(path, onExpress.protect(keyrack, options), (req, res) => {
        res.json(toJson(req.keyrack));
      });
    }
    const getKey = (req: express.Request) => req.get("x-my-key");
    app.get("/header", onExpress.protect(keyrack, { getKey }), (req, res) => {
      res.json(toJson(req.keyrack));
    });
    app.post(
      "/pay",
      onExpress.protect(keyrack),
      onExpress.idempotent(
        keyrack,
        // By a callback, after the handler has returned. A second end has no effect in Node.
        (_req: express.Request, res: express.Response, next) =>
          void pay().then(({ status, body, headers = {} }) => res.status(status).set(headers).send(body).end(), next),
        payOptions,
      ),
    );
    const failed: express.ErrorRequestHandler = (_error, _req, res, _next) => {
      res.status(500).send("failed");
    };
    app.use(failed);
    return listen(app);
  },

  async fastify(keyrack, pay) {
    const app = fastify({ forceCloseConnections: true });
    for (const [path, options] of Object.entries(routes)) {
      app.get(path, { onRequest: onFastify.protect(keyrack, options) }, async (request) => toJson(request.keyrack));
    }
    const getKey = (request: { headers: Record<string, unknown> }) => request.headers["x-my-key"] as string | undefined;
    app.get("/header", { preHandler: onFastify.protect(keyrack, { getKey }) }, async (request) =>
      toJson(request.keyrack),
    );
    app.post(
      "/pay",
      { preHandler: onFastify.protect(keyrack) },
      onFastify.idempotent(
        keyrack,
        async (_request, reply) => {
          const { status, body, headers = {} } = await pay();
          reply.code(status).headers(headers);
          return body; // sent by fastify, after the handler has returned
        },
        payOptions,
      ),
    );
    await app.listen({ port: 0, host: "127.0.0.1" });
    return { ...appOf(app.server), close: () => app.close() };
  },

  async hono(keyrack, pay) {
    const app = new Hono();
    for (const [path, options] of Object.entries(routes)) {
      app.get(path, onHono.protect(keyrack, options), (c) => c.json(toJson(c.get("keyrack"))));
    }
    app.get("/header", onHono.protect(keyrack, { getKey: (c) => c.req.header("x-my-key") }), (c) =>
      c.json(toJson(c.get("keyrack"))),
    );
    app.post(
      "/pay",
      onHono.protect(keyrack),
      onHono.idempotent(
        keyrack,
        async (c) => {
          await c.req.raw.clone().text();
          const { status, body, headers } = await pay();
          return new Response(status === 204 ? null : body, { status, ...(headers && { headers }) });
        },
        payOptions,
      ),
    );
    app.onError((_error, c) => c.text("failed", 500));
    return listen(webListener((request) => app.fetch(request)));
  },

  async h3(keyrack, pay) {
    const app = new H3({ silent: true });
    for (const [path, options] of Object.entries(routes)) {
      app.get(path, (event) => toJson(event.context["keyrack"] as Context), {
        middleware: [onH3.protect(keyrack, options)],
      });
    }
    app.get("/header", (event) => toJson(event.context["keyrack"] as Context), {
      middleware: [onH3.protect(keyrack, { getKey: (event) => event.req.headers.get("x-my-key") })],
    });
    app.post(
      "/pay",
      onH3.idempotent(
        keyrack,
        async (event) => {
          await event.req.text();
          const { status, body, headers = {} } = await pay();
          event.res.status = status;
          for (const [name, value] of Object.entries(headers)) event.res.headers.set(name, value);
          return status === 204 ? null : body;
        },
        payOptions,
      ),
      { middleware: [onH3.protect(keyrack)] },
    );
    return listen(webListener((request) => app.fetch(request)));
  },

  async node(keyrack, pay) {
    const handler: onNode.Handler = (req, res) => {
      res.setHeader("content-type", "application/json");
      res.end(JSON.stringify(toJson(req.keyrack)));
    };
    const table = new Map<string, onNode.Listener>(
      (Object.keys(routes) as Route[]).map((path) => [path, onNode.protect(keyrack, routes[path], handler)]),
    );
    const getKey = (req: { headers: Record<string, unknown> }) => req.headers["x-my-key"] as string | undefined;
    table.set("/header", onNode.protect(keyrack, { getKey }, handler));
    const paying: onNode.Handler = async (_req, res) => {
      const { status, body, headers = {} } = await pay();
      res.writeHead(status, headers);
      res.end(body);
    };
    table.set("/pay", onNode.protect(keyrack, {}, onNode.idempotent(keyrack, paying, payOptions)));
    return listen((req, res) => {
      table
        .get((req.url ?? "").split("?")[0] ?? "")?.(req, res)
        .catch(() => {
          res.statusCode = 500;
          res.end("failed");
        });
    });
  },

  async fetch(keyrack, pay) {
    const handler: onFetch.Handler = (_request, context) => Response.json(toJson(context));
    const table = new Map<string, (request: Request) => Promise<Response>>(
      (Object.keys(routes) as Route[]).map((path) => [path, onFetch.protect(keyrack, routes[path], handler)]),
    );
    table.set("/header", onFetch.protect(keyrack, { getKey: (request) => request.headers.get("x-my-key") }, handler));
    const paying: onFetch.Handler = async (request) => {
      await request.text();
      const { status, body, headers } = await pay();
      return new Response(status === 204 ? null : body, { status, ...(headers && { headers }) });
    };
    table.set("/pay", onFetch.protect(keyrack, {}, onFetch.idempotent(keyrack, paying, payOptions)));
    const serve = async (request: Request) => {
      try {
        return (await table.get(new URL(request.url).pathname)?.(request)) ?? new Response(null, { status: 404 });
      } catch {
        return new Response("failed", { status: 500 });
      }
    };
    return listen(webListener(serve));
  },
};
