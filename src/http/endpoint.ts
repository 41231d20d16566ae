// The declaration of an endpoint. Router, validation, OpenAPI, the docs table, the CLI and the typed client read it.
import type { z } from "zod";
import { ENDING_ACTIONS, type Action } from "../domain/core/events.ts";
import type { Ctx } from "../domain/core/context.ts";
import type { JsonText } from "../domain/core/list.ts";
import type { RawBody } from "../domain/ingest/raw-body.ts";
import type { Throttle } from "../domain/limits/throttles.ts";
import type { FailureName } from "../kernel/errors.ts";
import type { AccessName, ActorOf } from "./access.ts";
import type { EmbedScope } from "../domain/embed/rules.ts";
import type { BodyLimits } from "./body/body.ts";
import type { Cors } from "./cors.ts";
import type { HttpRequest } from "./request.ts";
import type { HttpResponse } from "./response.ts";

type Method = "GET" | "POST" | "PATCH" | "DELETE";

export type Schema = z.ZodType;
type In<S> = S extends Schema ? z.output<S> : undefined;

type Input<P, Q, B> = {
  params: In<P>;
  query: In<Q>;
  body: In<B>;
  request: HttpRequest;
  /** The body, within `bodyMax` and of type JSON; only if `rawBody` is declared. */
  raw: () => Promise<RawBody>;
};

/** A handler returns the value of its output, that as JSON, or a response of its own. */
type Result<O extends Schema> = z.input<O> | JsonText<z.input<O>> | HttpResponse;

type Declaration<N extends AccessName, P, Q, B, O extends Schema> = {
  summary: string;
  access: N;
  params?: P;
  query?: Q;
  body?: B;
  output: O;
  status?: number;
  /** For the documentation: what a 200 means if another status is the usual one. */
  replay?: string;
  /** For the documentation: it may respond 304. */
  hasEtag?: boolean;
  /** Refusals besides the common ones (validation, credentials, limits), for the documentation. */
  failures?: readonly FailureName[];
  /** Audit actions this endpoint may write. One that lists none writes no audit row. */
  emits?: readonly Action[];
  /**
   * True: stores input of the caller although it writes no audit row. False: ends something, or judges for itself
   * whether there is room.
   */
  stores?: boolean;
  /**
   * Whether a successful response shows nothing that is stored. It then does not wait until the commits of others are
   * durable; the cached credential is. bench: neighbours/check-beside-claims
   */
  showsNothingStored?: (body: In<B>) => boolean;
  /** How often one network may call it; checked before the body is read. */
  perNetwork?: Throttle;
  /** How often one environment of a workspace may call it. */
  perOwner?: Throttle;
  /** How often one API key may call it; checked before the key is looked up. */
  perHolder?: Throttle;
  /** How often one network may send a token that is not a session's. Checked before the lookup: prevents guessing. */
  tokensPerNetwork?: Throttle;
  /** Maximum body size in bytes; 256 KiB by default. */
  bodyMax?: number;
  /** Maximum number of brackets, commas and colons outside strings in the body; 20,000 by default. */
  structureMax?: number;
  /** The handler parses a long array of the body in pieces; little else may be in the body. */
  inPieces?: boolean;
  /** The operation waits for slots of its own, and must not hold one of the few for large responses while it does. */
  waitsForSlot?: boolean;
  /**
   * The handler reads the body itself with `input.raw()`, because it must check something first. `body` then only
   * documents, and `input.body` is undefined.
   */
  rawBody?: boolean;
  /** Accepts Idempotency-Key. */
  idempotent?: boolean;
  /** A retry may be sent with the secret key that the first request has ended. */
  endsOwnKey?: boolean;
  /** May change the active workspace of a session: a retry in the new one must still find the response. */
  changesWorkspace?: boolean;
  /** Unknown query parameters are ignored (health, status, JWKS). */
  looseQuery?: boolean;
  /**
   * The row of `npm run bench -- lanes` that justifies serving this endpoint by the fast lane (src/http/fast) too. Its
   * parsed queries are memoized.
   */
  hot?: string;
  /** Media types of the response, if not JSON; the handler then returns an HttpResponse. */
  produces?: readonly string[];
  headers?: Readonly<Record<string, string>>;
  /** Which pages of other origins may read the response; by default none, or those of the embed token. */
  cors?: Cors;
  /** The scope that an embed token needs. */
  scope?: EmbedScope;
  /** Refuses requests with an Origin header: not for browsers. */
  backendOnly?: boolean;
  handle(ctx: Ctx<ActorOf<N>>, input: Input<P, Q, B>): Result<O> | Promise<Result<O>>;
};

