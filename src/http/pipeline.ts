// The request pipeline behind both lanes: credential, role, origin and scope, throttles, size, media type, validation,
// handler, durability, response. The order is contract: docs/design/0014-request-pipeline-order.md.
import { ANONYMOUS, ownerOf, type Actor } from "../domain/core/actor.ts";
import type { RequestSource, Services } from "../domain/core/context.ts";
import { JsonText } from "../domain/core/list.ts";
import type { RawBody } from "../domain/ingest/raw-body.ts";
import { resolveBearer, resolveCached } from "../domain/auth/credentials.ts";
import { resolveHolder } from "../domain/auth/holders.ts";
import { requireScope } from "../domain/embed/rules.ts";
import type { IdempotencyReplay } from "../domain/idempotency/replays.ts";
import type { Release } from "../fairness/reservations.ts";
import { fail, Failure } from "../kernel/errors.ts";
import { access, checkOrigin, isHolderPlane, refusal, workspaceRefusal } from "./access.ts";
import { networkOf, type ClientAddresses } from "./address.ts";
import { BodyRoom, type BodyRoomOptions } from "./body/body-room.ts";
import { checkMedia, readBody, requireJson, reservedBytes, type TakeBody } from "./body/body.ts";
import { LAST_VALID, type TrackedSocket } from "./connections.ts";
import { withCors } from "./cors.ts";
import type { Endpoint } from "./endpoint.ts";
import { replayOf, runOnce } from "./idempotency-key.ts";
import { bodyOf, paramsOf, queryOf } from "./input.ts";
import type { RequestMetrics } from "./metrics.ts";
import { bearerOf, chargedTo, RequestContext, type Admission, type Bearer, type HttpRequest } from "./request.ts";
import { attribute } from "./receiving/pipelining.ts";
import { logRefusal, toFailure } from "./request-log.ts";
import { throttleActor, throttleNetwork } from "./request-throttles.ts";
import {
  discardResponse,
  failureResponse,
  HttpResponse,
  jsonTextResponse,
  respondLater,
  type Respond,
} from "./response.ts";

export type RunOptions = BodyRoomOptions &
  ClientAddresses & {
    /** Checks every response against its schema: on in tests, off in production. */
    checkOutput: boolean;
    /** Counts requests for /metrics, if that is on. */
    metrics?: RequestMetrics | undefined;
  };

type Refuse = (error: unknown) => void;

/** How often a request starts over because its credential changed while it waited. */
const STARTS_OVER_MAX = 3;

/**
 * Runs in a turn of the request's owner, which is measured until this returns (fairness/turns.ts). So the steps up to
 * the handler are synchronous unless one has to wait: no `await` may be inserted between them. A handler
 * that awaits a read ends the turn: its response is not measured.
 */
export function run(
  services: Services,
  endpoint: Endpoint,
  request: HttpRequest,
  options: RunOptions,
  respond: Respond,
): void {
  const { cors } = endpoint;
  const send: Respond = cors
    ? (response) => respondLater(withCors(services, cors, request, response), respond)
    : respond;
  new Run(services, endpoint, request, options, send).start();
}

class Run implements Admission {
  readonly #services: Services;
  readonly #endpoint: Endpoint;
  readonly #request: HttpRequest;
  readonly #options: RunOptions;
  readonly #send: Respond;
  readonly #bearer: Bearer;
  readonly #startedAt: number;
  #replay: IdempotencyReplay | undefined;
  #startsOver = 0;
  /** Set while a large response is built. */
  #endBuilding: Release | undefined;
  #bodyRoom: BodyRoom | undefined;

  constructor(services: Services, endpoint: Endpoint, request: HttpRequest, options: RunOptions, send: Respond) {
    this.#services = services;
    this.#endpoint = endpoint;
    this.#request = request;
    this.#options = options;
    this.#send = send;
    this.#bearer = bearerOf(request);
    this.#startedAt = options.metrics ? performance.now() : 0;
  }

