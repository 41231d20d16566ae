// An answer that takes its headers as text. Node checks and joins headers one by one, for every answer anew; ours carry
// eight, of which only the request's id and the length ever differ. That was a twentieth of a small request.
// The trap: `_storeHeader` and the fields it fills are node's own, between writeHead and the wire. Node's version is
// ours to choose, and test/http/fast/response.test.ts holds every byte against what node writes of the same headers.
import { ServerResponse, validateHeaderName, validateHeaderValue } from "node:http";
import type { FastRequest } from "./request.ts";

/** How long a connection may stay quiet between two requests; told with every answer. */
export const KEEP_ALIVE_MS = 65_000;

/** By these node decides how to send the body and what becomes of the connection: it must see them. */
const NODES_OWN = new Set([
  "connection",
  "content-length",
  "date",
  "expect",
  "keep-alive",
  "trailer",
  "transfer-encoding",
]);

type Fields = Readonly<Record<string, string>>;

/** The headers that answers share. */
export class HeaderTemplate {
  readonly fields: Fields;
  /** Their lines, checked; null where node must look at them itself. */
  readonly lines: string | null;

  constructor(fields: Fields) {
    this.fields = fields;
    const all = Object.entries(fields);
    for (const [name, value] of all) {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    }
    const plain = all.every(([name]) => !NODES_OWN.has(name.toLowerCase()));
    this.lines = plain ? all.map(([name, value]) => `${name}: ${value}\r\n`).join("") : null;
  }
}

/** The headers of one answer. `length` is null where its status says that there is no body. */
export class ResponseHead {
  readonly #shape: HeaderTemplate;
  readonly #requestId: string;
  readonly #length: number | null;

  constructor(shape: HeaderTemplate, requestId: string, length: number | null) {
    this.#shape = shape;
    this.#requestId = requestId;
    this.#length = length;
  }

  /** Names and values in turn, as node takes them. */
  list(): string[] {
    const list = ["request-id", this.#requestId, ...Object.entries(this.#shape.fields).flat()];
    return this.#length === null ? list : [...list, "content-length", String(this.#length)];
  }

  /** Null where node must write them. */
  text(): string | null {
    const { lines } = this.#shape;
    if (lines === null) return null;
    const length = this.#length === null ? "" : `content-length: ${this.#length}\r\n`;
    return `request-id: ${this.#requestId}\r\n${lines}${length}`;
  }
}

type Inside = { _header: string; _headerSent: boolean; _keepAliveTimeout: number };
type StoreHeader = (this: ServerResponse, line: string, headers: unknown) => void;

const storeHeader = nodesOwn();

function nodesOwn(): StoreHeader {
  const found: unknown = Reflect.get(ServerResponse.prototype, "_storeHeader");
  if (typeof found !== "function") throw new Error("this version of Node writes the heads of answers in another way");
  return found as StoreHeader;
}

export class FastResponse extends ServerResponse<FastRequest> {
  /** The server must keep connections for KEEP_ALIVE_MS (connections.ts), and for any number of requests: so says the text. */
  begin(status: number, head: ResponseHead): void {
    // Node hands it on as it is, unless it has to put it together with headers that were set one by one.
    const alone = this.getHeaderNames().length === 0;
    this.writeHead(status, alone ? (head as never) : head.list());
  }

  /** Called by writeHead. */
  _storeHeader(statusLine: string, headers: unknown): void {
    const inside = this as unknown as Inside;
    inside._keepAliveTimeout = KEEP_ALIVE_MS; // node's server has none: see connections.ts
    if (!(headers instanceof ResponseHead)) return storeHeader.call(this, statusLine, headers);
    // HTTP/1.0 has rules of its own for a connection that stays; it is the one without chunks.
    const text = this.shouldKeepAlive && this.useChunkedEncodingByDefault ? headers.text() : null;
    if (text === null) return storeHeader.call(this, statusLine, headers.list());
    inside._header = `${statusLine}${text}${dateLine()}${KEPT_ALIVE}`;
    inside._headerSent = false;
  }
}

const KEPT_ALIVE = `Connection: keep-alive\r\nKeep-Alive: timeout=${KEEP_ALIVE_MS / 1_000}\r\n\r\n`;

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
