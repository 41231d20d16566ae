// One request, straight down and back once: credential, kind and role, throttle, size and media, validation, handler.
// The order is decision 18's; nothing else in the program decides it.
import type { IncomingMessage } from "node:http";
import { actorColumns, ANONYMOUS, type Actor } from "../domain/core/actor.ts";
import type { Ctx, RequestSource, Services } from "../domain/core/context.ts";
import { resolveBearer, resolveCached } from "../domain/auth/credentials.ts";
import { requireOrigin, requireScope } from "../domain/embed/rules.ts";
import type { IdempotencyReplay } from "../domain/limits/idempotency-replays.ts";
import { fail, Failure } from "../kernel/errors.ts";
import type { MaybePromise } from "../kernel/maybe-promise.ts";
import { access, refusal } from "./access.ts";
import { networkOf } from "./address.ts";
import { checkMedia, readBody } from "./body.ts";
import type { Endpoint } from "./endpoint.ts";
import { replayOf, runOnce } from "./idempotency-key.ts";
import { bodyOf, paramsOf, queryOf } from "./input.ts";
import { HttpResponse, bearerOf, type HttpRequest } from "./request.ts";
import type { Meter } from "./request-metrics.ts";
import { failureResponse, jsonTextResponse } from "./response.ts";

export type RunOptions = {
  /** Holds every answer against its schema: on in tests, off in service. */
  checkOutput: boolean;
  /** The caller's address, believing only trusted proxies. */
  addressOf(message: IncomingMessage): string;
  /** Counts for /metrics, where somebody asks for it. */
  meter?: Meter | undefined;
};

const BOOTSTRAP_DOOR = { name: "bootstrap", limit: 60, windowMs: 60_000 };
const MINUTE_MS = 60_000;
const EMBED_DOOR = { name: "embed", limit: 120, windowMs: MINUTE_MS };
const EMBED_WRITES = { name: "embed-writes", limit: 30, windowMs: MINUTE_MS };

type Bearer = ReturnType<typeof bearerOf>;

/** Takes the one answer of a request. Must not throw. */
export type Respond = (answer: HttpResponse) => void;

/** One request. Where there is nothing to wait for, the answer is told before this returns: a promise costs a turn. */
export function run(
  services: Services,
  endpoint: Endpoint,
  request: HttpRequest,
  options: RunOptions,
  tell: Respond,
): void {
  new Run(services, endpoint, request, options, tell).start();
}

class Run {
  readonly #services: Services;
  readonly #endpoint: Endpoint;
  readonly #request: HttpRequest;
  readonly #options: RunOptions;
  readonly #told: Respond;
  readonly #bearer: Bearer;
  readonly #began: number;
  /** Whom the request turned out to come from, for the log; nobody until the credential was looked at. */
  #actor: Actor = ANONYMOUS;
  #replay: IdempotencyReplay | undefined;

  constructor(services: Services, endpoint: Endpoint, request: HttpRequest, options: RunOptions, tell: Respond) {
    this.#services = services;
    this.#endpoint = endpoint;
    this.#request = request;
    this.#options = options;
    this.#told = tell;
    this.#bearer = bearerOf(request.headers);
    this.#began = options.meter ? performance.now() : 0;
  }

  start(): void {
    this.#step(() => this.#after(this.#authenticate(), (actor) => this.#admit(actor)));
  }

