// A response whose head is written as one string. Node validates and joins headers one by one for every response; of
// ours, only the request id and the length differ. bench: ratelimit/check
// Caution: `_storeHeader` and the fields it sets are internals of node, between writeHead and the socket. We choose the
// version of Node, and test/http/fast/response.test.ts compares every byte with what node writes for the same headers.
import { ServerResponse } from "node:http";
import { KEEP_ALIVE_MS } from "../connections.ts";
import { contentLength, isChunks, type HeaderDefaults, type HeaderTemplate, type HttpResponse } from "../response.ts";
import { chunksOf, SLICE_BYTES, writeSlices, type ChargeBody } from "../sending/slices.ts";
import type { FastRequest } from "./request.ts";

export class ResponseHead {
  readonly #template: HeaderTemplate;
  readonly #requestId: string;
  readonly #length: number | null;

  constructor(template: HeaderTemplate, requestId: string, length: number | null) {
    this.#template = template;
    this.#requestId = requestId;
    this.#length = length;
  }

  /** Names and values in turn, as node takes them. */
  list(): string[] {
    return this.#template.pairs(this.#requestId, this.#length).flat();
  }

  /** Null if node must see the headers one by one. */
  text(): string | null {
    const { lines } = this.#template;
    if (lines === null) return null;
    const length = this.#length === null ? "" : `content-length: ${this.#length}\r\n`;
    return `request-id: ${this.#requestId}\r\n${lines}${length}`;
  }
}

type Internals = { _header: string; _headerSent: boolean; _keepAliveTimeout: number };
type StoreHeader = (this: ServerResponse, line: string, headers: unknown) => void;

const storeHeader = nodesStoreHeader();

function nodesStoreHeader(): StoreHeader {
  const found: unknown = Reflect.get(ServerResponse.prototype, "_storeHeader");
  if (typeof found !== "function") throw new Error("this version of Node has no ServerResponse._storeHeader");
  return found as StoreHeader;
}

export class FastResponse extends ServerResponse<FastRequest> {
  begin(status: number, head: ResponseHead): void {
    // Node passes the head on unchanged unless it must merge it with headers set one by one.
    const alone = this.getHeaderNames().length === 0;
    this.writeHead(status, alone ? (head as never) : head.list());
  }

  /** Called by writeHead. */
  _storeHeader(statusLine: string, headers: unknown): void {
    const internals = this as unknown as Internals;
    internals._keepAliveTimeout = KEEP_ALIVE_MS; // the server has none: see connections.ts
    if (!(headers instanceof ResponseHead)) return storeHeader.call(this, statusLine, headers);
    // HTTP/1.0, which has no chunked encoding, has its own rules for keeping a connection.
    const text = this.shouldKeepAlive && this.useChunkedEncodingByDefault ? headers.text() : null;
    if (text === null) return storeHeader.call(this, statusLine, headers.list());
    internals._header = `${statusLine}${text}${dateLine()}${KEEP_ALIVE_LINES}`;
    internals._headerSent = false;
  }
}

const KEEP_ALIVE_LINES = `Connection: keep-alive\r\nKeep-Alive: timeout=${KEEP_ALIVE_MS / 1_000}\r\n\r\n`;

let second = 0;
let line = "";

function dateLine(): string {
  const now = Math.floor(Date.now() / 1_000);
  if (now !== second) {
    second = now;
    line = `Date: ${new Date(now * 1_000).toUTCString()}\r\n`;
  }
  return line;
}

export function sendFast(
  res: FastResponse,
  response: HttpResponse,
  requestId: string,
  defaults: HeaderDefaults,
  charge: ChargeBody,
): void {
  if (res.destroyed || res.headersSent) return;
  res.req.discard();
  const length = contentLength(response);
  res.begin(response.status, new ResponseHead(defaults.with(response.headers), requestId, length));
  const { body } = response;
  if (body && length !== null && length > SLICE_BYTES) {
    const chunks = chunksOf(body);
    charge(chunks, length);
    return writeSlices(res, chunks);
  }
  if (isChunks(body)) {
    res.cork();
    for (const chunk of body) res.write(chunk);
    res.uncork();
    res.end();
    return;
  }
  res.end(body as string | Uint8Array | null);
}
