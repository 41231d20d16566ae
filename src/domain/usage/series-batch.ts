// Sums one batch for the usage series, by minute and outcome: per key (or tenant, or project), per route with a histogram of
// durations, and per tag. The result is written to usage_journal. bench: ingest/batch
import type { Env } from "../../kernel/credentials.ts";
import { binOf } from "../../kernel/usage/latency.ts";
import type { KeyOwner } from "../../store/queries/ingest.ts";

export const MINUTE_MS = 60_000;
const COST_MAX = 1000;
const TAGS_MAX = 4;
const TAG_NAME = /^[a-z][a-z0-9_]{0,31}$/;
const TAG_VALUE = /^[\x20-\x7e]{1,64}$/;
const OUTCOME = /^[a-z][a-z0-9_]{0,63}$/;
/** Sums in one row of the journal. Each becomes three to six rows of the rollups. */
const ROW_SUMS_MAX = 250;
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
/** `bins`: a bin and its count, one after the other. Most cells have few. */
type TimedCell = Cell & { readonly bins: number[] };
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
    const slice = this.#slice(Math.floor(at / MINUTE_MS), outcomeOf(event.denial_reason));
    const owner = ownerCell(slice, event, key);
    const errors = event.status >= 400 ? weight : 0;
    const units = allowed ? weight * (event.cost === undefined ? 1 : this.#cost(event.cost)) : 0;
    addTo(owner, weight, errors, units);
    const route = routeCell(owner.place.routes, event);
    const bin = binOf(event.duration_ms);
    addTimed(route, bin, { requests: weight, errors, units });
    if (event.tags === undefined) return;
    for (const [name, value] of this.#tags(event.tags)) {
      const tag = tagCell((route.tags ??= new Map()), name, value);
      addTimed(tag, bin, { requests: weight, errors, units });
    }
  }

  /** The data of the batch's rows. Each sum is in one of them. */
  *encode(): Generator<string> {
    const row = new JournalWriter();
    for (const slice of this.#slices.values()) for (const place of slice.places) yield* encodePlace(row, slice, place);
    if (!row.isEmpty) yield row.take();
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

/** Yields the row whenever it is full. */
function* encodePlace(row: JournalWriter, slice: Slice, place: Place): Generator<string> {
  for (const { tenant_id, key_id, requests, errors, units } of place.owners.values()) {
    if (row.isFull) yield row.take();
    row.add(slice, place).owners.push(row.text(tenant_id), row.text(key_id), requests, errors, units);
  }
  for (const methods of place.routes.values())
    for (const cell of methods.values()) {
      if (row.isFull) yield row.take();
      row.add(slice, place).routes.push([row.text(cell.route), ...timed(cell)]);
      for (const tag of cell.tags?.values() ?? []) {
        if (row.isFull) yield row.take();
        const { tags } = row.add(slice, place);
        tags.push([row.text(cell.route), row.text(tag.name), row.text(tag.value), ...timed(tag)]);
      }
    }
}

function outcomeOf(reason: string | null | undefined): string {
  if ((reason ?? null) === null) return "allowed";
  return OUTCOME.test(reason as string) ? (reason as string) : "other";
}

function isTagValue(value: unknown): boolean {
  return typeof value === "string" && TAG_VALUE.test(value);
}

function addTo(cell: Cell, requests: number, errors: number, units: number): void {
  cell.requests += requests;
  cell.errors += errors;
  cell.units += units;
}

function addTimed(cell: TimedCell, bin: number, { requests, errors, units }: Cell): void {
  addTo(cell, requests, errors, units);
  const { bins } = cell;
  for (let i = 0; i < bins.length; i += 2)
    if (bins[i] === bin) {
      bins[i + 1] = (bins[i + 1] as number) + requests;
      return;
    }
  bins.push(bin, requests);
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
  return { requests: 0, errors: 0, units: 0, bins: [] };
}

function timed({ requests, errors, units, bins }: TimedCell): number[] {
  return [requests, errors, units, ...bins];
}

/** One row of the journal after the other. */
class JournalWriter {
  #slices: JournalSlice[] = [];
  #texts: string[] = [];
  #indexes = new Map<string, number>();
  #sums = 0;
  #last: { place: Place; encoded: JournalPlace } | undefined;

  get isEmpty(): boolean {
    return this.#sums === 0;
  }

  get isFull(): boolean {
    return this.#sums >= ROW_SUMS_MAX;
  }

  /** Where the next sum goes. */
  add({ minute, outcome }: Slice, place: Place): JournalPlace {
    this.#sums++;
    if (this.#last?.place === place) return this.#last.encoded;
    const [project, env] = [this.text(place.project_id), this.text(place.env)];
    const encoded: JournalPlace = { project, env, owners: [], routes: [], tags: [] };
    this.#slices.push({ minute, outcome: this.text(outcome), places: [encoded] });
    this.#last = { place, encoded };
    return encoded;
  }

  text(text: string | null): number {
    if (text === null) return -1;
    let index = this.#indexes.get(text);
    if (index === undefined) this.#indexes.set(text, (index = this.#texts.push(text) - 1));
    return index;
  }

  /** The row's data. What is added next belongs to another row. */
  take(): string {
    const data: JournalData = { texts: this.#texts, slices: this.#slices };
    this.#slices = [];
    this.#texts = [];
    this.#indexes = new Map();
    this.#sums = 0;
    this.#last = undefined;
    return JSON.stringify(data);
  }
}
