// Sums one batch for the usage series, by minute and outcome: per key (or tenant, or project), per route with a histogram of
// durations, and per tag. The result is one row of usage_journal. bench: ingest/batch
import type { Env } from "../../kernel/credentials.ts";
import { BIN_MAX, binOf } from "../../kernel/usage/latency.ts";
import type { KeyOwner } from "../../store/queries/ingest.ts";

export const MINUTE_MS = 60_000;
const COST_MAX = 1000;
const TAGS_MAX = 4;
const TAG_NAME = /^[a-z][a-z0-9_]{0,31}$/;
const TAG_VALUE = /^[\x20-\x7e]{1,64}$/;
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY"]);

/** The fields of an event that the series need. A malformed optional one is ignored: it never refuses a batch. */
export type SeriesEvent = {
  project_id: string;
  env: Env;
  tenant_id?: string | null;
  method: string;
  route: string | null;
  status: number;
  duration_ms: number;
  denial_reason?: string | null;
  cost?: unknown;
  tags?: unknown;
};

export type IgnoredField = "cost" | "tags";

type Cell = { requests: number; errors: number; units: number };
type TimedCell = Cell & { readonly bins: Float64Array };
type TagCell = TimedCell & { readonly name: string; readonly value: string };
type RouteCell = TimedCell & { readonly route: string | null; tags: Map<string, TagCell> | null };
type Routes = Map<string | null, Map<string, RouteCell>>;
type Place = {
  readonly project_id: string;
  readonly env: Env;
  readonly owners: Map<KeyOwner | string, OwnerCell>;
  readonly routes: Routes;
};
type OwnerCell = Cell & { readonly place: Place; readonly tenant_id: string | null; readonly key_id: string | null };
/** The events of one minute with one outcome. */
type Slice = { readonly minute: number; readonly outcome: string; readonly places: Place[] };

/**
 * The data of a journal row. Texts are indexes into `texts`; -1 stands for none. Flat lists, because they are parsed fast:
 * `owners` has tenant, key, requests, errors and units of one after the other.
 */
export type JournalData = { texts: string[]; slices: JournalSlice[] };
export type JournalSlice = { minute: number; outcome: number; places: JournalPlace[] };
export type JournalPlace = {
  project: number;
  env: number;
  owners: number[];
  /** Each: route, requests, errors, units, then bins and their counts. */
  routes: number[][];
  /** Each: route, name, value, requests, errors, units, then bins and their counts. */
  tags: number[][];
};
/** Numbers of one owner. */
export const OWNER_FIELDS = 5;

export class SeriesBatch {
  readonly ignored: Record<IgnoredField, number> = { cost: 0, tags: 0 };
  readonly #slices = new Map<string, Slice>();
  #last: Slice | undefined;

