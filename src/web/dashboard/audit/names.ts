// The names of the records that audit rows are about, and of the secret keys that acted. One request for each type that
// occurs; what was deleted has no name.
import { call } from "../api/call.ts";
import { useQuery } from "../api/query.ts";
import { tenantLabel, useKeys, useProjects, useTenants } from "../api/records.ts";
import { keyTitle } from "../keys/state.ts";
import type { AuditRow, Names } from "./words.tsx";

type Named = { id: string; name: string | null };

/** Reads only where `key` is not empty. `key` names what is read, as for every other part of the page that reads it. */
function useNamed<T extends Named>(key: string, load: (abort: AbortSignal) => Promise<{ data: T[] }>): T[] {
  return useQuery(key, async (abort) => (key === "" ? [] : (await load(abort)).data)).state.value.data ?? [];
}

/** The ids of targets of this type. */
const targets = (rows: readonly AuditRow[], type: string): string[] =>
  rows.flatMap(({ target_type, target_id }) => (target_type === type && target_id ? [target_id] : []));

const when = (isNeeded: boolean, key: string): string => (isNeeded ? key : "");

export function useNames(rows: readonly AuditRow[]): Names {
  const keys = useKeys(targets(rows, "api_key"));
  const tenants = useTenants(targets(rows, "tenant"));
  const hasTarget = (type: string): boolean => rows.some(({ target_type }) => target_type === type);
  const projects = useProjects(hasTarget("project"));
  const plans = useNamed(when(hasTarget("plan"), "GET /v1/plans"), (signal) => call("GET /v1/plans", {}, { signal }));
  const needsSecretKeys = hasTarget("secret_key") || rows.some(({ actor_type }) => actor_type === "secret_key");
  const secretKeys = useNamed(when(needsSecretKeys, "GET /v1/secret_keys"), (signal) =>
    call("GET /v1/secret_keys", { query: { limit: 200 } }, { signal }),
  );
  return new Map([
    ...[...keys.values(), ...secretKeys].map((key) => [key.id, keyTitle(key)] as const),
    ...[...projects, ...plans].map(({ id, name }) => [id, name] as const),
    ...[...tenants].map(([id, tenant]) => [id, tenantLabel(tenant)] as const),
  ]);
}
