// The verifier behind somebody else's proxy: nginx auth_request, forward-auth of Caddy and Traefik, Envoy's ext_authz over
// HTTP. Only /verify decides. Envoy appends the client's own path and query to that, so nothing a client can put there
// may loosen the decision: a `scope` of theirs only asks for more, and no other path answers exactly 200.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Context } from "./sdk/context.ts";
import { type TextResponse, denialResponse } from "./sdk/denials.ts";
import type { IncomingRequest, LimitsMode } from "./sdk/guard.ts";
import { type Keyrack, internalsOf } from "./sdk/internals.ts";

export const GATEWAY_MODES = ["forward", "nginx"] as const;
export type GatewayMode = (typeof GATEWAY_MODES)[number];
export type GatewayOptions = { keyrack: Keyrack; mode: GatewayMode; limits: LimitsMode; host: string; port: number };
export type Gateway = { url: string; stop(): Promise<void> };

const VERIFY = "/verify";
const SCOPES_MAX = 64;
/** Longer than a proxy keeps an idle connection: else it may send a request into one that we are closing. */
const KEEP_ALIVE_MS = 75_000;
const SWEEP_MS = 50;
const STOP_MS = 2_000;
/** auth_request knows 2xx, 401 and 403; everything else becomes the client's 500. */
const NGINX_KNOWS = new Set([200, 401, 403]);

export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { keyrack, host, port } = options;
  const server = createServer((req, res) => {
    req.resume();
    answer(options, req)
      .then((told) => write(res, told))
      .catch(() => write(res, refusal(options.mode, denialResponse("unavailable"))))
      .catch(() => res.destroy());
  });
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.listen(port, host);
  await once(server, "listening");
  return { url: urlOf(server), stop: () => stop(server, keyrack) };
}

/** Answers what is in flight. Proxies keep connections open for later: those are ended, the slow ones after a moment. */
async function stop(server: Server, keyrack: Keyrack): Promise<void> {
  const closed = once(server, "close");
  server.close();
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS);
  const late = setTimeout(() => server.closeAllConnections(), STOP_MS);
  await closed;
  clearInterval(sweep);
  clearTimeout(late);
  await keyrack.close();
}

function urlOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}

async function answer({ keyrack, mode, limits }: GatewayOptions, req: IncomingMessage): Promise<TextResponse> {
  const { path, query } = split(req.url ?? "/");
  if (path === "/healthz") return health(keyrack);
  if (path !== VERIFY && !path.startsWith(`${VERIFY}/`)) return plain(404, "not_found", "Ask /verify or /healthz.");
  const scopes = query.getAll("scope");
  // An empty one is a slip in the proxy's configuration. Taking it for none would open the route.
  if (scopes.includes("")) return plain(400, "invalid_request", "scope must not be empty.");
  if (scopes.length > SCOPES_MAX) return plain(400, "invalid_request", `At most ${SCOPES_MAX} scopes.`);
  const guard = internalsOf(keyrack).guard<IncomingMessage>({ scopes, limits });
  const admitted = await guard.admit(req, incomingOf(req, path, query));
  const { context, headers, denial } = admitted;
  admitted.done(denial?.status ?? 200, null);
  if (denial) return refusal(mode, denial);
  // Only `skip` gives no context, and it is not set: without one there is nothing to admit.
  if (!context) throw new Error("admitted without a context");
  return { status: 200, headers: { ...headers, ...identity(context) }, body: "" };
}

function split(url: string): { path: string; query: URLSearchParams } {
  const mark = url.indexOf("?");
  if (mark < 0) return { path: url, query: new URLSearchParams() };
  return { path: url.slice(0, mark), query: new URLSearchParams(url.slice(mark + 1)) };
}

/** The client's method and path, for the report: from the headers that proxies set, or from Envoy's own request. */
function incomingOf(req: IncomingMessage, path: string, query: URLSearchParams): IncomingRequest {
  const { headers } = req;
  const uri = one(headers["x-original-uri"]) ?? one(headers["x-forwarded-uri"]) ?? query.get("path");
  const method = one(headers["x-original-method"]) ?? one(headers["x-forwarded-method"]) ?? req.method;
  return {
    method: method ?? "GET",
    path: split(uri ?? (path.slice(VERIFY.length) || "/")).path,
    authorization: headers.authorization,
    apiKey: one(headers["x-api-key"]),
  };
}

function one(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(",") : header;
}

/** All five on every 200, empty where unknown: some proxies overwrite the client's header only if we send ours. */
function identity({ keyId, tenantId, projectId, env, scopes }: Context): Record<string, string> {
  return {
    "x-keyrack-key-id": keyId ?? "",
    "x-keyrack-tenant-id": tenantId ?? "",
    "x-keyrack-project-id": projectId,
    "x-keyrack-env": env,
    "x-keyrack-scopes": Array.from(scopes, scopeToken).join(" "),
  };
}

/** A scope is any text; what is no scope-token of RFC 6749, and the percent sign, is percent-encoded. */
function scopeToken(scope: string): string {
  return scope.toWellFormed().replace(/[^\x21\x23\x24\x26-\x5b\x5d-\x7e]+/g, encodeURIComponent);
}

/** For nginx the answer's true status and body travel in headers, because auth_request drops both. */
function refusal(mode: GatewayMode, denial: TextResponse): TextResponse {
  if (mode !== "nginx") return denial;
  const headers = {
    ...denial.headers,
    "x-keyrack-status": String(denial.status),
    "x-keyrack-error": asciiJson(denial.body),
  };
  return { ...denial, status: NGINX_KNOWS.has(denial.status) ? denial.status : 403, headers };
}

/** The same JSON in ASCII: a scope that the route asks for may be any text, a header may not. */
function asciiJson(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** 204 and not 200: behind Envoy without a prefix, a client that asks for this very path must not be let in. */
function health(keyrack: Keyrack): TextResponse {
  const { version } = keyrack.status();
  return version === null ? denialResponse("unavailable") : { status: 204, headers: {}, body: "" };
}

function plain(status: number, code: string, message: string): TextResponse {
  const headers = { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" };
  return { status, headers, body: JSON.stringify({ error: { code, message } }) };
}

function write(res: ServerResponse, { status, headers, body }: TextResponse): void {
  const length = status === 204 ? {} : { "content-length": Buffer.byteLength(body) };
  res.writeHead(status, { ...headers, ...length });
  res.end(body);
}
