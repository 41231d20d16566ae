// One request to a Keyrack server, on node:http: loading fetch would add 30 ms to the start of every command.
import type { IncomingHttpHeaders, IncomingMessage, RequestOptions } from "node:http";
import type { Writable } from "node:stream";
import type { Route, RouteInput, RouteOutput } from "../../client.ts";
import { ExitError } from "../ui/output.ts";
import { parseCredential, parseInviteToken } from "../../kernel/credentials.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import type { Detail } from "../../kernel/errors.ts";
import { MIB } from "../../kernel/sizes.ts";
import { codeOf } from "../../platform/errors.ts";

/** `hint`: what to check where the server refuses the credential. */
export type Target = { url: string; bearer: string | null; hint?: string };
export type ApiResponse = { status: number; headers: IncomingHttpHeaders; text: string; hint?: string | undefined };
export type ApiRequest = {
  method: string;
  path: string;
  query?: Record<string, string | number | string[] | undefined>;
  body?: unknown;
  idempotencyKey?: string | undefined;
  timeoutMs?: number;
  /** Fields that a flag of the same name can set. */
  flags?: readonly string[];
};

const RESPONSE_MAX = 64 * MIB;
const TIMEOUT_MS = 30_000;
/** How long a download may stall without receiving a byte. */
const SILENCE_MS = MINUTE_MS;

/** Proxies log URLs. */
function refuseCredential(texts: readonly string[]): void {
  const words = texts.flatMap((text) => text.split(/[\s,]+/));
  if (words.some((word) => parseCredential(word) ?? parseInviteToken(word)))
    throw new ExitError(
      "A credential must not be part of a URL, which proxies log. Use its id: keyrack key lookup finds that of a key on standard input.",
      2,
    );
}

function buildUrl(base: string, { path, query = {} }: ApiRequest): URL {
  if (!URL.canParse(base) || !/^https?:$/.test(new URL(base).protocol))
    throw new ExitError(`${base} is not an http:// or https:// URL.`, 2);
  refuseCredential(path.split("/").map(decodeURIComponent));
  const url = new URL(base.replace(/\/+$/, "") + path);
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== undefined) url.searchParams.append(name, String(item));
    }
  }
  refuseCredential([...url.searchParams.values()]);
  return url;
}

function buildHeaders({ bearer }: Target, { idempotencyKey }: ApiRequest, body?: string): Record<string, string> {
  return {
    accept: "application/json",
    ...(bearer && { authorization: `Bearer ${bearer}` }),
    ...(body !== undefined && {
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
    }),
    ...(idempotencyKey && { "idempotency-key": `"${idempotencyKey}"` }),
  };
}

type Fail = (error: NodeJS.ErrnoException) => void;

/** Sends a request and gives its response to `receive`. Throws exit 3 when there is none. */
function open<T>(
  target: Target,
  message: ApiRequest,
  signal: AbortSignal | undefined,
  receive: (response: IncomingMessage, resolve: (value: T) => void, fail: Fail) => void,
): Promise<T> {
  const url = buildUrl(target.url, message);
  const body = message.body === undefined ? undefined : JSON.stringify(message.body);
  // Not by import(): that evaluates every export, and one of them loads all of fetch.
  const http = process.getBuiltinModule(url.protocol === "https:" ? "node:https" : "node:http");
  const options: RequestOptions = { method: message.method, headers: buildHeaders(target, message, body) };
  return new Promise((resolve, reject) => {
    const fail: Fail = (error) => {
      outgoing.destroy(); // a response that nothing reads would keep the process alive
      const reason = signal?.aborted ? "timed out" : (error.code ?? error.message);
      const advice = "Check that the server is running, or set --url or KEYRACK_URL.";
      reject(
        error instanceof ExitError ? error : new ExitError(`Cannot reach ${url.origin} (${reason}). ${advice}`, 3),
      );
    };
    const outgoing = http.request(url, { ...options, signal }, (response) => receive(response, resolve, fail));
    outgoing.on("error", fail);
    if (!signal) outgoing.setTimeout(SILENCE_MS, () => outgoing.destroy());
    outgoing.end(body);
  });
}

