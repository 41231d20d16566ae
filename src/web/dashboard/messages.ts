// Refusals in plain words. What the API says about a field stands next to that field; the rest is said here once.
import type { Refused } from "./api.ts";

export function waitInWords(seconds: number): string {
  if (seconds <= 90) return `${Math.max(1, Math.ceil(seconds))} ${seconds <= 1 ? "second" : "seconds"}`;
  const minutes = Math.ceil(seconds / 60);
  return minutes <= 90 ? `${minutes} minutes` : `${Math.ceil(minutes / 60)} hours`;
}

/** "Password" + "must have at least 12 characters". */
export function fieldProblem(label: string, message: string): string {
  return `${label} ${message.replace(/\.$/, "")}.`;
}

export function refusalInWords({ status, code, message, retryAfterSeconds }: Refused): string {
  const wait = retryAfterSeconds > 0 ? ` Try again in ${waitInWords(retryAfterSeconds)}.` : "";
  if (status === 0) return "The server cannot be reached. Check your connection and try again.";
  if (code === "invalid_credentials") return "The e-mail address or the password is not right.";
  if (status === 429) return /log-ins/.test(message) ? message : `There were too many tries.${wait}`;
  if (status === 503) return `The server is busy right now.${wait || " Try again in a moment."}`;
  if (status >= 500) return "Something went wrong on the server. Try again in a moment.";
  return message;
}
