// The listening server: node:http in front, then the fast lane (if on), then h3. Refusals that come before routing
// carry the error envelope too.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { Socket } from "node:net";
import { ownerOf } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { Turns } from "../fairness/turns.ts";
import { fail } from "../kernel/errors.ts";
import { codeOf, errorFields } from "../platform/errors.ts";
import { bareAddress } from "./address.ts";
import type { Log } from "../platform/log.ts";
import { StreamBody } from "./body/body.ts";
import { Connections, isIdle, LAST_EXCHANGE, type TrackedSocket } from "./connections.ts";
import { withCorsByPath } from "./cors.ts";
import type { Endpoint } from "./endpoint.ts";
import { ScannedConnections } from "./fast/connections.ts";
import { fastLane } from "./fast/lane.ts";
import { FastRequest } from "./fast/request.ts";
import { FastResponse } from "./fast/response.ts";
import { OverloadGuard, type Finish } from "./overload-guard.ts";
import { rawResponse, refuseParserError } from "./parser-errors.ts";
import type { RunOptions } from "./pipeline.ts";
import { bearerOf } from "./request.ts";
import { withPipelining, type Listener, type PipeliningOptions } from "./receiving/pipelining.ts";
import {
  defaultHeaders,
  failureResponse,
  jsonResponse,
  sendRefusal,
  type HeaderDefaults,
  type HttpResponse,
} from "./response.ts";
import { h3Listener, type RouterOptions } from "./router.ts";
import { Stalls } from "./sending/stalls.ts";
import { stopParsing } from "./receiving/stop-parsing.ts";

export type HttpOptions = Omit<RunOptions, "turns"> & {
  publicUrl: string | null;
  /** Off: h3 serves every endpoint, on plain objects of node:http. */
  fastLane: boolean;
  tls?: { cert: string; key: string } | undefined;
  /** For tests only: the clock of the overload guard. */
  overloadClock?: (() => number) | undefined;
  /** For tests only: how long a TLS handshake may take. */
  handshakeMs?: number | undefined;
};

export type HttpServer = { readonly server: Server; readonly connections: Connections };

/** A connection must have sent its headers by then; over TLS it has as long again for its handshake. */
const HEADERS_MS = 10_000;

export function createHttpServer(services: Services, endpoints: readonly Endpoint[], given: HttpOptions): HttpServer {
  const defaults = defaultHeaders(given.publicUrl);
  const finish: Finish = (req, response) => withCorsByPath(services, req, response);
  const guard = new OverloadGuard(given.overloadClock, finish);
  const bodyOf = given.fastLane ? (req: IncomingMessage) => req as FastRequest : StreamBody.of;
  const options = { ...given, turns: new Turns(services.shares.of("loop")), guard, defaults, bodyOf };
  const refuse: Refuse = (res, failure) => {
    bodyOf(res.req).discard();
    const send = (response: HttpResponse): void => sendRefusal(res, response, services.newId(), defaults);
    void finish(res.req, failureResponse(failure)).then(send);
  };
  const h3 = h3Listener(services, endpoints, options);
  const fast = options.fastLane ? fastLane(services, endpoints, options) : undefined;
  const serve = withPipelining(pipeliningOptions(services, options, refuse), (req, res) => {
    if (!fast?.(req as FastRequest, res as FastResponse)) serveByH3(h3, req, res, { refuse, log: services.log });
  });
  const bound = services.shares.of("connections");
  const connections = options.fastLane ? new ScannedConnections(bound) : new Connections(bound);
  const countClient = services.settings.trust_proxy.length > 0 ? countForwarded(connections, options) : () => {};
  const listener = admit(guard, refuse, (req, res) => {
    countClient(req);
    serve(req, res);
  });
  const server = listeningServer(listener, options);
  guard.attach(server);
  connections.attach(server, options.tls ? "secureConnection" : "connection");
  new Stalls(connections, services.settings.send_stall_ms).attach(server);
  server.on("clientError", onParserError(services, finish, defaults));
  // Without a session nothing can be sent, and node leaves a connection open whose handshake has failed or timed out.
  server.on("tlsClientError", (_error: Error, socket: Socket) => socket.destroy());
  server.on("connect", (_req: IncomingMessage, socket: Socket) => refuseConnect(socket, services, defaults));
  return { server, connections };
}

function pipeliningOptions(
  services: Services,
  { turns, addressOf, bodyOf }: RouterOptions,
  refuse: Refuse,
): PipeliningOptions {
  return {
    turns,
    addressOf,
    ledger: services.shares.of("pipeline"),
    knownOwner: (req) => {
      const bearer = bearerOf(req);
      const actor = bearer.token === null ? undefined : services.credentialCache.peek(bearer.hash);
      return actor && ownerOf(actor);
    },
    discard: (req) => bodyOf(req).discard(),
    refuse: (res) => refuse(res, fail("share_full")),
  };
}