  add(event: SeriesEvent, key: KeyOwner | undefined, at: number, weight: number): void {
    const allowed = (event.denial_reason ?? null) === null;
    const slice = this.#slice(Math.floor(at / MINUTE_MS), allowed ? "allowed" : (event.denial_reason as string));
    const owner = ownerCell(slice, event, key);
    const errors = event.status >= 400 ? weight : 0;
    const units = allowed ? weight * (event.cost === undefined ? 1 : this.#cost(event.cost)) : 0;
    addTo(owner, weight, errors, units);
    const route = routeCell(owner.place.routes, event);
    const bin = binOf(event.duration_ms);
    addTo(route, weight, errors, units);
    route.bins[bin] = (route.bins[bin] as number) + weight;
    if (event.tags === undefined) return;
    for (const [name, value] of this.#tags(event.tags)) {
      const tag = tagCell((route.tags ??= new Map()), name, value);
      addTo(tag, weight, errors, units);
      tag.bins[bin] = (tag.bins[bin] as number) + weight;
    }
  }

  /** The row's data; null without events. */
  encode(): string | null {
    if (this.#slices.size === 0) return null;
    const texts = new Texts();
    const slices = [...this.#slices.values()].map((slice) => encodeSlice(slice, texts));
    return JSON.stringify({ texts: texts.list, slices } satisfies JournalData);
  }

  #slice(minute: number, outcome: string): Slice {
    if (this.#last?.minute === minute && this.#last.outcome === outcome) return this.#last;
    const id = `${minute} ${outcome}`;
    let slice = this.#slices.get(id);
    if (!slice) this.#slices.set(id, (slice = { minute, outcome, places: [] }));
    this.#last = slice;
    return slice;
  }

  #cost(cost: unknown): number {
    if (Number.isInteger(cost) && (cost as number) >= 0 && (cost as number) <= COST_MAX) return cost as number;
    this.ignored.cost++;
    return 1;
  }

  #tags(tags: unknown): [name: string, value: string][] {
    const isObject = typeof tags === "object" && tags !== null && !Array.isArray(tags);
    const entries = isObject ? Object.entries(tags) : [];
    if (!isObject || entries.length > TAGS_MAX) {
      this.ignored.tags++;
      return [];
    }
    const valid = entries.filter(([name, value]) => TAG_NAME.test(name) && isTagValue(value));
    this.ignored.tags += entries.length - valid.length;
    return valid as [string, string][];
  }
}

/** An event may omit the tenant of its key: then no tenant is charged, as in the monthly figures. */
function ownerCell({ places }: Slice, event: SeriesEvent, key: KeyOwner | undefined): OwnerCell {
  const { project_id, env, tenant_id = null } = event;
  // The place of the last event is usually that of the next one.
  let place = places.at(-1);
  if (place?.project_id !== project_id || place.env !== env) {
    place = places.find((each) => each.project_id === project_id && each.env === env);
    if (!place) places.push((place = { project_id, env, owners: new Map(), routes: new Map() }));
  }
  const id = key && tenant_id !== null ? key : `${tenant_id} ${key?.id}`;
  let owner = place.owners.get(id);
  if (!owner) {
    owner = { place, tenant_id, key_id: key?.id ?? null, requests: 0, errors: 0, units: 0 };
    place.owners.set(id, owner);
  }
  return owner;
}

function encodeSlice({ minute, outcome, places }: Slice, texts: Texts): JournalSlice {
  return { minute, outcome: texts.index(outcome), places: places.map((place) => encodePlace(place, texts)) };
}

function encodePlace({ project_id, env, owners, routes }: Place, texts: Texts): JournalPlace {
  const encoded: JournalPlace = {
    project: texts.index(project_id),
    env: texts.index(env),
    owners: [],
    routes: [],
    tags: [],
  };
  for (const { tenant_id, key_id, requests, errors, units } of owners.values())
    encoded.owners.push(texts.index(tenant_id), texts.index(key_id), requests, errors, units);
  for (const methods of routes.values())
    for (const cell of methods.values()) {
      const route = texts.index(cell.route);
      encoded.routes.push([route, ...timed(cell)]);
      for (const tag of cell.tags?.values() ?? [])
        encoded.tags.push([route, texts.index(tag.name), texts.index(tag.value), ...timed(tag)]);
    }
  return encoded;
}

function isTagValue(value: unknown): boolean {
  return typeof value === "string" && TAG_VALUE.test(value);
}

function addTo(cell: Cell, requests: number, errors: number, units: number): void {
  cell.requests += requests;
  cell.errors += errors;
  cell.units += units;
}

function routeCell(routes: Routes, { method, route }: SeriesEvent): RouteCell {
  let methods = routes.get(route);
  if (!methods) routes.set(route, (methods = new Map()));
  let cell = methods.get(method);
  if (!cell) {
    const text = route === null ? null : `${METHODS.has(method) ? method : "OTHER"} ${route}`;
    methods.set(method, (cell = { route: text, tags: null, ...emptyTimed() }));
  }
  return cell;
}

function tagCell(tags: Map<string, TagCell>, name: string, value: string): TagCell {
  const id = `${name}=${value}`;
  let cell = tags.get(id);
  if (!cell) tags.set(id, (cell = { name, value, ...emptyTimed() }));
  return cell;
}

function emptyTimed(): TimedCell {
  return { requests: 0, errors: 0, units: 0, bins: new Float64Array(BIN_MAX + 1) };
}

function timed({ requests, errors, units, bins }: TimedCell): number[] {
  const flat = [requests, errors, units];
  for (let bin = 0; bin < bins.length; bin++) if (bins[bin] !== 0) flat.push(bin, bins[bin] as number);
  return flat;
}

class Texts {
  readonly list: string[] = [];
  readonly #indexes = new Map<string, number>();

  index(text: string | null): number {
    if (text === null) return -1;
    let index = this.#indexes.get(text);
    if (index === undefined) this.#indexes.set(text, (index = this.list.push(text) - 1));
    return index;
  }
}
