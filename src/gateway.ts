// The verifier as an auth service behind a proxy: nginx auth_request, forward auth of Caddy and Traefik, Envoy's
// ext_authz over HTTP. Only /verify decides. Caution: Envoy appends the client's path and query, so nothing in them may
// loosen the decision: a client's `scope` or `scope_any` only requires more, and no other path responds with exactly
// 200.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Context } from "./sdk/context.ts";
import { joinHeader, peerOf } from "./sdk/adapters/peer.ts";
import { type TextResponse, denialResponse } from "./sdk/denials.ts";
import type { IncomingRequest } from "./sdk/guard.ts";
import type { LimitsMode } from "./sdk/protect-options.ts";
import type { Keyrack } from "./sdk/instance.ts";
import { internalsOf } from "./sdk/internals.ts";

/** In the reports of its verifier: the fleet view shows which nodes are gateways. */
export const GATEWAY_NAME = "keyrack-gateway";

export type GatewayMode = "forward" | "nginx";
export type GatewayOptions = {
  keyrack: Keyrack;
  mode: GatewayMode;
  limits: LimitsMode;
  host: string;
  port: number;
  /** Called for each request whose scopes are invalid: usually an error in the proxy's configuration. */
  onInvalidScopes?: (problem: string) => void;
};
export type Gateway = { url: string; stop(): Promise<void> };

const VERIFY = "/verify";
const SCOPES_MAX = 64;
const MISSPELLED = 'Use scope or scope_any: no other parameter whose name begins with "scope" is read.';
/** Longer than a proxy's idle timeout: otherwise it may send a request on a connection that is being closed. */
const KEEP_ALIVE_MS = 75_000;
const SWEEP_MS = 50;
const STOP_MS = 2_000;
/** auth_request supports 2xx, 401 and 403; any other status becomes a 500 for the client. */
const NGINX_STATUSES = new Set([200, 401, 403]);

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { keyrack, host, port } = options;
  const server = createServer((req, res) => {
    req.resume();
    respond(options, req)
      .then((response) => write(res, response))
      .catch(() => write(res, adaptToMode(options.mode, denialResponse("unavailable"))))
      .catch(() => res.destroy());
  });
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.listen(port, host);
  await once(server, "listening");
  return { url: urlOf(server), stop: () => stop(server, keyrack) };
}

/** Completes requests in flight, closes idle keep-alive connections, and the remaining ones after STOP_MS. */
async function stop(server: Server, keyrack: Keyrack): Promise<void> {
  const closed = once(server, "close");
  server.close();
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS);
  const deadline = setTimeout(() => server.closeAllConnections(), STOP_MS);
  await closed;
  clearInterval(sweep);
  clearTimeout(deadline);
  await keyrack.close();
}

function urlOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

async function respond(options: GatewayOptions, req: IncomingMessage): Promise<TextResponse> {
  const { keyrack, mode, limits } = options;
  const { path, query } = splitUrl(req.url ?? "/");
  if (path === "/healthz") return health(keyrack);
  if (path !== VERIFY && !path.startsWith(`${VERIFY}/`))
    return errorResponse(404, "not_found", "Use /verify or /healthz.");
  const scopes = query.getAll("scope");
  const anyOf = query.getAll("scope_any").map((group) => group.split(" "));
  const problem = path === VERIFY && isMisspelled(query) ? MISSPELLED : problemOf(scopes, anyOf);
  if (problem) {
    options.onInvalidScopes?.(problem);
    return adaptToMode(mode, errorResponse(400, "invalid_request", problem));
  }
  const internals = internalsOf(keyrack);
  // The peer is a proxy and never the client: without a trusted one, the client's address is not known.
  const getIp = ({ socket, headers }: IncomingMessage): string | null =>
    internals.trustedProxies.forwardedBy(peerOf(socket), joinHeader(headers["x-forwarded-for"]));
  const guard = internals.guard<IncomingMessage>({ scopes, limits, getIp }, anyOf);
  const admitted = await guard.admit(req, toIncomingRequest(req, mode, path, query));
  const { context, headers, denial } = admitted;
  admitted.done(denial?.status ?? 200, null);
  if (denial) return adaptToMode(mode, denial);
  // Only a skipped route has no context, and `skip` is not set.
  if (!context) throw new Error("admitted without a context");
  return { status: 200, headers: { ...headers, ...identityHeaders(context) }, body: "" };
}