function onParserError(services: Services, finish: Finish, defaults: HeaderDefaults) {
  return (error: NodeJS.ErrnoException, socket: Socket): void =>
    refuseParserError(error, socket, async (failure, req) => {
      const refused = jsonResponse(failure.status, failure.body());
      return rawResponse(req ? await finish(req, refused) : refused, services.newId(), defaults);
    });
}

/**
 * CONNECT asks for a tunnel, and node gives the connection away for it: nothing else listens on the socket any more, so
 * a response that is still being sent could not be finished. Its connection ends, and it is reported as closed.
 */
function refuseConnect(socket: TrackedSocket, services: Services, defaults: HeaderDefaults): void {
  socket.on("error", () => socket.destroy());
  if (!isIdle(socket)) {
    const res = socket[LAST_EXCHANGE]?.res;
    socket.once("close", () => res?.closed === false && res.emit("close"));
    socket.destroy();
    return;
  }
  const failure = fail("method_not_allowed", { headers: { allow: "DELETE, GET, HEAD, OPTIONS, PATCH, POST" } });
  socket.write(rawResponse(failureResponse(failure), services.newId(), defaults));
  socket.destroySoon();
}

function countForwarded(connections: Connections, { addressOf }: HttpOptions): (req: IncomingMessage) => void {
  return (req) => {
    const address = addressOf(req);
    if (address !== bareAddress(req.socket.remoteAddress ?? "")) connections.countFor(req.socket, address);
  };
}

function listeningServer(listener: Listener, options: HttpOptions): Server {
  const { fastLane: isFast, tls, handshakeMs = HEADERS_MS } = options;
  const settings = {
    maxHeaderSize: 16 * 1024,
    requireHostHeader: false, // node's refusal would lack the envelope: see admit()
    connectionsCheckingInterval: 5_000,
    joinDuplicateHeaders: true, // node would use the first of two credentials; joined they are invalid
    // No stream for a request without a body.
    ...(isFast && { IncomingMessage: FastRequest, ServerResponse: FastResponse, optimizeEmptyRequests: true }),
  };
  const server = (
    tls
      ? createTlsServer({ ...settings, handshakeTimeout: handshakeMs, ...tls }, listener)
      : createServer(settings, listener)
  ) as Server;
  server.headersTimeout = HEADERS_MS;
  server.requestTimeout = 30_000;
  server.on("checkExpectation", listener); // node would respond 417; an unknown expectation may be ignored
  return server;
}

type Refuse = (res: ServerResponse, failure: ReturnType<typeof fail>) => void;

/** What both lanes rely on: not overloaded, a target in origin form that decodes, one Host. */
function admit(guard: OverloadGuard, refuse: Refuse, next: Listener): Listener {
  return (req, res) => {
    (req.socket as TrackedSocket)[LAST_EXCHANGE] = { req, res };
    // Node does not parse what follows an Upgrade that is ignored: it would never get a response.
    if (req.headers.upgrade !== undefined) res.shouldKeepAlive = false;
    if (guard.sheds(req)) return refuse(res, fail("overloaded"));
    if (req.url?.[0] !== "/") req.url = originForm(req.url ?? "");
    if (hasOneHost(req) && isDecodable(req.url)) return next(req, res);
    stopParsing(req.socket); // the refusal closes the connection
    refuse(res, malformed());
  };
}

/** h3 builds a URL from Host and path. If it is invalid h3 throws, and an uncaught error would end the process. */
function serveByH3(
  h3: ReturnType<typeof h3Listener>,
  req: IncomingMessage,
  res: ServerResponse,
  { refuse, log }: { refuse: Refuse; log: Log },
): void {
  const failed = (error: unknown): void => {
    if (codeOf(error) === "ERR_INVALID_URL") return refuse(res, malformed());
    log.error("unexpected error", errorFields(error));
    refuse(res, fail("internal_error", { closes: true }));
  };
  try {
    Promise.resolve(h3(req, res)).catch(failed);
  } catch (error) {
    failed(error);
  }
}

function malformed() {
  return fail("malformed_request", { closes: true });
}

/** `http://host/path` means `/path` (RFC 9112, 3.2.2); any other target that is not a path matches no route. */
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

/** h3 decodes the path, and would respond without the envelope if it cannot. */
function isDecodable(url: string): boolean {
  if (!url.includes("%")) return true;
  try {
    decodeURIComponent(url.split("?", 1)[0] ?? "");
    return true;
  } catch {
    return false;
  }
}
