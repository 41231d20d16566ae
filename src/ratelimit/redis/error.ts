// Classifies Redis failures. A file of its own, so that using it does not load ioredis.
import { isCertificateError } from "../../kernel/network/certificate-errors.ts";

/** Why Redis did not respond; /healthz reports this and nothing more. */
export type RedisError =
  | "timeout"
  | "refused"
  | "auth"
  | "tls"
  | "unreachable"
  | "readonly"
  | "loading"
  | "full"
  | "error";

const signs: readonly (readonly [RegExp, RedisError])[] = [
  [/EPROTO|SSL routines/, "tls"],
  [/timed? ?out|ETIMEDOUT/i, "timeout"],
  [/ECONNREFUSED/, "refused"],
  [/NOAUTH|WRONGPASS|NOPERM|invalid password/i, "auth"],
  [/READONLY/, "readonly"],
  [/LOADING|MASTERDOWN|CLUSTERDOWN/, "loading"],
  [/^OOM|MISCONF/, "full"],
  [
    /ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ECONNRESET|EPIPE|closed|writeable|None of startup nodes/i,
    "unreachable",
  ],
];

/** Messages of Redis and of sockets contain addresses and names, so only their class leaves this file. */
export function classifyRedisError(error: unknown): RedisError {
  // A cluster that cannot be reached keeps the reason in here.
  if (error instanceof Error && "lastNodeError" in error && error.lastNodeError)
    return classifyRedisError(error.lastNodeError);
  if (isCertificateError(error)) return "tls";
  const text = error instanceof Error ? `${error.message} ${"code" in error ? String(error.code) : ""}` : String(error);
  return signs.find(([sign]) => sign.test(text))?.[1] ?? "error";
}
