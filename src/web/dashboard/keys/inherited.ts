// The limits that a key gets without its own: of its tenant, the tenant's plan, or the project.
import type { Inherited } from "./key-fields.tsx";
import { usePlans, useTenant, type Project } from "../api/records.ts";

/** Null while the project is not chosen. */
export function useInherited(project: Project | undefined, tenantId: string | undefined): Inherited | null {
  const tenant = useTenant(tenantId);
  const plan = usePlans().find(({ id }) => id === tenant?.plan_id);
  if (tenant?.rate_limits) return { rules: tenant.rate_limits, source: "Tenant" };
  if (plan?.rate_limits) return { rules: plan.rate_limits, source: `Plan ${plan.name}` };
  return project ? { rules: project.default_rate_limits, source: "Project default" } : null;
}