  /** Whatever is thrown on the way is the request's refusal. */
  #step(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#refuse(error);
    }
  }

  /** Goes on now where the value is there: an await costs a turn even where there is nothing to wait for. */
  #after<T>(value: MaybePromise<T>, next: (value: T) => void): void {
    if (!(value instanceof Promise)) return next(value);
    value.then(
      (settled) => this.#step(() => next(settled)),
      (error: unknown) => this.#refuse(error),
    );
  }

  #authenticate(): MaybePromise<Actor> {
    const { access: rule } = this.#endpoint;
    const { token } = this.#bearer;
    if (access[rule].open) return ANONYMOUS;
    if (rule === "workspaces.create" && !token?.startsWith("krses_")) {
      this.#services.throttles.take(BOOTSTRAP_DOOR, originOf(this.#request, this.#options).network);
    }
    if (token === null) throw fail("unauthenticated");
    // Minting embed tokens has an access of its own and is never served from memory (decision 144).
    return rule === "machine.use" ? resolveCached(this.#services, token) : resolveBearer(this.#services, token);
  }

  #admit(actor: Actor): void {
    this.#actor = actor;
    const endpoint = this.#endpoint;
    const refused = refusal(access[endpoint.access], actor);
    if (refused) throw refused;
    checkOrigin(endpoint, actor, this.#request.headers.origin);
    if (endpoint.scope && actor.kind === "embed_token") requireScope(actor, endpoint.scope);
    throttle(this.#services, actor, endpoint);
    if (endpoint.perNetwork) {
      this.#services.throttles.take(endpoint.perNetwork, originOf(this.#request, this.#options).network);
    }
    if (!endpoint.body || endpoint.rawBody) return this.#handle(undefined);
    this.#read(
      (bytes) => this.#step(() => this.#handle(bytes)),
      (failure) => this.#refuse(failure),
    );
  }

  #read(take: (bytes: Buffer) => void, refuse: (failure: Failure) => void): void {
    const { message } = this.#request;
    checkMedia(message, this.#endpoint.bodyMax);
    readBody(message, this.#endpoint.bodyMax, take, refuse);
  }

  #handle(bytes: Buffer | undefined): void {
    const endpoint = this.#endpoint;
    const request = this.#request;
    const services = this.#services;
    const params = endpoint.params && paramsOf(endpoint.params, request.params);
    const query = queryOf(endpoint, request.search);
    const body = bytes && bodyOf(endpoint, bytes);
    const replay = endpoint.idempotent ? replayOf(endpoint, request, this.#bearer.token, bytes) : undefined;
    this.#replay = replay;
    const ctx = new RequestContext(services, this.#actor, replay, request, this.#options);
    const raw = (): Promise<Buffer> => new Promise((resolve, reject) => this.#read(resolve, reject));
    const input = { params, query, body, request, raw };
    const value = replay ? runOnce(services, replay, () => endpoint.handle(ctx, input)) : endpoint.handle(ctx, input);
    this.#after(value, (made) => this.#tell(this.#answerWith(made)));
  }

  #answerWith(value: unknown): HttpResponse {
    if (value instanceof HttpResponse) return value;
    const { output, write, headers, status } = this.#endpoint;
    if (this.#options.checkOutput) output.parse(value);
    const text = write ? write(value as never) : JSON.stringify(value);
    return jsonTextResponse(
      status,
      text,
      this.#replay?.replayed ? { ...headers, "idempotent-replayed": "true" } : headers,
    );
  }

  /** Nothing stands behind this: whatever it let through would end the process. */
  #refuse(error: unknown): void {
    let answer: HttpResponse;
    try {
      answer = this.#refusalFor(error);
    } catch {
      answer = failureResponse(fail("internal_error"), this.#bearer.presented);
    }
    this.#tell(answer);
  }

  #refusalFor(error: unknown): HttpResponse {
    const failure = toFailure(this.#services, this.#endpoint, this.#request, error);
    // Refused for who asks or how often: what somebody looking for an intruder looks for (security 16).
    if (SECURITY_EVENTS.has(failure.status)) {
      logRefusal(this.#services, this.#endpoint, this.#request, this.#options, failure, this.#actor);
    }
    return failureResponse(failure, this.#bearer.presented);
  }

  /** What a read showed must not be told before it is durable; that something is gone or taken is told by a refusal. */
  #tell(answer: HttpResponse): void {
    const unsynced = this.#endpoint.access === "public" ? undefined : this.#services.store.durable(); // probes touch nothing
    if (!unsynced) return this.#tellNow(answer);
    unsynced.then(
      () => this.#tellNow(answer),
      () => this.#tellNow(failureResponse(fail("unavailable", { retryAfterSeconds: 1 }), this.#bearer.presented)),
    );
  }

  /** Counted as it is told, with the wait for the disk. */
  #tellNow(answer: HttpResponse): void {
    this.#options.meter?.count(this.#endpoint, answer.status, this.#began);
    this.#told(answer);
  }
}

function originOf({ id, message }: HttpRequest, options: RunOptions): RequestSource {
  return { network: networkOf(options.addressOf(message)), request_id: id };
}

function toFailure(services: Services, endpoint: Endpoint, request: HttpRequest, error: unknown): Failure {
  if (error instanceof Failure) return error;
  const { name, message, stack } = error as Error;
  services.log.error("request failed", {
    endpoint: endpoint.name,
    ...correlation(request),
    error: `${name}: ${message}`,
    stack: stack ?? "",
  });
  return fail("internal_error");
}

const SECURITY_EVENTS: ReadonlySet<number> = new Set([401, 403, 429]);
const FOREIGN_ID_MAX = 128;

/** Our own id, and beside it what the caller calls the request: never trusted, never mixed up (decision 20). */
function correlation({ id, headers }: HttpRequest): Record<string, string | undefined> {
  const foreign = (name: string): string | undefined => headers[name]?.toString().slice(0, FOREIGN_ID_MAX);
  return { request_id: id, x_request_id: foreign("x-request-id"), traceparent: foreign("traceparent") };
}

function logRefusal(
  services: Services,
  endpoint: Endpoint,
  request: HttpRequest,
  options: RunOptions,
  { status, code, failure }: Failure,
  actor: Actor,
): void {
  services.log.info("refused", {
    endpoint: endpoint.name,
    status,
    code,
    failure,
    ...actorColumns(actor),
    ...originOf(request, options),
    ...correlation(request),
  });
}

/** What the handler gets. A class: to make an object literal with a getter cost a sixth of a request. */
class RequestContext implements Ctx {
  readonly services: Services;
  readonly actor: Actor;
  readonly replay: IdempotencyReplay | undefined;
  readonly #request: HttpRequest;
  readonly #options: RunOptions;

  constructor(
    services: Services,
    actor: Actor,
    replay: IdempotencyReplay | undefined,
    request: HttpRequest,
    options: RunOptions,
  ) {
    this.services = services;
    this.actor = actor;
    this.replay = replay;
    this.#request = request;
    this.#options = options;
  }

  /** Few operations ask where a request came from; hot ones never do. */
  get from(): RequestSource {
    return originOf(this.#request, this.#options);
  }
}

/** Minting is never a browser's call (decision 83); an embed token works only where it was meant to (82, 160). */
function checkOrigin(endpoint: Endpoint, actor: Actor, origin: string | undefined): void {
  if (endpoint.backendOnly && origin !== undefined) throw fail("origin_not_allowed");
  if (actor.kind === "embed_token") requireOrigin(actor, origin);
}

/** A cap per credential, off unless set (decision 175); the browser-reachable plane always has one (164). */
function throttle(services: Services, actor: Actor, endpoint: Endpoint): void {
  if (actor.kind === "embed_token") {
    services.throttles.take(EMBED_DOOR, actor.tenant_id);
    if (endpoint.method !== "GET") services.throttles.take(EMBED_WRITES, actor.tenant_id);
  }
  const limit = services.settings.vendor_per_minute;
  if (limit === 0 || (actor.kind !== "secret_key" && actor.kind !== "session")) return;
  services.throttles.take({ name: "vendor", limit, windowMs: MINUTE_MS }, actor.id);
}
