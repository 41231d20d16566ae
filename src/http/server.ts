// The listening server: node:http with h3 routing behind it. Parser-level refusals carry the envelope too.
import { createServer, METHODS, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Socket } from "node:net";
import { H3, type H3Event } from "h3";
import { toNodeHandler } from "srvx/node";
import type { Services } from "../domain/core/context.ts";
import { fail } from "../kernel/errors.ts";
import { LAST_EXCHANGE, rawResponse, refuseParserError, type TrackedSocket } from "./parser-errors.ts";
import type { Connections } from "./fast/connections.ts";
import { preflight, withCors, type Cors } from "./cors.ts";
import type { Endpoint } from "./endpoint.ts";
import { OverloadGuard, type PendingResponse } from "./overload-guard.ts";
import { HttpResponse, type HttpRequest } from "./request.ts";
import { FastRequest } from "./fast/request.ts";
import { FastResponse } from "./fast/response.ts";
import { Routes, type Params } from "./fast/routes.ts";
import { run, type RunOptions, type Respond } from "./pipeline.ts";
import { defaultHeaders, failureResponse, send, type HeaderDefaults } from "./response.ts";

export type HttpOptions = RunOptions & {
  publicUrl: string | null;
  connections: Connections;
  tls?: { cert: string; key: string } | undefined;
};

type Listener = (req: FastRequest, res: FastResponse) => void;
type Carry = (req: FastRequest, res: FastResponse, params: Params, done?: () => void) => void;

/** A connection must have said what it wants by then; over TLS it has as long again to shake hands before. */
const HEADERS_MS = 10_000;

export function createHttpServer(services: Services, endpoints: readonly Endpoint[], options: HttpOptions): Server {
  const defaults = defaultHeaders(options.publicUrl);
  const guard = new OverloadGuard((res, late) => {
    // A body that comes after its refusal must not be taken for a request.
    const extra = late && !res.req.complete ? { headers: { connection: "close" } } : {};
    send(res, failureResponse(fail("overloaded", extra), false), services.newId(), defaults);
  });
  const listener = listenerOf(services, endpoints, options, guard, defaults);
  const made = {
    IncomingMessage: FastRequest,
    ServerResponse: FastResponse,
    optimizeEmptyRequests: true, // no stream for a body that is not there
    maxHeaderSize: 16 * 1024,
    requireHostHeader: false,
    connectionsCheckingInterval: 5_000,
  };
  const server = (
    options.tls
      ? createTlsServer({ ...made, handshakeTimeout: HEADERS_MS, ...options.tls }, listener)
      : createServer(made, listener)
  ) as Server;
  guard.attach(server);
  options.connections.attach(server, options.tls ? "secureConnection" : "connection");
  server.headersTimeout = HEADERS_MS;
  server.requestTimeout = 30_000;
  server.maxConnections = 10_000;
  server.on("checkExpectation", listener); // node would answer 417 by itself; what we do not know we need not meet
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    refuseParserError(error, socket, (failure) => rawResponse(failure, services.newId(), defaults));
  });
  return server;
}

function listenerOf(
  services: Services,
  endpoints: readonly Endpoint[],
  options: HttpOptions,
  guard: OverloadGuard,
  defaults: HeaderDefaults,
): Listener {
  const carryWith = carrier(services, guard, defaults);
  const routes = new Routes<Carry>();
  for (const endpoint of endpoints) {
    routes.add(
      endpoint,
      carryWith((request, tell) => run(services, endpoint, request, options, tell), endpoint.cors),
    );
  }
  const app = rareRoutes(services, endpoints, routes, carryWith);
  const handler = toNodeHandler((request) => app.fetch(request)) as (...args: Parameters<RequestListener>) => unknown;
  const refuseMalformed = (res: FastResponse): void => {
    const answer = failureResponse(fail("malformed_request", { headers: { connection: "close" } }), false);
    send(res, answer, services.newId(), defaults);
  };
  /** h3 makes a URL of Host and path, and throws at once where they make none: uncaught, that ends the process. */
  const rare = async (req: FastRequest, res: FastResponse): Promise<void> => {
    try {
      await handler(req, res);
    } catch {
      refuseMalformed(res);
    }
  };
  return (req, res) => {
    (req.socket as TrackedSocket)[LAST_EXCHANGE] = { req, res };
    if (guard.turnsAway(req, res)) return;
    if (req.url?.[0] !== "/") req.url = originForm(req.url ?? "");
    // Node would refuse a request without Host by itself, but without our envelope.
    if (!hasOneHost(req) || !isDecodable(req.url)) {
      refuseMalformed(res);
      return;
    }
    const route = routes.find(req.method ?? "", pathOf(req.url));
    if (!route) {
      void rare(req, res);
      return;
    }
    route.target(req, res, route.params);
  };
}