  start(): void {
    this.#step(() => {
      throttleNetwork(this.#services, this.#endpoint, this.#bearer.token, () => this.origin().network);
      this.#then(this.#authenticate(), (actor) => this.#authorize(actor));
    });
  }

  /** Anything thrown becomes the refusal. */
  #step(work: () => void, refuse: Refuse = (error) => this.#refuse(error)): void {
    try {
      work();
    } catch (error) {
      refuse(error);
    }
  }

  /** Continues synchronously if the value is not a promise. */
  #then<T>(value: T | Promise<T>, next: (value: T) => void, refuse: Refuse = (error) => this.#refuse(error)): void {
    if (!(value instanceof Promise)) return next(value);
    value.then((settled) => this.#step(() => next(settled), refuse), refuse);
  }

  #authenticate(): Actor | Promise<Actor> {
    const { access: rule } = this.#endpoint;
    const { token } = this.#bearer;
    if (access[rule].open) return ANONYMOUS;
    if (token === null) throw fail(this.#bearer.presented ? "unusable_credential" : "unauthenticated");
    const retryable = this.#endpoint.idempotent && "idempotency-key" in this.#request.headers;
    if (isHolderPlane(rule)) {
      const client = this.#options.clientOf(this.#request);
      const holder = resolveHolder(this.#services, token, client, { ending: rule === "holder.revoke", retryable });
      if (holder) return holder;
    }
    // Only the machine plane uses the credential cache: minting an embed token must see a revocation at once.
    if (rule === "machine.use") return resolveCached(this.#services, token, this.#bearer.hash);
    return resolveBearer(this.#services, token, retryable && this.#endpoint.endsOwnKey);
  }

  /** Kind of credential, role, origin and scope. */
  #admit(actor: Actor): void {
    this.#request.actor = actor;
    if (actor.kind !== "anonymous") markValid(this.#request.socket, actor);
    const endpoint = this.#endpoint;
    const row = access[endpoint.access];
    const refused = workspaceRefusal(row, actor, this.#request.headers["keyrack-workspace"]) ?? refusal(row, actor);
    if (refused) throw refused;
    checkOrigin(endpoint, actor, this.#request.headers.origin);
    if (endpoint.scope && actor.kind === "embed_token") requireScope(actor, endpoint.scope);
  }

  /** Checks the credential as for a new request: it may have ended, or lost rights, while this one waited. */
  admitAgain(): void | Promise<void> {
    const { kind } = this.#request.actor;
    const refused = (error: unknown): never => {
      if (error instanceof Failure && error.status < 500) this.#options.metrics?.countLateRefusal(kind);
      throw error;
    };
    try {
      const actor = this.#authenticate();
      if (actor instanceof Promise) return actor.then((found) => this.#admit(found)).catch(refused);
      return this.#admit(actor);
    } catch (error) {
      return refused(error);
    }
  }

  #authorize(actor: Actor): void {
    this.#admit(actor);
    const endpoint = this.#endpoint;
    throttleActor(this.#services, actor, endpoint);
    if (endpoint.perNetwork) this.#services.throttles.takeOfNetwork(endpoint.perNetwork, this.origin().network);
    if (endpoint.stores) this.#services.writtenBytes.requireRoom(ownerOf(actor));
    if (!endpoint.body) this.#request.body.discard(); // or it would be kept as long as the request waits
    if (endpoint.hasLargeResponse) return this.#buildLargeResponse();
    if (!endpoint.body || endpoint.rawBody) return this.#handle(undefined);
    this.#read(
      (bytes) => this.#step(() => this.#handle(bytes)),
      (failure) => this.#refuse(failure),
    );
  }

  /** Lists are large: the owner builds few at a time, and none while its clients do not read. */
  #buildLargeResponse(): void {
    const owner = chargedTo(this.#request, this.#options.addressOf);
    const begun = this.#services.largeResponses.beginBuilding(owner);
    this.#then(begun, (endBuilding) => {
      this.#endBuilding = endBuilding;
      this.#then(begun instanceof Promise ? this.admitAgain() : undefined, () => this.#handle(undefined));
    });
  }

  #read(take: TakeBody, refuse: Refuse): void {
    const { headers } = this.#request;
    const { bodyLimits } = this.#endpoint;
    checkMedia(headers, bodyLimits.bytes);
    const bytes = reservedBytes(headers, bodyLimits.bytes);
    this.#bodyRoom = new BodyRoom(this.#services.bodies, this.#request, this.#options);
    const admitted: TakeBody = (all, cuts) =>
      this.#step(() => this.#then(this.admitAgain(), () => take(requireJson(headers, all), cuts), refuse), refuse);
    if (bytes === 0) return this.#readSmall(take, admitted, refuse);
    const reserved = this.#bodyRoom.reserve(bytes);
    const [taken, refused] = this.#bodyRoom.wrapInTurn(admitted, refuse); // until its turn the credential may end
    this.#then(reserved, () => readBody(this.#request.body, bodyLimits, taken, refused, this.#bodyRoom), refuse);
  }

  /** If the connection has read more since the headers, the credential may have ended. bench: ratelimit/check */
  #readSmall(take: TakeBody, admitted: TakeBody, refuse: Refuse): void {
    const { body, socket } = this.#request;
    const { bytesRead } = socket;
    const arrived: TakeBody = (bytes, cuts) =>
      socket.bytesRead === bytesRead ? take(bytes, cuts) : admitted(bytes, cuts);
    readBody(body, this.#endpoint.bodyLimits, arrived, refuse, this.#bodyRoom);
  }

  #readRaw(): Promise<RawBody> {
    return new Promise((resolve, reject) =>
      this.#read((bytes, cuts) => resolve(this.#bodyRoom?.rawBody(bytes, cuts) ?? { bytes }), reject),
    );
  }

  #handle(bytes: Buffer | undefined): void {
    const endpoint = this.#endpoint;
    const request = this.#request;
    const services = this.#services;
    const params = endpoint.params && paramsOf(endpoint.params, request.params);
    const query = queryOf(endpoint, request.search);
    const body = bytes && bodyOf(endpoint, bytes);
    const credential = { token: this.#bearer.token, actor: this.#request.actor };
    const replay = endpoint.idempotent ? replayOf(endpoint, request, credential, bytes) : undefined;
    this.#replay = replay;
    const ctx = new RequestContext(services, this.#request.actor, replay, this, request);
    const input = { params, query, body, request, raw: () => this.#readRaw() };
    const result = replay ? runOnce(services, replay, () => endpoint.handle(ctx, input)) : endpoint.handle(ctx, input);
    this.#then(
      result,
      (value) => {
        const response = this.#toResponse(value);
        if (endpoint.showsNothingStored(body)) this.#respondNow(response);
        else this.#respond(response);
      },
      (error) => this.#startOverOrRefuse(error, bytes),
    );
  }

  /** A write that finds its credential changed does nothing: the request starts over with the current credential. */
  #startOverOrRefuse(error: unknown, bytes: Buffer | undefined): void {
    const changed = error instanceof Failure && error.failure === "credential_changed";
    if (!changed || this.#startsOver++ === STARTS_OVER_MAX) return this.#refuse(error);
    this.#step(() => this.#then(this.admitAgain(), () => this.#handle(bytes)));
  }

  #toResponse(value: unknown): HttpResponse {
    if (value instanceof HttpResponse) return value;
    const { output, headers, status } = this.#endpoint;
    const isReplay = this.#replay?.replayed === true; // as it was, also by an earlier release
    const isText = value instanceof JsonText;
    if (this.#options.checkOutput && !isReplay) output.parse(isText ? value.parse() : value);
    const replayed = isReplay ? { ...headers, "idempotent-replayed": "true" } : headers;
    return jsonTextResponse(status, isText ? value.body : JSON.stringify(value), replayed);
  }

  /** Must not throw: nothing above catches it. */
  #refuse(error: unknown): void {
    let response: HttpResponse;
    try {
      const failure = toFailure(this.#services, this.#endpoint, this.#request, error);
      logRefusal(this.#services, this.#endpoint, this.#request, failure, () => this.origin());
      response = failureResponse(failure, this.#bearer);
    } catch {
      response = failureResponse(fail("internal_error"), this.#bearer);
    }
    this.#respond(response);
  }

  /** Waits until what was read is durable; also for refusals, as a 404 or 409 reveals data too. */
  #respond(response: HttpResponse): void {
    const unsynced = this.#endpoint.access === "public" ? undefined : this.#services.store.durable(); // no data there
    if (!unsynced) return this.#respondNow(response);
    unsynced.then(
      () => this.#respondNow(response),
      () => {
        discardResponse(response);
        this.#respondNow(failureResponse(fail("unavailable"), this.#bearer));
      },
    );
  }

  /** Measured here, so that the time includes the wait for durability. */
  #respondNow(response: HttpResponse): void {
    this.#options.metrics?.count(this.#endpoint, response.status, this.#startedAt);
    this.#send(response);
    this.#endBuilding?.();
    this.#bodyRoom?.release();
  }

  get token(): string | null {
    return this.#bearer.token;
  }

  origin(): RequestSource {
    return { network: networkOf(this.#options.addressOf(this.#request)), request_id: this.#request.id };
  }
}

/** Connections with a valid credential are evicted last, and use the turns of its owner. */
function markValid(socket: TrackedSocket, actor: Actor): void {
  socket[LAST_VALID] = performance.now();
  attribute(socket, actor);
}
