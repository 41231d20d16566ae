// Fast path for the body of a new key: accepts what most callers send. bench: vendor/mint
import { hasOnly, isPlainText } from "../../http/fast/fast-path.ts";
import { isPlainObject } from "../../kernel/objects.ts";
import { isUuid } from "../../kernel/ids.ts";
import { NAME_MAX, SCOPE_MAX, SCOPES_MAX } from "../schemas.ts";

type NewKeyBody = {
  project_id: string;
  tenant_id: string;
  env: "live" | "test";
  name?: string;
  scopes?: string[];
  meta?: Record<string, string | number | boolean | null>;
};

/** Low enough that the size of meta need not be measured. */
const META_KEYS = 20;
const META_TEXT = 200;

export function fastParseNewKey(value: unknown): NewKeyBody | undefined {
  if (!isPlainObject(value)) return undefined;
  const { project_id, tenant_id, env, name, scopes, meta } = value;
  return hasOnly(value, project_id, tenant_id, env, name, scopes, meta) &&
    isUuid(project_id) &&
    isUuid(tenant_id) &&
    (env === "live" || env === "test") &&
    (name === undefined || isPlainText(name, NAME_MAX)) &&
    (scopes === undefined || areScopes(scopes)) &&
    (meta === undefined || isFlatMeta(meta))
    ? (value as NewKeyBody)
    : undefined;
}

function areScopes(value: unknown): value is string[] {
  return Array.isArray(value) && value.length <= SCOPES_MAX && value.every((scope) => isPlainText(scope, SCOPE_MAX));
}

function isFlatMeta(value: unknown): value is NonNullable<NewKeyBody["meta"]> {
  if (!isPlainObject(value)) return false;
  let keys = 0;
  for (const name in value) {
    if (++keys > META_KEYS || !isPlainText(name, META_TEXT) || name === "__proto__") return false;
    if (!isFlat(value[name])) return false;
  }
  return true;
}

function isFlat(value: unknown): boolean {
  return value === null || typeof value === "boolean" || Number.isSafeInteger(value) || isPlainText(value, META_TEXT);
}
