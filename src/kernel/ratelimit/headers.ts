// The header fields RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-11).

/** One counter after the request. */
export type RateLimitState = {
  readonly id: string;
  readonly limit: number;
  /** 0 if the limit has no window. */
  readonly windowMs: number;
  readonly remaining: number;
  /** Milliseconds until more units are available. */
  readonly resetMs: number;
};

/**
 * Ids contain only a-z, 0-9, dot, hyphen and underscore (rules are validated when loaded), so quoting them is enough.
 */
export function rateLimitHeaders(states: readonly RateLimitState[]): Record<string, string> {
  if (states.length === 0) return {};
  const seconds = (ms: number) => Math.ceil(ms / 1000);
  const policies = states.map(({ id, limit, windowMs }) => {
    return `"${id}";q=${limit}${windowMs > 0 ? `;w=${seconds(windowMs)}` : ""}`;
  });
  const left = states.map(({ id, windowMs, remaining, resetMs }) => {
    return `"${id}";r=${remaining}${windowMs > 0 || resetMs > 0 ? `;t=${seconds(resetMs)}` : ""}`;
  });
  return { "ratelimit-policy": policies.join(", "), ratelimit: left.join(", ") };
}
