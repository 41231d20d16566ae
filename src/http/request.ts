// A request as a plain value: what the pipeline sees, whichever lane the request came through; and the context that it
// gives to handlers.
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { recheckOf } from "../domain/auth/credentials.ts";
import { ANONYMOUS, ownerOf, type Actor } from "../domain/core/actor.ts";
import { networkOwner, type Owner } from "../fairness/owners.ts";
import type { Ctx, Recheck, RequestSource, Services } from "../domain/core/context.ts";
import type { OnDisconnect } from "../domain/core/subscription.ts";
import type { IdempotencyReplay } from "../domain/idempotency/replays.ts";
import { sha256Hex } from "../platform/crypto.ts";
import type { RequestBody } from "./body/body.ts";

export type Params = Readonly<Record<string, string>>;

export type HttpRequest = {
  /** Generated here, never the caller's: in the response and in every log line about this request. */
  readonly id: string;
  readonly method: string;
  readonly path: string;
  /** The query without its question mark. */
  readonly search: string;
  readonly params: Params;
  readonly headers: IncomingHttpHeaders;
  readonly body: RequestBody;
  /** For the peer's address, and to notice that the client has disconnected. */
  readonly socket: Socket;
  /** The owner of its credential, once known. */
  actor: Actor;
};

export function toHttpRequest(id: string, message: IncomingMessage, params: Params, body: RequestBody): HttpRequest {
  const url = message.url ?? "/";
  const at = url.indexOf("?");
  return {
    id,
    method: message.method ?? "GET",
    path: at < 0 ? url : url.slice(0, at),
    search: at < 0 ? "" : url.slice(at + 1),
    params,
    headers: message.headers,
    body,
    socket: message.socket,
    actor: ANONYMOUS,
  };
}

/** Who is charged for a request: the owner of its credential, or else the client's network. */
export function chargedTo(request: HttpRequest, addressOf: (request: HttpRequest) => string): Owner {
  return request.actor.kind === "anonymous" ? networkOwner(addressOf(request)) : ownerOf(request.actor);
}

/** The credential that a request carries. */
export class Bearer {
  /** Whether the request carried one at all. */
  readonly presented: boolean;
  /** Null if there is none, or if the header is malformed. */
  readonly token: string | null;
  readonly #header: string | undefined;
  #hash: string | undefined;

  constructor(header: string | undefined) {
    this.#header = header;
    this.presented = header !== undefined;
    this.token = header === undefined ? null : (/^bearer +([^\s]+) *$/i.exec(header)?.[1] ?? null);
  }

  isOf(header: string | undefined): boolean {
    return header === this.#header;
  }

  /** What the credential is looked up by. */
  get hash(): string {
    return (this.#hash ??= sha256Hex(this.token ?? ""));
  }
}

/** A property of the socket: a WeakMap would cost every request. */
const LAST_BEARER = Symbol("last bearer");
type Carrier = { headers: IncomingHttpHeaders; socket: Socket & { [LAST_BEARER]?: Bearer } };

/** Parsed and hashed once for the requests of a connection that carry the same. bench: ratelimit/check */
export function bearerOf({ headers, socket }: Carrier): Bearer {
  const { authorization } = headers;
  const last = socket[LAST_BEARER];
  return last?.isOf(authorization) ? last : (socket[LAST_BEARER] = new Bearer(authorization));
}

/** `If-None-Match`, compared weakly (RFC 9110, 13.1.2). `etag` is quoted and has no `W/`. */
export function matchesEtag(headers: IncomingHttpHeaders, etag: string): boolean {
  const sent = headers["if-none-match"];
  if (sent === undefined) return false;
  return sent.trim() === "*" || sent.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
}

/**
 * A request that has been read never closes; only its socket shows that the client has disconnected. One that is not
 * read (pipelining.ts) cannot show it, so it counts as disconnected: a client with many requests behind this one wants
 * their responses.
 */
export function onDisconnect({ socket }: Pick<HttpRequest, "socket">): OnDisconnect {
  return (listener) => {
    if (socket.destroyed || socket.isPaused()) listener();
    socket.on("close", listener).on("pause", listener);
    return () => socket.off("close", listener).off("pause", listener);
  };
}

/** What the pipeline knows about the request's credential. */
export interface Admission {
  /** Throws what a new request with this credential would be refused with. */
  admitAgain(): void | Promise<void>;
  readonly token: string | null;
  origin(): RequestSource;
}

/** A class, because an object literal with a getter is slow to create. */
export class RequestContext implements Ctx {
  readonly services: Services;
  readonly actor: Actor;
  readonly replay: IdempotencyReplay | undefined;
  readonly #admission: Admission;
  readonly #socket: HttpRequest["socket"];

  constructor(
    services: Services,
    actor: Actor,
    replay: IdempotencyReplay | undefined,
    admission: Admission,
    { socket }: Pick<HttpRequest, "socket">,
  ) {
    this.services = services;
    this.actor = actor;
    this.replay = replay;
    this.#admission = admission;
    this.#socket = socket;
  }

  get recheck(): Recheck | undefined {
    const { token } = this.#admission;
    if (token === null || this.actor.kind === "anonymous") return undefined;
    return recheckOf(this.services, token, this.actor);
  }

  async requireStillValid(): Promise<void> {
    return this.#admission.admitAgain();
  }

  hasDisconnected(): boolean {
    return this.#socket.destroyed;
  }

  /** Computed on demand: few operations need it, and no hot one. */
  get from(): RequestSource {
    return this.#admission.origin();
  }
}