/** `http://host/path` means `/path` (RFC 9112, 3.2.2); whatever else is not a path is no route of ours. */
function originForm(url: string): string {
  return url.replace(/^https?:\/\/[^/?#]*(?=\/)/i, "");
}

function hasOneHost({ rawHeaders, httpVersion }: IncomingMessage): boolean {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name?.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  return hosts === 1 || (hosts === 0 && httpVersion === "1.0");
}

/** The router decodes the path, and answers in its own words where it cannot. */
function isDecodable(url: string): boolean {
  if (!url.includes("%")) return true;
  try {
    decodeURIComponent(url.split("?", 1)[0] ?? "");
    return true;
  } catch {
    return false;
  }
}

type Serve = (request: HttpRequest, tell: Respond) => void;
type CarryWith = (respond: Serve, cors?: Cors) => Carry;

/** Every answer is written by our own `send`, whichever way its route was found. */
function carrier(services: Services, guard: OverloadGuard, defaults: HeaderDefaults): CarryWith {
  return (respond, cors) => (req, res, params, done) => {
    const id = services.newId();
    const request = toIncoming(req, params, id);
    let over = false;
    let place: PendingResponse | undefined;
    const put = (answer: HttpResponse): void => {
      over = true;
      if (place) guard.release(place);
      try {
        send(res, answer, id, defaults);
      } catch (error) {
        services.log.error("answer failed", { error: String(error) });
        res.destroy();
      }
      done?.();
    };
    respond(request, cors ? (answer) => later(withCors(services, cors, request, answer), put) : put);
    if (over) return; // as most answers are by now
    place = guard.watch(res);
  };
}

/** An answer that must be waited for; should that fail, there is one all the same. */
function later(answer: Promise<HttpResponse>, tell: Respond): void {
  answer.then(tell, () => tell(failureResponse(fail("internal_error"), false)));
}

/** h3 finds what the table does not: HEAD, OPTIONS, methods and paths that are not there. */
function rareRoutes(
  services: Services,
  endpoints: readonly Endpoint[],
  routes: Routes<Carry>,
  carryWith: CarryWith,
): H3 {
  const app = new H3({ silent: true });
  const nowhere = carryWith((_request, tell) => tell(failureResponse(fail("no_such_route"), false)));
  const on = (method: string, path: string, carry: Carry): void => {
    // h3 also matches a trailing slash and /a/../b; ours is one spelling per route.
    const spelling = new RegExp(`^${path.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}(\\?|$)`);
    app.on(method as "GET", path.replace(/\{(\w+)\}/g, ":$1"), async (event: H3Event) => {
      const { req, res } = nodeOf(event);
      const to = spelling.test(req.url ?? "") ? carry : nowhere;
      await new Promise<void>((done) => to(req, res, event.context.params ?? {}, done));
      return null;
    });
  };
  for (const endpoint of endpoints) {
    const carry = routes.find(endpoint.method, endpoint.path)?.target;
    if (!carry) throw new Error(`no route for ${endpoint.name}`);
    on(endpoint.method, endpoint.path, carry);
    if (endpoint.method === "GET") on("HEAD", endpoint.path, carry);
  }
  for (const [path, allow] of allowedMethods(endpoints)) {
    const cors = endpoints.find((endpoint) => endpoint.path === path)?.cors;
    const other = carryWith((request, tell) => tell(wrongMethod(request.method, allow)), cors);
    const asked = cors === "embed" ? carryWith((request, tell) => later(preflight(services, request), tell)) : other;
    for (const method of METHODS) {
      if (method === "OPTIONS") on(method, path, asked);
      else if (!allow.includes(method)) on(method, path, other);
    }
  }
  app.all("/**", async (event: H3Event) => {
    const { req, res } = nodeOf(event);
    await new Promise<void>((done) => nowhere(req, res, {}, done));
    return null;
  });
  return app;
}

function nodeOf(event: H3Event): { req: FastRequest; res: FastResponse } {
  const node = event.runtime?.node as { req: FastRequest; res?: FastResponse } | undefined;
  if (!node?.res) throw new Error("Keyrack's routes run on node:http only");
  return { req: node.req, res: node.res };
}

function pathOf(url: string): string {
  const at = url.indexOf("?");
  return at < 0 ? url : url.slice(0, at);
}

function toIncoming(req: FastRequest, params: Params, id: string): HttpRequest {
  const url = req.url ?? "/";
  const at = url.indexOf("?");
  return {
    id,
    method: req.method ?? "GET",
    path: at < 0 ? url : url.slice(0, at),
    search: at < 0 ? "" : url.slice(at + 1),
    params,
    headers: req.headers,
    message: req,
  };
}

function allowedMethods(endpoints: readonly Endpoint[]): Map<string, string[]> {
  const allowed = new Map<string, string[]>();
  for (const { method, path } of endpoints) {
    const list = allowed.get(path) ?? ["OPTIONS"];
    list.push(...(method === "GET" ? ["GET", "HEAD"] : [method]));
    allowed.set(path, list);
  }
  return allowed;
}

function wrongMethod(method: string, allow: string[]): HttpResponse {
  const header = { allow: allow.toSorted().join(", ") };
  if (method === "OPTIONS") return new HttpResponse(204, null, header);
  return failureResponse(fail("method_not_allowed", { headers: header }), false);
}
