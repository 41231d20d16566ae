// Sums one batch for the usage series, by minute and outcome: per key (or tenant, or project), per route with a
// histogram of durations, and per tag. The result is written to usage_journal. bench: ingest/batch
import type { Env } from "../../kernel/credentials.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import { isPlainObject } from "../../kernel/objects.ts";
import { binOf } from "../../kernel/usage/latency.ts";
import type { Sums } from "../../kernel/usage/sums.ts";
import type { KeyOwner } from "../../store/queries/ingest.ts";
import { JournalWriter, shardCount, shardOf } from "./journal.ts";

const COST_MAX = 1000;
export const TAGS_MAX = 4;
export const TAG_NAME = /^[a-z][a-z0-9_]{0,31}$/;
export const TAG_VALUE = /^[\x20-\x7e]{1,64}$/;
const OUTCOME = /^[a-z][a-z0-9_]{0,63}$/;
const ALLOWED = "allowed";
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

type IgnoredField = "cost" | "tags";

type Cell = Omit<Sums, "bins">;
/** `bins`: a bin and its count, one after the other. Most cells have few. */
type TimedCell = Cell & { readonly bins: number[] };
type TagCell = TimedCell & { readonly name: string; readonly value: string };
type RouteCell = TimedCell & {
  readonly method: string;
  readonly route: string | null;
  tags: Map<string, TagCell> | null;
};
type Routes = Map<string | null, Map<string, RouteCell>>;
type Place = {
  readonly project_id: string;
  readonly env: Env;
  readonly owners: Map<KeyOwner | string, OwnerCell>;
  readonly routes: Routes;
  /** That of the last event: comparing a route takes less time than hashing it. */
  lastRoute: RouteCell | undefined;
};
type OwnerCell = Cell & { readonly place: Place; readonly tenant_id: string | null; readonly key_id: string | null };
/** The events of one minute with one outcome. */
type Slice = { readonly minute: number; readonly outcome: string; readonly places: Place[] };

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
    const route = routeCell(owner.place, event);
    const bin = binOf(event.duration_ms);
    addTo(route, weight, errors, units);
    addToBin(route, bin, weight);
    if (event.tags === undefined) return;
    for (const [name, value] of this.#tags(event.tags)) {
      const tag = tagCell((route.tags ??= new Map()), name, value);
      addTo(tag, weight, errors, units);
      addToBin(tag, bin, weight);
    }
  }

  /** The data of the batch's rows. Each sum is in one of them. */
  *encode(): Generator<string> {
    const slices = [...this.#slices.values()];
    const owners = slices.flatMap(({ places }) => places).reduce((sum, place) => sum + place.owners.size, 0);
    const count = shardCount(owners);
    const shards = Array.from({ length: count }, (_, i) => new JournalWriter(i / count));
    for (const slice of slices) for (const place of slice.places) yield* encodePlace(shards, slice, place);
    for (const row of shards) if (!row.isEmpty) yield row.take();
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
    const entries = isPlainObject(tags) ? Object.entries(tags) : undefined;
    if (!entries || entries.length > TAGS_MAX) {
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
  const { tenant_id = null } = event;
  // A key's own ids are interned, so they are compared without looking at their characters.
  const { project_id, env } = key ?? event;
  // The place of the last event is usually that of the next one.
  let place = places.at(-1);
  if (place?.project_id !== project_id || place.env !== env) {
    place = places.find((each) => each.project_id === project_id && each.env === env);
    if (!place) places.push((place = newPlace(project_id, env)));
  }
  const id = key && tenant_id !== null ? key : `${tenant_id} ${key?.id}`;
  let owner = place.owners.get(id);
  if (!owner) {
    owner = { place, tenant_id, key_id: key?.id ?? null, requests: 0, errors: 0, units: 0 };
    place.owners.set(id, owner);
  }
  return owner;
}

function newPlace(project_id: string, env: Env): Place {
  return { project_id, env, owners: new Map(), routes: new Map(), lastRoute: undefined };
}

/** Yields a row whenever it is full. Routes and tags are in those of the first shard. */
function* encodePlace(shards: readonly JournalWriter[], slice: Slice, place: Place): Generator<string> {
  for (const { tenant_id, key_id, requests, errors, units } of place.owners.values()) {
    const row = shards[shardOf(key_id, shards.length)] as JournalWriter;
    if (row.isFull) yield row.take();
    row.add(slice, place).owners.push(row.text(tenant_id), row.text(key_id), requests, errors, units);
  }
  const row = shards[0] as JournalWriter;
  for (const methods of place.routes.values())
    for (const cell of methods.values()) {
      if (row.isFull) yield row.take();
      const route = routeText(cell);
      row.add(slice, place).routes.push([row.text(route), ...timed(cell)]);
      for (const tag of cell.tags?.values() ?? []) {
        if (row.isFull) yield row.take();
        const { tags } = row.add(slice, place);
        tags.push([row.text(route), row.text(tag.name), row.text(tag.value), ...timed(tag)]);
      }
    }
}

function outcomeOf(reason: string | null | undefined): string {
  if ((reason ?? null) === null) return ALLOWED;
  return OUTCOME.test(reason as string) && reason !== ALLOWED ? (reason as string) : "other";
}

function isTagValue(value: unknown): boolean {
  return typeof value === "string" && TAG_VALUE.test(value);
}

function addTo(cell: Cell, requests: number, errors: number, units: number): void {
  cell.requests += requests;
  cell.errors += errors;
  cell.units += units;
}

function addToBin({ bins }: TimedCell, bin: number, requests: number): void {
  for (let i = 0; i < bins.length; i += 2)
    if (bins[i] === bin) {
      bins[i + 1] = (bins[i + 1] as number) + requests;
      return;
    }
  bins.push(bin, requests);
}

function routeCell(place: Place, { method, route }: SeriesEvent): RouteCell {
  const { routes, lastRoute } = place;
  if (lastRoute?.route === route && lastRoute.method === method) return lastRoute;
  let methods = routes.get(route);
  if (!methods) routes.set(route, (methods = new Map()));
  let cell = methods.get(method);
  if (!cell) methods.set(method, (cell = { method, route, tags: null, ...emptyTimed() }));
  place.lastRoute = cell;
  return cell;
}

function routeText({ method, route }: RouteCell): string | null {
  return route === null ? null : `${METHODS.has(method) ? method : "OTHER"} ${route}`;
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
