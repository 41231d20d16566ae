// Calls to our own API, typed by its declarations. A session is held by whoever logged in, in memory: no cookie, no
// storage, and it is ended as soon as its page is done or gone.
import type { Route, RouteInput, RouteOutput } from "../../client.ts";

/** The server answered and refused, or did not answer at all (status 0). */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: readonly { path: string; message: string }[];
  readonly retryAfterSeconds: number;

  constructor(status: number, error: Partial<Refused> = {}, retryAfterSeconds = 0) {
    super(error.message ?? "");
    this.status = status;
    this.code = error.code ?? "";
    this.details = error.details ?? [];
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

type Sent = { body?: unknown };

export async function call<R extends Route>(
  route: R,
  input: RouteInput<R>,
  session?: Session,
): Promise<RouteOutput<R>> {
  const [method = "GET", path = "/"] = route.split(" ");
  const { body } = input as Sent;
  let response: Response;
  try {
    // Relative, so that a proxy may serve the whole under a path of its own.
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
    throw new Refused(0);
  }
  const answer = (await response.json().catch(() => ({}))) as { error?: Partial<Refused> };
  if (!response.ok)
    throw new Refused(response.status, answer.error, Number(response.headers.get("retry-after") ?? 0) || 0);
  return answer as RouteOutput<R>;
}

export class Session {
  readonly token: string;
  readonly user: RouteOutput<"POST /v1/auth/sessions">["user"];
  #live = true;

  private constructor({ token, user }: RouteOutput<"POST /v1/auth/sessions">) {
    this.token = token;
    this.user = user;
    addEventListener("pagehide", () => void this.end(), { once: true });
  }

  static async open(email: string, password: string): Promise<Session> {
    return new Session(await call("POST /v1/auth/sessions", { body: { email, password } }));
  }

  /** Logs out. Nothing is lost when it cannot: the session ends by itself. */
  async end(): Promise<void> {
    if (!this.#live) return;
    this.#live = false;
    await call("DELETE /v1/auth/sessions/current", {}, this).catch(() => {});
  }
}
