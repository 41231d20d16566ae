// A rate-limit rule: the same shape on the wire, on keys, on projects and in the policy feed.
import { DAY_MS } from "../durations.ts";

export type RateLimit = {
  id: string;
  limit: number;
  window_ms: number;
  algorithm: "sliding" | "fixed";
  scope: "key" | "tenant";
};

export const RULE_ID = /^[a-z0-9][a-z0-9._-]{0,63}$/;
export const RATE_LIMITS_MAX = 8;
export const LIMIT_MAX = 1_000_000_000;
export const WINDOW_MS_MIN = 1_000;
export const WINDOW_MS_MAX = 31 * DAY_MS;
