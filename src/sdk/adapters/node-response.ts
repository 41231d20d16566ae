// Shared by the adapters on node:http: reading a request and its body, writing a response, and capturing a response so
// that it can be replayed. Caution: headers passed to `writeHead` do not appear in `getHeaders()`, so it is
// wrapped too.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerResponse } from "node:http2";
import type { Claim } from "../idempotency/claim.ts";
import type { Context } from "../context.ts";
import { denialResponse } from "../denials.ts";
import type { IncomingRequest } from "../guard.ts";
import type { BeginResult, IdempotentRequest, PlainResponse, IdempotentRoute } from "../idempotency/idempotency.ts";
import { REQUEST_BODY_MAX, BodyRecorder } from "../idempotency/replay.ts";
import { joinHeader, peerOf } from "./peer.ts";

/** A request with the properties that frameworks and body parsers add. */
export type NodeRequest = IncomingMessage & {
  keyrack?: Context | null;
  originalUrl?: string;
  body?: unknown;
  rawBody?: unknown;
};

function splitUrl(req: NodeRequest): { path: string; query: string } {
  const url = req.originalUrl ?? req.url ?? "/";
  const mark = url.indexOf("?");
  return mark < 0 ? { path: url, query: "" } : { path: url.slice(0, mark), query: url.slice(mark + 1) };
}

export function toIncomingRequest(req: NodeRequest): IncomingRequest {
  const { authorization, "x-api-key": apiKey, "x-forwarded-for": forwardedFor } = req.headers;
  return {
    method: req.method ?? "GET",
    path: splitUrl(req).path,
    authorization,
    apiKey: joinHeader(apiKey),
    peer: peerOf(req.socket),
    forwardedFor: joinHeader(forwardedFor),
    userAgent: req.headers["user-agent"],
  };
}

/** Does nothing if the response has already started: setting a header would throw. */
export function writeResponse(res: ServerResponse, response: PlainResponse): void {
  if (res.headersSent) return;
  for (const [name, value] of Object.entries(response.headers)) res.setHeader(name, value);
  res.statusCode = response.status;
  res.end(response.body);
}

export function setHeaders(res: ServerResponse, headers: Record<string, string>): void {
  if (!res.headersSent) for (const [name, value] of Object.entries(headers)) res.setHeader(name, value);
}

/** Calls back once with the status; 499 when the client disconnected before the end. */
export function onResponseClosed(res: ServerResponse, onStatus: (status: number) => void): void {
  // A response of HTTP/2 has no `closed`, and emits `finish` for a stream that was reset too: its stream is asked.
  const { httpVersionMajor: major } = res.req ?? {};
  const stream = major >= 2 ? (res as unknown as Http2ServerResponse).stream : null;
  // By the event too: a response to fastify's inject is closed before it counts as finished.
  let isFinished = false;
  const isComplete = () => (stream ? !stream.aborted && stream.writableFinished : isFinished || res.writableFinished);
  const report = () => onStatus(isComplete() ? res.statusCode : 499);
  // A client may disconnect while its limits are checked: the event does not fire a second time.
  if (stream ? stream.destroyed : res.closed) return report();
  res.once("finish", () => (isFinished = true));
  res.once("close", report);
}

/** Requests a claim for a Node request. `mayRead`: reads its body if it has not been read. */
export async function beginOnNode(route: IdempotentRoute, req: NodeRequest, mayRead = true): Promise<BeginResult> {
  const key = req.headers["idempotency-key"];
  const header = Array.isArray(key) ? key.join(",") : key;
  const body = header === undefined ? "" : await bodyOf(req, mayRead);
  if (body === null) {
    // HTTP/2 has no such header: Node would print a warning.
    const headers: Record<string, string> = req.httpVersionMajor < 2 ? { connection: "close" } : {};
    return { kind: "respond", response: denialResponse("body_too_large", { headers }) };
  }
  const request = { context: req.keyrack, method: req.method ?? "GET", ...splitUrl(req), body, key: header };
  return route.begin(request);
}

