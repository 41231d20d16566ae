// Which events of a batch the control plane rejected. It accepts a batch as a whole or not at all, and names up to 20
// problems: after a restore from a backup, events of a key that was created later must not cost those of all others.

const EVENT_FIELD = /^events\[(\d{1,5})\]\.?(\w*)/;
const IDS = ["project_id", "tenant_id", "key_id"];

/**
 * The events without those that `problems` name, as in `events[3].key_id`. An unknown id affects all events of its key,
 * so they are removed too. Empty if none is named.
 */
export function withoutRejected(events: readonly string[], problems: readonly string[]): readonly string[] {
  const rejected = new Set<string>();
  const keys = new Set<string>();
  for (const problem of problems) {
    const [, index = "", field = ""] = EVENT_FIELD.exec(problem) ?? [];
    const event = index === "" ? undefined : events[Number(index)];
    if (event === undefined) continue;
    rejected.add(event);
    if (IDS.includes(field)) keys.add(idsOf(event));
  }
  if (rejected.size === 0) return [];
  return events.filter((event) => !rejected.has(event) && !(keys.size > 0 && keys.has(idsOf(event))));
}

function idsOf(event: string): string {
  const { env, project_id, tenant_id, key_id } = JSON.parse(event) as Record<string, unknown>;
  return JSON.stringify([env, project_id, tenant_id, key_id]);
}