/** A declaration, whatever its schemas are. */
type AnyDeclaration = Declaration<AccessName, Schema | undefined, z.ZodObject | undefined, Schema | undefined, Schema>;

/** Defaults of a declaration. */
const DEFAULTS = {
  status: 200,
  failures: [],
  emits: [],
  showsNothingStored: () => false,
  rawBody: false,
  idempotent: false,
  looseQuery: false,
  backendOnly: false,
  endsOwnKey: false,
  changesWorkspace: false,
} satisfies Partial<AnyDeclaration>;

type Declared = Omit<AnyDeclaration, "bodyMax" | "structureMax" | "inPieces" | "waitsForSlot" | "stores" | "handle">;

export type Endpoint = Readonly<Declared & Required<Pick<Declared, keyof typeof DEFAULTS>>> & {
  readonly name: string;
  readonly method: Method;
  readonly path: string;
  /**
   * Uses disk space, so it is refused to an owner that has used up its share. What only ends something is never
   * refused.
   */
  readonly stores: boolean;
  readonly bodyLimits: BodyLimits;
  /** Its response may be large: a page of a list. */
  readonly hasLargeResponse: boolean;
  handle(
    ctx: Ctx,
    input: { params: unknown; query: unknown; body: unknown; request: HttpRequest; raw: () => Promise<RawBody> },
  ): unknown;
};

/** An endpoint with its types, for the typed client. The types do not exist at run time. */
type TypedEndpoint<R extends string, P, Q, B, O> = Endpoint & {
  readonly _types?: { route: R; params: P; query: Q; body: B; output: O };
};

type Sent<S> = S extends Schema ? z.input<S> : undefined;

/** Every property, in one order: endpoints of one shape are read faster by the pipeline. bench: ratelimit/check */
const SHAPE: Readonly<Record<keyof Endpoint, undefined>> = {
  name: undefined,
  method: undefined,
  path: undefined,
  summary: undefined,
  access: undefined,
  params: undefined,
  query: undefined,
  body: undefined,
  output: undefined,
  status: undefined,
  replay: undefined,
  hasEtag: undefined,
  failures: undefined,
  emits: undefined,
  stores: undefined,
  showsNothingStored: undefined,
  perNetwork: undefined,
  perOwner: undefined,
  perHolder: undefined,
  tokensPerNetwork: undefined,
  rawBody: undefined,
  idempotent: undefined,
  endsOwnKey: undefined,
  changesWorkspace: undefined,
  looseQuery: undefined,
  hot: undefined,
  produces: undefined,
  headers: undefined,
  cors: undefined,
  scope: undefined,
  backendOnly: undefined,
  bodyLimits: undefined,
  hasLargeResponse: undefined,
  handle: undefined,
};

export const BODY_MAX = 256 * 1024;
/** 16 KiB of meta, the largest free-form value, has fewer. */
const STRUCTURE_MAX = 20_000;

export function endpoint<
  N extends AccessName,
  O extends Schema,
  P extends Schema | undefined = undefined,
  Q extends z.ZodObject | undefined = undefined,
  B extends Schema | undefined = undefined,
  R extends `${Method} /${string}` = `${Method} /${string}`,
>(route: R, declared: Declaration<N, P, Q, B, O>): TypedEndpoint<R, Sent<P>, Sent<Q>, Sent<B>, z.output<O>> {
  const [method, path] = route.split(" ") as [Method, string];
  const { bodyMax, structureMax, inPieces, waitsForSlot, ...given } = declared as unknown as AnyDeclaration;
  return {
    ...(SHAPE as object),
    ...DEFAULTS,
    stores: given.emits?.some((action) => !ENDING_ACTIONS.has(action)) ?? false,
    ...(given.access === "embed.use" && { cors: "embed" as const }),
    ...given,
    name: route,
    method,
    path,
    bodyLimits: {
      bytes: bodyMax ?? BODY_MAX,
      structure: structureMax ?? STRUCTURE_MAX,
      inPieces: inPieces ?? false,
    },
    hasLargeResponse: isPage(given.output) && !waitsForSlot,
  };
}

/** A page of a list says whether more rows follow. */
function isPage(output: Schema): boolean {
  const shape = ("shape" in output ? output.shape : {}) as { object?: Partial<z.ZodLiteral> };
  return shape.object?.values?.has("list") === true && ("has_more" in shape || "next_cursor" in shape);
}