/** The raw bytes, or the parsed JSON if a parser consumed them; null when too large or incomplete. */
async function bodyOf(req: NodeRequest, mayRead: boolean): Promise<IdempotentRequest["body"] | null> {
  for (const body of [req.rawBody, req.body]) {
    if (typeof body === "string" || body instanceof Uint8Array) return body;
  }
  const isRead = req.readableEnded || req.readableDidRead;
  const isSent = hadBody(req);
  // Express 4 sets `{}` for a body that no parser has read, and parsers of multipart bodies leave files elsewhere.
  const isParsed = !isSent || (isRead && !/^multipart\//i.test(req.headers["content-type"] ?? ""));
  if (isParsed && req.body !== undefined) return { parsed: req.body };
  if (isRead || !mayRead) return isSent ? { used: true } : "";
  const bytes = await readBody(req);
  if (!bytes) return null;
  // The stream is consumed now: sets the body where a body parser would have put it.
  req.rawBody = Buffer.from(bytes);
  req.body = parseJson(req, bytes);
  return bytes;
}

/** A request of HTTP/2 may have a body without either header. */
function hadBody(req: NodeRequest & { stream?: { endAfterHeaders?: boolean } }): boolean {
  const { "transfer-encoding": encoding, "content-length": length } = req.headers;
  return encoding !== undefined || Number(length ?? 0) > 0 || req.stream?.endAfterHeaders === false;
}

/**
 * Not by `for await`: leaving it early destroys the socket, and with it the 413. Resolves null when the client
 * disconnects: a rejection would end a process on plain node:http.
 */
function readBody(req: NodeRequest): Promise<Uint8Array | null> {
  const copy = new BodyRecorder(REQUEST_BODY_MAX);
  return new Promise((resolve) => {
    const add = (chunk: Uint8Array) => {
      copy.add(chunk);
      if (!copy.tooLarge) return;
      req.off("data", add);
      req.pause();
      resolve(null);
    };
    req.on("data", add);
    req.once("end", () => resolve(copy.bytes()));
    req.once("error", () => resolve(null));
    req.once("close", () => resolve(null));
  });
}

function parseJson(req: NodeRequest, bytes: Uint8Array): unknown {
  if (!/^application\/(?:[\w.+-]+\+)?json\b/i.test(req.headers["content-type"] ?? "")) return req.rawBody;
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return req.rawBody;
  }
}

function isChunk(chunk: unknown): boolean {
  return typeof chunk === "string" || chunk instanceof Uint8Array;
}

function isBody(chunk: unknown): boolean {
  return chunk === undefined || chunk === null || typeof chunk === "function" || isChunk(chunk);
}

