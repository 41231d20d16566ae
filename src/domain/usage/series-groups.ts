// What the journal adds to the rollups, summed over its rows before anything is written: one part per group and UTC day.
import type { Env } from "../../kernel/credentials.ts";
import { addSums, copySums, decodeBins, type Sums } from "../../kernel/usage/sums.ts";
import type { UsageGroup } from "../../store/schema/tables.ts";
import { OWNER_FIELDS, type JournalData } from "./series-batch.ts";

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

/** The parts of one kind, project, environment and day, by the numbers of tenant and name. */
type Shelf = { place: Omit<UsageGroup, "tenant" | "name">; day: number; parts: Map<number, Part> };

/** A number of a text is below it, so that two of them fit into one. */
const NUMBERS_MAX = 2 ** 26;

/** Sums over rows of the journal. Texts become numbers first: rows repeat them, and numbers are compared faster. */
export class JournalSums {
  readonly #shelves = new Map<string, Shelf>();
  readonly #numbers = new Map<string, number>([["", 0]]);
  readonly #texts = [""];
  #size = 0;

  /** How much there will be to write. */
  get size(): number {
    return this.#size;
  }

  add(workspace_id: string, text: string): void {
    const { texts, slices } = JSON.parse(text) as JournalData;
    const numbers = texts.map((each) => this.#numberOf(each));
    const of = (index: number | undefined): number => numbers[index as number] ?? 0;
    for (const { minute, outcome: named, places } of slices)
      for (const { project, env, owners, routes, tags } of places) {
        const outcome = texts[named] ?? "";
        const place = { workspace_id, project_id: texts[project] ?? "", env: texts[env] as Env };
        const day = Math.floor(minute / DAY_MINUTES);
        const keys = this.#shelf({ ...place, kind: "key" }, day);
        for (let i = 0; i < owners.length; i += OWNER_FIELDS) {
          const sums = { requests: owners[i + 2] ?? 0, errors: owners[i + 3] ?? 0, units: owners[i + 4] ?? 0 };
          addMinute(this.#part(keys, of(owners[i]), of(owners[i + 1])), outcome, minute, sums);
        }
        const byRoute = this.#shelf({ ...place, kind: "route" }, day);
        for (const [route, ...sums] of routes)
          addMinute(this.#part(byRoute, 0, of(route)), outcome, minute, timedSums(sums));
        for (const [route, name, value, ...sums] of tags) {
          const shelf = this.#shelf({ ...place, kind: `tag:${texts[name as number]}` }, day);
          const part = this.#part(shelf, of(route), this.#numberOf(`=${texts[value as number]}`));
          addMinute(part, outcome, minute, timedSums(sums));
        }
      }
  }

  /** Every part: the sums of keys are also those of tenants, and the sums of routes those of projects. */
  *parts(): Generator<Part> {
    const sums = new Map<string, Part>();
    for (const part of [...this.#shelves.values()].flatMap(({ parts }) => [...parts.values()])) {
      yield part;
      const { group, day, outcomes } = part;
      const kind = { key: "tenant", route: "project" }[group.kind];
      if (kind === undefined) continue;
      const whole = { ...group, kind, name: "" };
      const id = `${day} ${groupKey(whole)}`;
      let sum = sums.get(id);
      if (!sum) sums.set(id, (sum = { group: whole, day, outcomes: new Map() }));
      for (const [outcome, minutes] of outcomes)
        for (const [minute, each] of minutes) addMinute(sum, outcome, minute, copySums(each));
    }
    yield* sums.values();
  }

  #numberOf(text: string): number {
    let number = this.#numbers.get(text);
    if (number === undefined) this.#numbers.set(text, (number = this.#texts.push(text) - 1));
    return number;
  }

  #shelf(place: Shelf["place"], day: number): Shelf {
    const id = `${day} ${place.kind} ${place.workspace_id} ${place.project_id} ${place.env}`;
    let shelf = this.#shelves.get(id);
    if (!shelf) this.#shelves.set(id, (shelf = { place, day, parts: new Map() }));
    return shelf;
  }

  #part({ place, day, parts }: Shelf, tenant: number, name: number): Part {
    const id = tenant * NUMBERS_MAX + name;
    let part = parts.get(id);
    if (!part) {
      const group = { ...place, tenant: this.#texts[tenant] as string, name: this.#texts[name] as string };
      parts.set(id, (part = { group, day, outcomes: new Map() }));
      this.#size++;
    }
    return part;
  }
}

/** Unambiguous: only the last text may contain a line feed. */
export function groupKey({ workspace_id, kind, project_id, env, tenant, name }: UsageGroup): string {
  return `${workspace_id}\n${kind}\n${project_id}\n${env}\n${JSON.stringify(tenant)}\n${name}`;
}

function timedSums([requests = 0, errors = 0, units = 0, ...bins]: number[]): Sums {
  return { requests, errors, units, bins: decodeBins(bins) };
}