/** Resolves with any response, refusals included. Throws exit 3 when there is none. */
export async function request(target: Target, message: ApiRequest): Promise<ApiResponse> {
  const signal = AbortSignal.timeout(message.timeoutMs ?? TIMEOUT_MS);
  return { ...(await open<ApiResponse>(target, message, signal, collect)), hint: target.hint };
}

function collect(response: IncomingMessage, resolve: (response: ApiResponse) => void, fail: Fail): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  response.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > RESPONSE_MAX) response.destroy(new Error("the response is too large"));
  });
  response.on("error", fail);
  response.on("end", () => {
    const text = Buffer.concat(chunks).toString("utf8");
    resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
  });
}

/** Writes the body of a successful response to `out` as it arrives. Throws on a failure, and when it is cut off. */
export function download(target: Target, message: ApiRequest, out: Writable): Promise<void> {
  return open<void>(target, message, undefined, (response, resolve, fail) => {
    if (response.statusCode !== 200)
      return collect(response, (refused) => fail(toExitError({ ...refused, hint: target.hint })), fail);
    response.on("error", () => fail(new ExitError("The server ended the response before it was complete.", 3)));
    out.once("error", (error) => {
      if (codeOf(error) !== "EPIPE") return fail(new ExitError(`Cannot write the response (${error.message}).`, 1));
      resolve(); // the reader has all it wants, as `| head` has
      response.destroy();
    });
    response.on("end", resolve);
    response.pipe(out, { end: false });
  });
}

export function isFailure({ status }: ApiResponse): boolean {
  return status < 200 || status > 299;
}

type Envelope = { error?: { message?: string; details?: Detail[] } };

export class ApiError extends ExitError {
  readonly status: number;
  constructor(message: string, status: number) {
    super(message, 1);
    this.status = status;
  }
}

/** A failed response as one line, with the fields that it names, each as `nameOf` spells it. */
export function toExitError(response: ApiResponse, nameOf?: (path: string) => string): ApiError {
  let error: Envelope["error"];
  try {
    ({ error } = JSON.parse(response.text) as Envelope);
  } catch {
    // Not our error format: another program answers at this URL.
  }
  if (!error?.message)
    return new ApiError(
      `Unexpected response (HTTP ${response.status}): this is not a Keyrack server. Check --url.`,
      response.status,
    );
  const hint = response.status === 401 && response.hint ? ` ${response.hint}` : "";
  return new ApiError(`${messageOf(error.message, error.details ?? [], nameOf)}${hint}`, response.status);
}

/** Where fields are named, "The request body is not valid." adds nothing; nor does a field that repeats the message. */
function messageOf(message: string, all: Detail[], nameOf = (path: string) => path): string {
  const details = all.filter(({ message: text }) => !message.endsWith(` ${text}.`));
  if (details.length === 0) return message;
  const named = `${details.map(({ path, message: text }) => `${nameOf(path)} ${text}`.trim()).join("; ")}.`;
  return message.endsWith(" is not valid.") ? named : `${message} ${named}`;
}

/** The parsed body of a successful response. Throws on a failure, and on a 200 that is not JSON. */
export function parseJson(response: ApiResponse, nameOf?: (path: string) => string): unknown {
  if (isFailure(response)) throw toExitError(response, nameOf);
  try {
    return JSON.parse(response.text) as unknown;
  } catch {
    throw toExitError(response);
  }
}

type RouteWithoutParams = Exclude<Route, `${string}{${string}`>;

export async function fetchJson<R extends RouteWithoutParams>(
  target: Target,
  route: R,
  input: RouteInput<R> & { timeoutMs?: number },
): Promise<RouteOutput<R>> {
  const [method = "GET", path = "/"] = route.split(" ");
  return parseJson(await request(target, { method, path, ...input })) as RouteOutput<R>;
}
