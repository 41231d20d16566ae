// Whether the events of a batch name what belongs to their sender.
import type { Detail } from "../../kernel/errors.ts";
import { DETAILS_MAX, matchesTenant, type CheckedEvents, type EventBatch } from "./events.ts";
import type { KnownOwners } from "./known-ids.ts";
import type { WireEvent } from "./wire-event.ts";

/** Every id must belong to the workspace, and a key to the project, tenant and environment of its event. */
export function checkOwnership(batch: EventBatch, checked: CheckedEvents, known: KnownOwners): Detail[] {
  const problems: Detail[] = [];
  for (const i of checked.unresolved) {
    if (problems.length >= DETAILS_MAX) break;
    const event = batch.events[i] as WireEvent;
    const { key_id, project_id, env } = event;
    const tenant_id = event.tenant_id ?? null;
    const key = (checked.keys[i] ??= typeof key_id === "string" ? known.keys.get(key_id) : undefined);
    if (key?.project_id === project_id && key.env === env && matchesTenant(key, tenant_id)) continue;
    const add = (name: string, message: string): number => problems.push({ path: `events[${i}].${name}`, message });
    if (!known.projects.has(project_id) && key?.project_id !== project_id) {
      add("project_id", "is not a project of this workspace");
    } else if (tenant_id !== null && key?.tenant_id !== tenant_id && !known.tenants.has(tenant_id)) {
      add("tenant_id", "is not a tenant of this workspace");
    } else if (key) add("key_id", "is not a key of that project, tenant and environment");
    else if (typeof key_id === "string") add("key_id", "is not a key of this workspace");
  }
  return problems;
}

/** The events of other projects than those that the secret key is for. */
export function checkProjects({ events }: EventBatch, projects: readonly string[]): Detail[] {
  const foreign = events.flatMap(({ project_id }, i) => (projects.includes(project_id) ? [] : [i]));
  const message = "is not a project of this secret key";
  return foreign.slice(0, DETAILS_MAX).map((i) => ({ path: `events[${i}].project_id`, message }));
}
