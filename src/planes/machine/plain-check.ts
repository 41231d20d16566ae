// The body of a rate-limit check as nearly every caller sends it, looked at by hand: the general validator costs more than
// the check itself. What is not plainly right is left to the schema, which also says what is wrong with it.
import { isUuid } from "../../kernel/ids.ts";
import {
  LIMIT_MAX,
  RATE_LIMITS_MAX,
  RULE_ID,
  WINDOW_MS_MAX,
  WINDOW_MS_MIN,
  type RateLimit,
} from "../../kernel/limits.ts";

export const UNITS_MAX = 1_000;

export type PlainCheck = {
  project_id: string;
  env: "live" | "test";
  key_id: string | null;
  tenant_id: string | null;
  limits: RateLimit[];
  cost: number;
};

const FIELDS: ReadonlySet<string> = new Set(["project_id", "env", "key_id", "tenant_id", "limits", "cost"]);
const RULE_FIELDS: ReadonlySet<string> = new Set(["id", "limit", "window_ms", "algorithm", "scope"]);

/** What the schema would make of it, or undefined where the schema must look. */
export function plainCheck(value: unknown): PlainCheck | undefined {
  if (!isObjectOf(FIELDS, value)) return undefined;
  const { project_id, env, key_id = null, tenant_id = null, limits, cost = 1 } = value;
  return isUuid(project_id) &&
    (env === "live" || env === "test") &&
    (key_id === null || isUuid(key_id)) &&
    (tenant_id === null || isUuid(tenant_id)) &&
    areRules(limits) &&
    isWhole(cost, 0, UNITS_MAX)
    ? { project_id, env, key_id, tenant_id, limits, cost }
    : undefined;
}

function areRules(value: unknown): value is RateLimit[] {
  if (!Array.isArray(value) || value.length < 1 || value.length > RATE_LIMITS_MAX) return false;
  for (let i = 0; i < value.length; i++) {
    if (!isRule(value[i])) return false;
    for (let before = 0; before < i; before++) if (value[before].id === value[i].id) return false;
  }
  return true;
}

function isRule(value: unknown): value is RateLimit {
  if (!isObjectOf(RULE_FIELDS, value)) return false;
  const { id, limit, window_ms, algorithm, scope } = value;
  return (
    typeof id === "string" &&
    RULE_ID.test(id) &&
    isWhole(limit, 1, LIMIT_MAX) &&
    isWhole(window_ms, WINDOW_MS_MIN, WINDOW_MS_MAX) &&
    (algorithm === "sliding" || algorithm === "fixed") &&
    (scope === "key" || scope === "tenant")
  );
}

function isWhole(value: unknown, min: number, max: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= min && value <= max;
}

function isObjectOf(fields: ReadonlySet<string>, value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  for (const name in value) if (!fields.has(name)) return false;
  return true;
}
