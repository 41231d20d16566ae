// Fast path of a rate-limit check: accepts the body that most callers send. Validating it in the general way costs more
// than the check itself. bench: ratelimit/check
import { hasOnly } from "../../http/fast/fast-path.ts";
import { isPlainObject } from "../../kernel/objects.ts";
import { isUuid } from "../../kernel/ids.ts";
import {
  LIMIT_MAX,
  RATE_LIMITS_MAX,
  RULE_ID,
  WINDOW_MS_MAX,
  WINDOW_MS_MIN,
  type RateLimit,
} from "../../kernel/ratelimit/rule.ts";

export const UNITS_MAX = 1_000;
export const OWED_MAX = 1_000_000;

type CheckBody = {
  project_id: string;
  env: "live" | "test";
  key_id: string | null;
  tenant_id: string | null;
  limits: RateLimit[];
  cost: number;
  quotas: boolean;
  owed: number;
  owed_id: string | null;
};

export function fastParseCheck(value: unknown): CheckBody | undefined {
  if (!isPlainObject(value)) return undefined;
  const { project_id, env, key_id, tenant_id, limits, cost, quotas } = value;
  return hasOnly(value, project_id, env, key_id, tenant_id, limits, cost, quotas) &&
    isUuid(project_id) &&
    (env === "live" || env === "test") &&
    isOptionalId(key_id) &&
    isOptionalId(tenant_id) &&
    areRules(limits) &&
    (cost === undefined || isIntegerIn(cost, 0, UNITS_MAX)) &&
    (quotas === undefined || typeof quotas === "boolean")
    ? {
        project_id,
        env,
        key_id: key_id ?? null,
        tenant_id: tenant_id ?? null,
        limits,
        cost: cost ?? 1,
        quotas: quotas ?? false,
        owed: 0,
        owed_id: null,
      }
    : undefined;
}

function isOptionalId(value: unknown): value is string | null | undefined {
  return value === null || value === undefined || isUuid(value);
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
  if (!isPlainObject(value)) return false;
  const { id, limit, window_ms, algorithm, scope } = value;
  return (
    hasOnly(value, id, limit, window_ms, algorithm, scope) &&
    typeof id === "string" &&
    RULE_ID.test(id) &&
    isIntegerIn(limit, 1, LIMIT_MAX) &&
    isIntegerIn(window_ms, WINDOW_MS_MIN, WINDOW_MS_MAX) &&
    (algorithm === "sliding" || algorithm === "fixed") &&
    (scope === "key" || scope === "tenant")
  );
}

function isIntegerIn(value: unknown, min: number, max: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= min && value <= max;
}
