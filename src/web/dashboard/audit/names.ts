// The names of the records that audit rows are about, and of the secret keys that acted. One request for each type that
// occurs; what was deleted has no name.
import { keyTitle, tenantLabel, useKeys, usePlans, useProjects, useSecretKeys, useTenants } from "../api/records.ts";
import type { AuditRow, Names } from "./words.tsx";

/** The ids of targets of this type. */
const targets = (rows: readonly AuditRow[], type: string): string[] =>
  rows.flatMap(({ target_type, target_id }) => (target_type === type && target_id ? [target_id] : []));

/** `isNeeded`: false names the secret keys only. */
export function useNames(rows: readonly AuditRow[], isNeeded = true): Names {
  const keys = useKeys(targets(rows, "api_key"), { isNeeded });
  const tenants = useTenants(targets(rows, "tenant"), { isNeeded });
  const hasTarget = (type: string): boolean => rows.some(({ target_type }) => target_type === type);
  const projects = useProjects(isNeeded && hasTarget("project"));
  const plans = usePlans(isNeeded && hasTarget("plan"));
  const needsSecretKeys = hasTarget("secret_key") || rows.some(({ actor_type }) => actor_type === "secret_key");
  const secretKeys = useSecretKeys({ isNeeded: needsSecretKeys }) ?? [];
  return new Map([
    ...[...keys.values(), ...secretKeys].map((key) => [key.id, keyTitle(key)] as const),
    ...[...projects, ...plans].map(({ id, name }) => [id, name] as const),
    ...[...tenants].map(([id, tenant]) => [id, tenantLabel(tenant)] as const),
  ]);
}
