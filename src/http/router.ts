// The h3 application: a route for every declared endpoint, and the responses for HEAD, OPTIONS, 404 and 405.
// Caution: h3 also matches /a/, /a/../b and needless escapes; a route here accepts one spelling of its path.
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { H3, type H3Event } from "h3";
import { NodeResponse, toNodeHandler } from "srvx/node";
import type { Services } from "../domain/core/context.ts";
import { fail } from "../kernel/errors.ts";
import { errorFields } from "../platform/errors.ts";
import type { RequestBody } from "./body/body.ts";
import { preflight, withCors, type Cors } from "./cors.ts";
import type { Endpoint } from "./endpoint.ts";
import type { OverloadGuard } from "./overload-guard.ts";
import { FastResponse, sendFast } from "./fast/response.ts";
import { run, type RunOptions } from "./pipeline.ts";
import { toHttpRequest, type HttpRequest } from "./request.ts";
import { sendSafely } from "./sending/safely.ts";
import { chunksOf, SLICE_BYTES, slicesOf, type ChargeBody } from "./sending/slices.ts";
import { sendStream } from "./sending/stalls.ts";
import {
  contentLength,
  failureResponse,
  HttpResponse,
  isChunks,
  respondLater,
  type HeaderDefaults,
  type Respond,
} from "./response.ts";

export type RouterOptions = RunOptions & {
  guard: OverloadGuard;
  defaults: HeaderDefaults;
  bodyOf: (req: IncomingMessage) => RequestBody;
};

type Handler = (request: HttpRequest, respond: Respond) => void;

/** Serves every endpoint on node's request and response. Throws if Host and path make no URL. */
export function h3Listener(
  services: Services,
  endpoints: readonly Endpoint[],
  options: RouterOptions,
): (req: IncomingMessage, res: ServerResponse) => unknown {
  const app = new H3({ silent: true, onError: (error) => unexpected(services, error, options.defaults) });
  const serve = eventServer(services, options);
  const on = (method: string, path: string, handler: Handler): void => {
    const spelling = new RegExp(`^${path.replaceAll(".", "\\.").replace(/\{\w+\}/g, "[^/]+")}(\\?|$)`);
    app.on(method as "GET", path.replace(/\{(\w+)\}/g, ":$1"), (event) => {
      const isSpelled = spelling.test(event.runtime?.node?.req.url ?? "");
      return serve(event, isSpelled ? handler : notFound);
    });
  };
  for (const endpoint of endpoints) {
    const handler: Handler = (request, respond) => run(services, endpoint, request, options, respond);
    on(endpoint.method, endpoint.path, handler);
    if (endpoint.method === "GET") on("HEAD", endpoint.path, handler);
  }
  for (const [path, allow] of allowedMethods(endpoints)) {
    const cors = endpoints.find((endpoint) => endpoint.path === path)?.cors;
    const refuse = wrongMethod(services, allow, cors);
    const allowCors: Handler = (request, respond) => respondLater(preflight(services, request), respond);
    on("OPTIONS", path, cors === "embed" ? allowCors : refuse);
    on("", path, refuse);
  }
  app.all("/**", (event) => serve(event, notFound));
  return toNodeHandler((request) => app.fetch(request)) as ReturnType<typeof h3Listener>;
}

/** Runs a handler for an h3 event. Returns its response without a promise if it is sent. bench: parts/healthz */
function eventServer(services: Services, { guard, defaults, bodyOf, addressOf }: RouterOptions) {
  return (event: H3Event, handler: Handler): Response | Promise<Response> => {
    const { req, res } = nodeOf(event);
    const body = bodyOf(req);
    const request = toHttpRequest(services.newId(), req, event.context.params ?? {}, body);
    let ready: Response | undefined;
    let resolve: ((response: Response) => void) | undefined;
    const send = (response: HttpResponse): void => {
      body.discard();
      if (response.body instanceof Readable) sendStream(res, response.body);
      const sent = sendSafely(services, { request, res, addressOf }, (charge) =>
        canSendFast(res, response, request)
          ? sendFast(res, response, request.id, defaults, charge)
          : toNodeResponse(response, request, defaults, charge),
      );
      ready = sent ?? new NodeResponse(null); // a placeholder: sent already, or failed
      resolve?.(ready);
    };
    guard.serve(res, (respond) => handler(request, respond), send);
    return ready ?? new Promise((settle) => (resolve = settle));
  };
}

/**
 * With the fast lane on, small responses of h3 are also written by FastResponse; srvx finds them sent and does nothing.
 * Streamed ones are not, because srvx would end them early. bench: rules/self
 */
function canSendFast(res: ServerResponse, response: HttpResponse, { method }: HttpRequest): res is FastResponse {
  if (!(res instanceof FastResponse) || method === "HEAD" || response.body instanceof Readable) return false;
  return (contentLength(response) ?? 0) <= SLICE_BYTES;
}

function nodeOf(event: H3Event): { req: IncomingMessage; res: ServerResponse } {
  const node = event.runtime?.node as { req: IncomingMessage; res?: ServerResponse } | undefined;
  if (!node?.res) throw new Error("Keyrack's routes run on node:http only");
  return { req: node.req, res: node.res };
}

/** srvx writes these headers in this order; a web Response would sort them. */
function toNodeResponse(
  response: HttpResponse,
  { id, method }: Pick<HttpRequest, "id" | "method">,
  defaults: HeaderDefaults,
  charge: ChargeBody = () => {},
): Response {
  const { status, body } = response;
  const length = contentLength(response);
  const headers = defaults.with(response.headers).pairs(id, length);
  const statusText = STATUS_CODES[status] ?? "";
  const isStream = body instanceof Readable;
  if (method === "HEAD" || body === null || (!isStream && body.length === 0)) {
    if (isStream) body.destroy();
    return new NodeResponse(null, { status, statusText, headers });
  }
  if (length !== null && length > SLICE_BYTES) {
    const chunks = chunksOf(body);
    charge(chunks, length);
    return new NodeResponse(Readable.from(slicesOf(chunks)), { status, statusText, headers });
  }
  const content = isChunks(body) ? Buffer.concat(body) : body;
  return new NodeResponse(content as string, { status, statusText, headers });
}

/** Handlers do not throw, so this is a bug; the response must have the envelope nevertheless. */
function unexpected(services: Services, error: Error, defaults: HeaderDefaults): Response {
  services.log.error("request failed outside the pipeline", errorFields(error));
  return toNodeResponse(failureResponse(fail("internal_error")), { id: services.newId(), method: "GET" }, defaults);
}

const notFound: Handler = (_request, respond) => respond(failureResponse(fail("no_such_route")));

function wrongMethod(services: Services, allow: readonly string[], cors: Cors | undefined): Handler {
  const headers = { allow: allow.toSorted().join(", ") };
  return (request, respond) => {
    const response =
      request.method === "OPTIONS"
        ? new HttpResponse(204, null, headers)
        : failureResponse(fail("method_not_allowed", { headers }));
    if (cors) respondLater(withCors(services, cors, request, response), respond);
    else respond(response);
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
