// Calls our own API, typed by its declarations. A session is kept in memory only, without cookies or storage, and ends
// as soon as its page is done or closed.
import type { Route, RouteInput, RouteOutput } from "../../client.ts";

/** A refused request, or no response at all (status 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: readonly { path: string; message: string }[];
  readonly retryAfterSeconds: number;

  constructor(status: number, error: Partial<ApiError> = {}, retryAfterSeconds = 0) {
    super(error.message ?? "");
    this.status = status;
    this.code = error.code ?? "";
    this.details = error.details ?? [];
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

export async function call<R extends Route>(
  route: R,
  input: RouteInput<R>,
  session?: Session,
): Promise<RouteOutput<R>> {
  const [method = "GET", path = "/"] = route.split(" ");
  const { body } = input as { body?: unknown };
  let response: Response;
  try {
    // A relative URL, so that a proxy may serve Keyrack under a path.
    response = await fetch(`.${path}`, {
      method,
      headers: {
        ...(session && { authorization: `Bearer ${session.token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      credentials: "omit",
      cache: "no-store",
      keepalive: method === "DELETE",
    });
  } catch {
    throw new ApiError(0);
  }
  const parsed = (await response.json().catch(() => ({}))) as { error?: Partial<ApiError> };
  if (!response.ok)
    throw new ApiError(response.status, parsed.error, Number(response.headers.get("retry-after") ?? 0) || 0);
  return parsed as RouteOutput<R>;
}

export class Session {
  readonly token: string;
  readonly user: RouteOutput<"POST /v1/auth/sessions">["user"];
  #active = true;

  private constructor({ token, user }: RouteOutput<"POST /v1/auth/sessions">) {
    this.token = token;
    this.user = user;
    addEventListener("pagehide", () => void this.end(), { once: true });
  }

  static async open(email: string, password: string): Promise<Session> {
    return new Session(await call("POST /v1/auth/sessions", { body: { email, password } }));
  }

  /** Logs out. A failure is ignored: the session expires on the server. */
  async end(): Promise<void> {
    if (!this.#active) return;
    this.#active = false;
    await call("DELETE /v1/auth/sessions/current", {}, this).catch(() => {});
  }
}
