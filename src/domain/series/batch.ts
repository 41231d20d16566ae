// Sums one batch for the usage series, by minute and outcome: per key (or tenant, or project), per route with a
// histogram of durations, and per tag. The result is written to usage_journal. bench: ingest/batch
import { COST_MAX, TAG_NAME, TAG_VALUE, TAGS_MAX } from "../../kernel/usage/event-bounds.ts";
import { ALLOWED } from "../../kernel/usage/groups.ts";
import type { Env } from "../../kernel/credentials.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import { isPlainObject } from "../../kernel/objects.ts";
import { binOf } from "../../kernel/usage/latency.ts";
import type { Sums } from "../../kernel/usage/sums.ts";
import type { KnownKey } from "../../store/queries/ingest.ts";
import type { WireEvent } from "../ingest/wire-event.ts";
import { JournalWriter, shardCount, shardOf } from "./journal.ts";

const OUTCOME = /^[a-z][a-z0-9_]{0,63}$/;
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY"]);

type SeriesEvent = Pick<
  WireEvent,
  "project_id" | "env" | "tenant_id" | "method" | "route" | "status" | "duration_ms" | "denial_reason" | "cost" | "tags"
>;

type IgnoredField = "cost" | "tags";

type Sum = Omit<Sums, "bins">;
/** `bins`: a bin and its count, one after the other. Most sums have few. */
type TimedSum = Sum & { readonly bins: number[] };
type TagSum = TimedSum & { readonly name: string; readonly value: string };
type RouteSum = TimedSum & {
  readonly method: string;
  readonly route: string | null;
  tags: Map<string, TagSum> | null;
};
type Routes = Map<string | null, Map<string, RouteSum>>;
type EnvSums = {
  readonly project_id: string;
  readonly env: Env;
  readonly owners: Map<KnownKey | string, KeySum>;
  readonly routes: Routes;
  /** That of the last event: comparing a route takes less time than hashing it. */
  lastRoute: RouteSum | undefined;
};
type KeySum = Sum & { readonly envSums: EnvSums; readonly tenant_id: string | null; readonly key_id: string | null };
/** The events of one minute with one outcome. */
type Slice = { readonly minute: number; readonly outcome: string; readonly envs: EnvSums[] };

export class SeriesBatch {
  readonly ignored: Record<IgnoredField, number> = { cost: 0, tags: 0 };
  readonly #slices = new Map<string, Slice>();
  #last: Slice | undefined;

