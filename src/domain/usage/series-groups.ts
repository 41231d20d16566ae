// What the journal adds to the rollups, summed over its rows before anything is written: one part per group and UTC day.
import type { Env } from "../../kernel/credentials.ts";
import { addSums, decodeBins, type Sums } from "../../kernel/usage/sums.ts";
import type { UsageGroup } from "../../store/schema/tables.ts";
import type { JournalData } from "./series-batch.ts";

/** Minutes of a UTC day. */
export const DAY_MINUTES = 1440;
/** Stands for everything above a cap. */
export const OTHER = "*";

/** The sums of one group on one UTC day, by outcome and minute since 1970. */
export type Part = { group: UsageGroup; day: number; outcomes: Map<string, Map<number, Sums>> };

export function addMinute(part: Part, outcome: string, minute: number, sums: Sums): void {
  let minutes = part.outcomes.get(outcome);
  if (!minutes) part.outcomes.set(outcome, (minutes = new Map()));
  const found = minutes.get(minute);
  if (found) addSums(found, sums);
  else minutes.set(minute, sums);
}

export class JournalSums {
  readonly #parts = new Map<string, Part>();
  /** The number of parts: how much there will be to write. */
  get size(): number {
    return this.#parts.size;
  }

  get parts(): Iterable<Part> {
    return this.#parts.values();
  }

  add(workspace_id: string, text: string): void {
    const { texts, owners, routes, tags } = JSON.parse(text) as JournalData;
    const of = (index: number | undefined): string => texts[index as number] ?? "";
    for (const row of owners) {
      const [minute, outcome, project, env, tenant, key, requests = 0, errors = 0, units = 0] = row;
      const add = (kind: string, name: string): void => {
        const place = { workspace_id, project_id: of(project), env: of(env) as Env };
        this.#add({ ...place, kind, tenant: of(tenant), name }, of(outcome), minute, { requests, errors, units });
      };
      add("key", of(key));
      add("tenant", "");
    }
    for (const [minute, outcome, project, env, route, ...sums] of routes) {
      const place = { workspace_id, project_id: of(project), env: of(env) as Env, tenant: "" };
      this.#add({ ...place, kind: "route", name: of(route) }, of(outcome), minute, timedSums(sums));
      this.#add({ ...place, kind: "project", name: "" }, of(outcome), minute, timedSums(sums));
    }
    for (const [minute, outcome, project, env, route, name, value, ...sums] of tags) {
      const place = { workspace_id, project_id: of(project), env: of(env) as Env, tenant: of(route) };
      const group = { ...place, kind: `tag:${of(name)}`, name: `=${of(value)}` };
      this.#add(group, of(outcome), minute, timedSums(sums));
    }
  }

  #add(group: UsageGroup, outcome: string, minute: number, sums: Sums): void {
    const day = Math.floor(minute / DAY_MINUTES);
    const id = `${day} ${groupKey(group)}`;
    let part = this.#parts.get(id);
    if (!part) this.#parts.set(id, (part = { group, day, outcomes: new Map() }));
    addMinute(part, outcome, minute, sums);
  }
}

/** Unambiguous: only the last text may contain a line feed. */
export function groupKey({ workspace_id, kind, project_id, env, tenant, name }: UsageGroup): string {
  return `${workspace_id}\n${kind}\n${project_id}\n${env}\n${JSON.stringify(tenant)}\n${name}`;
}

function timedSums([requests = 0, errors = 0, units = 0, ...bins]: number[]): Sums {
  return { requests, errors, units, bins: decodeBins(bins) };
}
