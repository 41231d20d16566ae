// Turns API errors into messages for people.
import type { ApiError } from "./api.ts";

function formatWait(seconds: number): string {
  if (seconds <= 90) return `${Math.max(1, Math.ceil(seconds))} ${seconds <= 1 ? "second" : "seconds"}`;
  const minutes = Math.ceil(seconds / 60);
  return minutes <= 90 ? `${minutes} minutes` : `${Math.ceil(minutes / 60)} hours`;
}

/** A field's label and the API's message: "Password" + "must have at least 12 characters". */
export function fieldMessage(label: string, message: string): string {
  return `${label} ${message.replace(/\.$/, "")}.`;
}

export function errorMessage({ status, code, message, retryAfterSeconds }: ApiError): string {
  const wait = retryAfterSeconds > 0 ? ` Try again in ${formatWait(retryAfterSeconds)}.` : "";
  if (status === 0) return "Cannot reach the server. Check your connection and try again.";
  if (code === "invalid_credentials") return "Wrong email address or password.";
  // A locked account says how to unlock it; waiting would not help.
  if (status === 429) return /reset/i.test(message) ? message : `Too many attempts.${wait}`;
  if (status === 503) return `The server is busy.${wait || " Try again in a moment."}`;
  if (status >= 500) return "Something went wrong on the server. Try again in a moment.";
  return message;
}
