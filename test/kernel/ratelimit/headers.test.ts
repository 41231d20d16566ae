// The RateLimit header fields of server and library.
import { expect, it } from "vitest";
import { rateLimitHeaders } from "../../../src/kernel/ratelimit/headers.ts";

it("formats the header fields of draft 11: names quoted, seconds rounded up", () => {
  const states = [
    { id: "burst", limit: 10, windowMs: 1500, remaining: 3, resetMs: 1 },
    { id: "per-day", limit: 1_000_000_000, windowMs: 86_400_000, remaining: 0, resetMs: 0 },
  ];
  expect(rateLimitHeaders(states)).toEqual({
    "ratelimit-policy": '"burst";q=10;w=2, "per-day";q=1000000000;w=86400',
    ratelimit: '"burst";r=3;t=1, "per-day";r=0;t=0',
  });
  expect(rateLimitHeaders([])).toEqual({});
});