  add(event: SeriesEvent, key: KnownKey | undefined, at: number, weight: number): void {
    const allowed = (event.denial_reason ?? null) === null;
    const slice = this.#slice(Math.floor(at / MINUTE_MS), outcomeOf(event.denial_reason));
    const owner = keySum(slice, event, key);
    const errors = event.status >= 400 ? weight : 0;
    const units = allowed ? weight * (event.cost === undefined ? 1 : this.#cost(event.cost)) : 0;
    addTo(owner, weight, errors, units);
    const route = routeSum(owner.envSums, event);
    const bin = binOf(event.duration_ms);
    addTo(route, weight, errors, units);
    addToBin(route, bin, weight);
    if (event.tags === undefined) return;
    for (const [name, value] of this.#tags(event.tags)) {
      const tag = tagSum((route.tags ??= new Map()), name, value);
      addTo(tag, weight, errors, units);
      addToBin(tag, bin, weight);
    }
  }

  /** The data of the batch's rows. Each sum is in one of them. */
  *encode(): Generator<string> {
    const slices = [...this.#slices.values()];
    const owners = slices.flatMap(({ envs }) => envs).reduce((sum, envSums) => sum + envSums.owners.size, 0);
    const count = shardCount(owners);
    const shards = Array.from({ length: count }, (_, i) => new JournalWriter(i / count));
    for (const slice of slices) for (const envSums of slice.envs) yield* encodeEnv(shards, slice, envSums);
    for (const row of shards) if (!row.isEmpty) yield row.take();
  }

  #slice(minute: number, outcome: string): Slice {
    if (this.#last?.minute === minute && this.#last.outcome === outcome) return this.#last;
    const id = `${minute} ${outcome}`;
    let slice = this.#slices.get(id);
    if (!slice) this.#slices.set(id, (slice = { minute, outcome, envs: [] }));
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
function keySum({ envs }: Slice, event: SeriesEvent, key: KnownKey | undefined): KeySum {
  const { tenant_id = null } = event;
  // A key's own ids are interned, so they are compared without looking at their characters.
  const { project_id, env } = key ?? event;
  // That of the last event is usually that of the next one.
  let envSums = envs.at(-1);
  if (envSums?.project_id !== project_id || envSums.env !== env) {
    envSums = envs.find((each) => each.project_id === project_id && each.env === env);
    if (!envSums) envs.push((envSums = newEnvSums(project_id, env)));
  }
  const id = key && tenant_id !== null ? key : `${tenant_id} ${key?.id}`;
  let owner = envSums.owners.get(id);
  if (!owner) {
    owner = { envSums, tenant_id, key_id: key?.id ?? null, requests: 0, errors: 0, units: 0 };
    envSums.owners.set(id, owner);
  }
  return owner;
}

function newEnvSums(project_id: string, env: Env): EnvSums {
  return { project_id, env, owners: new Map(), routes: new Map(), lastRoute: undefined };
}

/** Yields a row whenever it is full. Routes and tags are in those of the first shard. */
function* encodeEnv(shards: readonly JournalWriter[], slice: Slice, envSums: EnvSums): Generator<string> {
  for (const { tenant_id, key_id, requests, errors, units } of envSums.owners.values()) {
    const row = shards[shardOf(key_id, shards.length)] as JournalWriter;
    if (row.isFull) yield row.take();
    row.add(slice, envSums).owners.push(row.text(tenant_id), row.text(key_id), requests, errors, units);
  }
  const row = shards[0] as JournalWriter;
  for (const methods of envSums.routes.values())
    for (const sum of methods.values()) {
      if (row.isFull) yield row.take();
      const route = routeText(sum);
      row.add(slice, envSums).routes.push([row.text(route), ...timed(sum)]);
      for (const tag of sum.tags?.values() ?? []) {
        if (row.isFull) yield row.take();
        const { tags } = row.add(slice, envSums);
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

function addTo(sum: Sum, requests: number, errors: number, units: number): void {
  sum.requests += requests;
  sum.errors += errors;
  sum.units += units;
}

function addToBin({ bins }: TimedSum, bin: number, requests: number): void {
  for (let i = 0; i < bins.length; i += 2)
    if (bins[i] === bin) {
      bins[i + 1] = (bins[i + 1] as number) + requests;
      return;
    }
  bins.push(bin, requests);
}

function routeSum(envSums: EnvSums, { method, route }: SeriesEvent): RouteSum {
  const { routes, lastRoute } = envSums;
  if (lastRoute?.route === route && lastRoute.method === method) return lastRoute;
  let methods = routes.get(route);
  if (!methods) routes.set(route, (methods = new Map()));
  let sum = methods.get(method);
  if (!sum) methods.set(method, (sum = { method, route, tags: null, ...emptyTimed() }));
  envSums.lastRoute = sum;
  return sum;
}

function routeText({ method, route }: RouteSum): string | null {
  return route === null ? null : `${METHODS.has(method) ? method : "OTHER"} ${route}`;
}

function tagSum(tags: Map<string, TagSum>, name: string, value: string): TagSum {
  const id = `${name}=${value}`;
  let sum = tags.get(id);
  if (!sum) tags.set(id, (sum = { name, value, ...emptyTimed() }));
  return sum;
}

function emptyTimed(): TimedSum {
  return { requests: 0, errors: 0, units: 0, bins: [] };
}

function timed({ requests, errors, units, bins }: TimedSum): number[] {
  return [requests, errors, units, ...bins];
}
