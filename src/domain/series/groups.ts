// What the journal adds to the rollups, summed over its rows before anything is written: one part per group and hour.
import type { Env } from "../../kernel/credentials.ts";
import { addSums, decodeBins, type Sums } from "../../kernel/usage/sums.ts";
import type { UsageGroup } from "../../store/schema/tables.ts";
import { OWNER_FIELDS, type JournalData, type JournalPlace } from "./journal.ts";

export const HOUR_MINUTES = 60;
/** Rows of the rollups that one outcome of a part changes, at most: minutes, hour and day. */
const ROLLUPS = 3;

/** The sums of one group in one hour, by outcome and minute. Hours and minutes count since 1970. */
export type HourPart = { group: UsageGroup; hour: number; outcomes: Map<string, Map<number, Sums>> };

/** Takes `sums` over. */
export function addMinute(part: HourPart, outcome: string, minute: number, sums: Sums): void {
  let minutes = part.outcomes.get(outcome);
  if (!minutes) part.outcomes.set(outcome, (minutes = new Map()));
  const found = minutes.get(minute);
  if (found) addSums(found, sums);
  else minutes.set(minute, sums);
}

/** The parts of one kind, project, environment and hour, by the numbers of tenant and name. */
type Shelf = { place: Omit<UsageGroup, "tenant" | "name">; hour: number; parts: Map<number, HourPart> };

type PlaceContext = {
  of: Pick<UsageGroup, "workspace_id" | "project_id" | "env">;
  minute: number;
  outcome: string;
  texts: readonly string[];
  /** The number of each text. */
  numbers: readonly number[];
};

/** A number of a text is below it, so that two of them fit into one. */
const NUMBERS_MAX = 2 ** 26;

/** Sums over rows of the journal. Texts become numbers first: rows repeat them, and numbers are compared faster. */
export class JournalSums {
  readonly #shelves = new Map<string, Shelf>();
  readonly #numbers = new Map<string, number>([["", 0]]);
  readonly #texts = [""];
  #rollups = 0;

  /** How many rows of the rollups will change, at most. */
  get rollups(): number {
    return this.#rollups;
  }

  add(workspace_id: string, { texts, slices }: JournalData): void {
    const numbers = texts.map((each) => this.#numberOf(each));
    for (const { minute, outcome, places } of slices)
      for (const place of places) {
        const of = { workspace_id, project_id: texts[place.project] ?? "", env: texts[place.env] as Env };
        this.#addPlace(place, { of, minute, outcome: texts[outcome] ?? "", texts, numbers });
      }
  }

  /** The sums of keys are also those of tenants, and the sums of routes those of projects. */
  #addPlace({ owners, routes, tags }: JournalPlace, { of, minute, outcome, texts, numbers }: PlaceContext): void {
    const hour = Math.floor(minute / HOUR_MINUTES);
    const number = (index: number | undefined): number => numbers[index as number] ?? 0;
    const add = (shelf: Shelf, [tenant, name]: [number, number], sums: Sums): void => {
      const part = this.#part(shelf, tenant, name);
      if (!part.outcomes.has(outcome)) this.#rollups += ROLLUPS;
      addMinute(part, outcome, minute, sums);
    };
    const [keys, tenants] = [this.#shelf({ ...of, kind: "key" }, hour), this.#shelf({ ...of, kind: "tenant" }, hour)];
    for (let i = 0; i < owners.length; i += OWNER_FIELDS) {
      const sums = { requests: owners[i + 2] ?? 0, errors: owners[i + 3] ?? 0, units: owners[i + 4] ?? 0 };
      add(keys, [number(owners[i]), number(owners[i + 1])], sums);
      add(tenants, [number(owners[i]), 0], { ...sums });
    }
    const [byRoute, projects] = [
      this.#shelf({ ...of, kind: "route" }, hour),
      this.#shelf({ ...of, kind: "project" }, hour),
    ];
    for (const [route, ...values] of routes) {
      add(byRoute, [0, number(route)], timedSums(values));
      add(projects, [0, 0], timedSums(values));
    }
    for (const [route, name, value, ...values] of tags) {
      const shelf = this.#shelf({ ...of, kind: `tag:${texts[name as number]}` }, hour);
      add(shelf, [number(route), this.#numberOf(`=${texts[value as number]}`)], timedSums(values));
    }
  }

  *parts(): Generator<HourPart> {
    for (const { parts } of this.#shelves.values()) yield* parts.values();
  }

  #numberOf(text: string): number {
    let number = this.#numbers.get(text);
    if (number === undefined) this.#numbers.set(text, (number = this.#texts.push(text) - 1));
    return number;
  }

  #shelf(place: Shelf["place"], hour: number): Shelf {
    const id = `${hour} ${place.kind} ${place.workspace_id} ${place.project_id} ${place.env}`;
    let shelf = this.#shelves.get(id);
    if (!shelf) this.#shelves.set(id, (shelf = { place, hour, parts: new Map() }));
    return shelf;
  }

  #part({ place, hour, parts }: Shelf, tenant: number, name: number): HourPart {
    const id = tenant * NUMBERS_MAX + name;
    let part = parts.get(id);
    if (!part) {
      const group = { ...place, tenant: this.#texts[tenant] as string, name: this.#texts[name] as string };
      parts.set(id, (part = { group, hour, outcomes: new Map() }));
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
