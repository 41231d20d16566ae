// Refused requests, and their messages for people.
import { formatWait } from "../../shared/format.ts";

export type Detail = { path: string; message: string };
export type ProblemFields = { code?: string; message?: string; details?: readonly Detail[] };

/** A refused request, or no response at all (status 0). */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: readonly Detail[];
  readonly retryAfterSeconds: number;
  readonly requestId: string | null;

  constructor(status: number, fields: ProblemFields = {}, headers = new Headers()) {
    super(fields.message ?? "");
    this.status = status;
    this.code = fields.code ?? "";
    this.details = fields.details ?? [];
    this.retryAfterSeconds = Number(headers.get("retry-after")) || 0;
    this.requestId = headers.get("request-id");
  }
}

/** Found by the page itself, and shown like a refusal of the server. */
export const fieldProblem = (path: string, message: string): Problem =>
  new Problem(400, { code: "invalid_request", details: [{ path, message }] });

/** Any error as a problem; one of our own bugs reads like a failure of the server. */
export const toProblem = (error: unknown): Problem => (error instanceof Problem ? error : new Problem(500));

/** A field's label and a message: "Password" + "must have at least 12 characters", "Scopes" + ": a is listed twice". */
export function fieldMessage(label: string, message: string): string {
  return `${label}${message.startsWith(":") ? "" : " "}${message.replace(/\.$/, "")}.`;
}

/** What happened, without what to do next. */
export function problemText({ status, code, message }: Problem): string {
  if (status === 0) return "Cannot reach the server. Check your connection and try again.";
  // With 403 it is about the current password of a person who is logged in.
  if (code === "invalid_credentials" && status === 401) return "Wrong email address or password.";
  if (code === "idempotency_mismatch")
    return "The first attempt may have succeeded. Close this dialog and look at the list before you try again.";
  if (status === 429) return message || "Too many requests.";
  if (status === 503) return "The server is busy.";
  if (status === 504) return ["The server did not answer in time.", message].filter(Boolean).join(" ");
  return status >= 500 ? "Something went wrong on the server." : message;
}

/** Also when to try again, and the request's id if the server's log has to explain it. */
export function problemMessage(problem: Problem): string {
  const { status, message, retryAfterSeconds, requestId } = problem;
  const needsReset = message.includes("Reset the password"); // a locked account: waiting would not help
  const wait = retryAfterSeconds > 0 && !needsReset ? `Try again in ${formatWait(retryAfterSeconds)}.` : "";
  const isFailure = status >= 500;
  const next = wait || (isFailure ? "Try again in a moment." : "");
  const id = isFailure && requestId !== null ? `Request id ${requestId}.` : "";
  return [problemText(problem), status === 429 || isFailure ? next : "", id].filter(Boolean).join(" ");
}

/** The API does not distinguish used, expired and forged one-time tokens. */
export function isInvalidToken({ code, details }: Problem): boolean {
  return code === "invalid_token" || details.some(({ path }) => path === "token");
}
