// A request and an answer as plain values, the same whether h3 or a hot route carried them.
import type { IncomingHttpHeaders } from "node:http";
import type { FastRequest } from "./fast/request.ts";

export type HttpRequest = {
  /** Ours, fresh: on the answer and in every log line about this request. */
  readonly id: string;
  readonly method: string;
  readonly path: string;
  /** What stands behind the question mark. */
  readonly search: string;
  readonly params: Readonly<Record<string, string>>;
  readonly headers: IncomingHttpHeaders;
  readonly message: FastRequest;
};

/** An answer that a handler made by hand (not JSON, a header of its own, in pieces). */
export class HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array | readonly Uint8Array[] | null;

  constructor(status: number, body: HttpResponse["body"], headers: Readonly<Record<string, string>> = {}) {
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

export function bearerOf(headers: IncomingHttpHeaders): { presented: boolean; token: string | null } {
  const text = headers.authorization;
  if (text === undefined) return { presented: false, token: null };
  // How nearly everybody writes it.
  if (text.startsWith("Bearer ") && text.length > 7 && !text.includes(" ", 7) && !text.includes("\t")) {
    return { presented: true, token: text.slice(7) };
  }
  const [, token] = /^bearer +([^\s]+) *$/i.exec(text) ?? [];
  return { presented: true, token: token ?? null };
}

/** `If-None-Match`, compared weakly (RFC 9110 §13.1.2). `etag` is quoted and carries no `W/`. */
export function matchesEtag(headers: IncomingHttpHeaders, etag: string): boolean {
  const sent = headers["if-none-match"];
  if (sent === undefined) return false;
  return sent.trim() === "*" || sent.split(",").some((text) => text.trim().replace(/^W\//, "") === etag);
}