/** The chunk of `write(chunk, encoding, callback)` or `end`; both arguments before the callback are optional. */
function toBytes([chunk, encoding]: unknown[]): Uint8Array {
  if (typeof chunk !== "string") return chunk instanceof Uint8Array ? chunk : new Uint8Array();
  return Buffer.from(chunk, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8");
}

/** Sets Content-Length, as Node does itself if head and body are written by one `end`. */
function declareLength(res: ServerResponse, length: number): void {
  const { statusCode: status, req } = res;
  const isBodyless = req.method === "HEAD" || status < 200 || status === 204 || status === 304;
  const isDeclared = ["content-length", "transfer-encoding", "trailer"].some((name) => res.hasHeader(name));
  if (!isBodyless && !isDeclared) res.setHeader("content-length", length);
}

/** Captures a response and holds back its end until it is stored. */
export class NodeCapture {
  /** Called at the end of the response: one that is not final is sent but not stored, and a retry may run. */
  isFinal: (status: number) => boolean = () => true;
  /** Set if the handler passes the response on to code that continues after it has returned. */
  isDelegated = false;
  readonly #res: ServerResponse;
  readonly #claim: Claim;
  readonly #copy: BodyRecorder;
  readonly #restore: () => void;
  #headers: Record<string, unknown> | null = null;
  /** Set by the first `end`; resolves when the response is stored and its end is passed on. */
  #sent: Promise<void> | null = null;
  #held = false;
  #isOver = false;

  constructor(res: ServerResponse, claim: Claim) {
    this.#res = res;
    this.#claim = claim;
    this.#copy = new BodyRecorder(claim.maxBodyBytes);
    const { writeHead, write, end } = res as unknown as Record<string, (...args: unknown[]) => unknown>;
    this.#restore = () => Object.assign(res, { writeHead, write, end });
    // A write or end after the first `end` has no effect: Node would emit an error for it, which ends the process. Its
    // callback is called at the end of the response.
    const drop = <T>(args: unknown[], result: T): T => {
      const callback = args.find((one) => typeof one === "function");
      this.#sent?.then(() => end?.call(res, callback)).catch(() => {});
      return result;
    };
    const wrapped = {
      writeHead: (status: number, ...rest: unknown[]) => {
        this.#captureHeaders(rest.at(-1));
        return writeHead?.call(res, status, ...rest);
      },
      write: (...args: unknown[]) => {
        const pass = () => write?.call(res, ...args);
        if (!isChunk(args[0])) return pass(); // which throws
        if (this.#held) return drop(args, false);
        this.#captureHeaders(null);
        this.#copy.add(toBytes(args));
        return pass();
      },
      end: (...args: unknown[]) => {
        const pass = () => end?.call(res, ...args);
        // Node throws for an invalid chunk here, in the handler: later nothing would catch it.
        if (!isBody(args[0])) return pass();
        if (this.#held) return drop(args, res);
        if (this.#sent) return pass();
        this.#captureHeaders(null);
        const bytes = toBytes(args);
        if (!res.headersSent) {
          declareLength(res, bytes.length);
          writeHead?.call(res, res.statusCode);
        }
        // Like the head: whatever runs before the response is stored must see that there is one.
        Object.defineProperty(res, "writableEnded", { value: true });
        this.#held = true;
        this.#copy.add(bytes);
        const isFinal = this.isFinal(res.statusCode);
        const ended = isFinal ? claim.complete(res.statusCode, this.#headers, this.#copy.bytes()) : claim.release();
        this.#sent = ended
          .then(() => {
            this.#held = false;
            pass();
          })
          .catch(() => void res.destroy());
        return res;
      },
    };
    Object.assign(res, wrapped);
    res.once("close", () => this.#onDisconnect());
    // Node detaches the stream that is the response when the client disconnects: nothing ends that response.
    res.on("unpipe", () => res.destroyed && claim.abandon());
  }

  /** Runs the handler; the response may still be in progress when it returns. */
  async run(handler: () => unknown): Promise<unknown> {
    try {
      const returned = handler();
      const value = await returned;
      // Without a promise, a handler responds by a callback.
      this.#isOver = returned instanceof Promise && !this.isDelegated;
      if (this.#res.destroyed) this.#onDisconnect();
      return value;
    } catch (error) {
      await this.failed();
      throw error;
    }
  }

  /**
   * After the handler threw: the framework's error response is not captured, and a retry may run. Unless the handler
   * had responded: then the framework sees the error after that response, as it would without the claim.
   */
  async failed(): Promise<void> {
    if (this.#sent) return this.#sent;
    this.#restore();
    await this.#claim.release();
  }

  /**
   * The client disconnected, and an async handler has ended without a response. One that follows is still stored; if
   * none does, the claim expires.
   */
  #onDisconnect(): void {
    if (!this.#sent && this.#isOver) this.#claim.abandon();
  }

  /** Captures the headers before the first byte: later ones belong to a content encoding. */
  #captureHeaders(extra: unknown): void {
    if (this.#headers) return;
    this.#headers = { ...this.#res.getHeaders() };
    if (Array.isArray(extra)) {
      for (let i = 0; i + 1 < extra.length; i += 2) this.#headers[String(extra[i]).toLowerCase()] = extra[i + 1];
    } else if (typeof extra === "object" && extra !== null) {
      for (const [name, value] of Object.entries(extra)) this.#headers[name.toLowerCase()] = value;
    }
  }
}
