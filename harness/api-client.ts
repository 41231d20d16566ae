// A client of Keyrack's API for tests, campaigns and benchmarks, typed by the endpoints' declarations (src/client.ts).
import type { Route, RouteInput, RouteOutput } from "../src/client.ts";
import { DEADLINE_MS } from "./waiting.ts";

/** An error response of the server. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: { path: string; message: string }[];
  readonly requestId: string | null;

  constructor(status: number, body: unknown, requestId: string | null) {
    const { code, message, details } = (body as { error?: Partial<ApiError> }).error ?? {};
    super(message ?? `The server responded with status ${status}.`);
    this.name = "ApiError";
    this.status = status;
    this.code = code ?? "unknown";
    this.details = details ?? [];
    this.requestId = requestId;
  }
}

type UntypedInput = {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  idempotencyKey?: string;
};

function urlFor(base: string, path: string, { params = {}, query = {} }: UntypedInput): URL {
  const url = new URL(
    base.replace(/\/+$/, "") +
      path.replace(/\{(\w+)\}/g, (_all, name: string) => encodeURIComponent(params[name] ?? "")),
  );
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== undefined) url.searchParams.append(name, String(item));
    }
  }
  return url;
}

export type Client = {
  call<R extends Route>(route: R, input: RouteInput<R>): Promise<RouteOutput<R>>;
};

export function createClient(options: { url: string; bearer?: string }): Client {
  return {
    async call(route, input) {
      const { body, idempotencyKey } = input as UntypedInput;
      const [method = "GET", path = "/"] = route.split(" ");
      const response = await fetch(urlFor(options.url, path, input), {
        method,
        headers: {
          ...(options.bearer && { authorization: `Bearer ${options.bearer}` }),
          ...(body !== undefined && { "content-type": "application/json" }),
          ...(idempotencyKey && { "idempotency-key": idempotencyKey }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(DEADLINE_MS),
      });
      const isJson = response.headers.get("content-type")?.startsWith("application/json");
      const result: unknown = isJson ? await response.json() : await response.text();
      if (!response.ok) throw new ApiError(response.status, result, response.headers.get("request-id"));
      return result as never;
    },
  };
}