/** An empty scope is an error in the proxy's configuration. Ignoring it would open the route. */
function problemOf(scopes: string[], anyOf: string[][]): string | null {
  if (scopes.includes("")) return "scope must not be empty.";
  if (anyOf.flat().includes("")) return "scope_any must not have empty members.";
  return scopes.length + anyOf.flat().length > SCOPES_MAX ? `At most ${SCOPES_MAX} scopes.` : null;
}

/**
 * Whether the proxy's configuration has `scopes`, `Scope` or the like, which would require nothing. Behind Envoy, what
 * follows the first `path` is the client's query and may have any names.
 */
function isMisspelled(query: URLSearchParams): boolean {
  for (const name of query.keys()) {
    if (name === "path") return false;
    if (/^scope/i.test(name) && name !== "scope" && name !== "scope_any") return true;
  }
  return false;
}

function splitUrl(url: string): { path: string; query: URLSearchParams } {
  const mark = url.indexOf("?");
  if (mark < 0) return { path: url, query: new URLSearchParams() };
  return { path: url.slice(0, mark), query: new URLSearchParams(url.slice(mark + 1)) };
}

/**
 * The client's method and path, for the report: from the headers that the proxy of this mode sets, or from Envoy's
 * request. The headers of the other mode are passed on from the client.
 */
function toIncomingRequest(
  req: IncomingMessage,
  mode: GatewayMode,
  path: string,
  query: URLSearchParams,
): IncomingRequest {
  const { headers } = req;
  const set = mode === "nginx" ? "x-original" : "x-forwarded";
  const uri = joinHeader(headers[`${set}-uri`]) ?? query.get("path");
  const method = joinHeader(headers[`${set}-method`]) ?? req.method;
  return {
    method: method ?? "GET",
    path: splitUrl(uri ?? (path.slice(VERIFY.length) || "/")).path,
    authorization: headers.authorization,
    apiKey: joinHeader(headers["x-api-key"]),
    userAgent: headers["user-agent"],
  };
}

/** All five headers on every 200, empty if unknown: some proxies overwrite a client's header only with one of ours. */
function identityHeaders({ keyId, tenantId, projectId, env, scopes }: Context): Record<string, string> {
  return {
    "x-keyrack-key-id": keyId ?? "",
    "x-keyrack-tenant-id": tenantId ?? "",
    "x-keyrack-project-id": projectId,
    "x-keyrack-env": env,
    "x-keyrack-scopes": Array.from(scopes, scopeToken).join(" "),
  };
}

/** Scopes are free text: percent-encodes everything but RFC 6749 scope-token characters, and the percent sign. */
function scopeToken(scope: string): string {
  return scope.toWellFormed().replace(/[^\x21\x23\x24\x26-\x5b\x5d-\x7e]+/g, encodeURIComponent);
}

/** For nginx, puts the real status and body into headers, because auth_request drops both. */
function adaptToMode(mode: GatewayMode, denial: TextResponse): TextResponse {
  if (mode !== "nginx") return denial;
  const headers = {
    ...denial.headers,
    "x-keyrack-status": String(denial.status),
    "x-keyrack-error": asciiJson(denial.body),
  };
  return { ...denial, status: NGINX_STATUSES.has(denial.status) ? denial.status : 403, headers };
}

/** The same JSON in ASCII: a required scope may be any text, a header value may not. */
function asciiJson(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** 204 and not 200: behind Envoy without a prefix, a client's request to this path must not be admitted. */
function health(keyrack: Keyrack): TextResponse {
  const { version } = keyrack.status();
  return version === null ? denialResponse("unavailable") : { status: 204, headers: {}, body: "" };
}

function errorResponse(status: number, code: string, message: string): TextResponse {
  const headers = { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" };
  return { status, headers, body: JSON.stringify({ error: { code, message } }) };
}

function write(res: ServerResponse, { status, headers, body }: TextResponse): void {
  const length = status === 204 ? {} : { "content-length": Buffer.byteLength(body) };
  res.writeHead(status, { ...headers, ...length });
  res.end(body);
}
