// What went wrong with Redis, in one word. On its own, so that asking does not load ioredis.

/** Why Redis did not answer; all that /healthz tells of it. */
export type RedisError = "timeout" | "refused" | "auth" | "unreachable" | "readonly" | "loading" | "full" | "error";

const signs: readonly (readonly [RegExp, RedisError])[] = [
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

/** The class of a failure. Messages of Redis and of sockets hold addresses and names, so they never leave this file. */
export function classifyRedisError(error: unknown): RedisError {
  // A cluster that nobody answers for says so, and keeps the reason in here.
  if (error instanceof Error && "lastNodeError" in error && error.lastNodeError)
    return classifyRedisError(error.lastNodeError);
  const text = error instanceof Error ? `${error.message} ${"code" in error ? String(error.code) : ""}` : String(error);
  return signs.find(([sign]) => sign.test(text))?.[1] ?? "error";
}
