// The names of a chart's groups.
import { tenantLabel, useKeys, useProjects, useTenants, type UsageSeries } from "../api/records.ts";
import { outcomeWords } from "./outcomes.ts";

export type Label = {
  name: string;
  /** A key's start and tenant, on a second line: several keys may have the same name. */
  prefix?: string;
  tenant?: string;
  /** Its name in one line, unlike that of the others. */
  whole: string;
};
export type LabelOf = (one: UsageSeries["series"][number]) => Label;

const plain = (name: string): Label => ({ name, whole: name });

/** Projects, tenants and keys by their names, once these are loaded. */
export function useLabels(group: string, { series }: UsageSeries): LabelOf {
  const ids = series.flatMap((one) => one.group ?? []);
  const projects = useProjects(group === "project");
  const keys = useKeys(group === "key" ? ids : []);
  const tenantIds = group === "tenant" ? ids : [...keys.values()].map(({ tenant_id }) => tenant_id);
  const tenants = useTenants(tenantIds);
  const tenantName = (id: string): string | undefined => {
    const tenant = tenants.get(id);
    return tenant && tenantLabel(tenant);
  };
  return ({ group: id, label }) => {
    if (id === null) return plain(`No ${group}`);
    if (group === "outcome") return plain(outcomeWords(id));
    // The label of a project is its slug, of a tenant its external id, of a key the start of its text.
    if (group === "project") return plain(projects.find((project) => project.id === id)?.name ?? label ?? id);
    if (group === "tenant") return plain(tenantName(id) ?? label ?? id);
    const key = keys.get(id);
    if (!key) return plain(group === "key" ? `${label ?? id}…` : (label ?? id));
    const prefix = `${key.display_prefix}…`;
    const of = tenantName(key.tenant_id);
    const tenant = of === undefined ? {} : { tenant: of };
    return key.name === null
      ? { name: prefix, ...tenant, whole: prefix }
      : { name: key.name, prefix, ...tenant, whole: `${key.name} (${prefix})` };
  };
}
