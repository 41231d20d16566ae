// Hand-written validator of telemetry events: a schema library takes longer than parsing the batch. Unknown fields are
// allowed; every problem is named by its path, and no message echoes a value. bench: ingest/batch
import type { Detail } from "../../kernel/errors.ts";
import { parseUuid } from "../../kernel/ids.ts";
import { DAY_MS } from "../../kernel/durations.ts";
import { isPlainObject } from "../../kernel/objects.ts";
import { parseTimestamp, timeOfDay } from "../../kernel/timestamps.ts";
import { NODE_ID, SAMPLE_RATE_MIN, TAGS_MAX, TEXT_MAX } from "../../kernel/usage/event-bounds.ts";
import type { KnownKey } from "../../store/queries/ingest.ts";
import type { KnownOwners, MissingIds } from "./known-ids.ts";
import type { WireEvent } from "./wire-event.ts";

export const DETAILS_MAX = 20;
/** Texts apart: within the checks they would make those too long to be inlined. bench: ingest/batch */
const MESSAGES = {
  method: `must have 1 to ${TEXT_MAX.method} characters`,
  path: `must have at most ${TEXT_MAX.path} characters`,
  route: `must be null or have at most ${TEXT_MAX.route} characters`,
  request_id: `must have 1 to ${TEXT_MAX.request_id} characters`,
  display_prefix: `must be null or have at most ${TEXT_MAX.display_prefix} characters`,
  denial_reason: `must be null or have at most ${TEXT_MAX.denial_reason} characters`,
  sample_rate: `must be from ${SAMPLE_RATE_MIN} to 1`,
};

export type EventBatch = {
  node_id: string;
  events: WireEvent[];
  sample_rate: number;
  events_dropped: number;
  /** The first request of every key and UTC day is among the reports, whatever the sample rate. */
  key_first_daily: boolean;
};

/** The result of one pass over the events. */
export type CheckedEvents = {
  problems: Detail[];
  /** Milliseconds of each event's ts. */
  times: Float64Array;
  /** The owner of each event's key, if it is already known. */
  keys: (KnownKey | undefined)[];
  /** Indexes of the events whose ids do not match a known key and still need an ownership check. */
  unresolved: number[];
  missing: MissingIds;
  live: boolean;
};

type Fields = Record<string, unknown>;

/** A string of min to max code points. The number of code units decides most cases without iterating. */
function isText(value: unknown, min: number, max: number): boolean {
  if (typeof value !== "string" || value.length < min) return false;
  return value.length <= max || (value.length <= 2 * max && [...value].length <= max);
}

function isTextOrNull(value: unknown, max: number): boolean {
  return value === null || value === undefined || isText(value, 0, max);
}

function isSampleRate(value: unknown): boolean {
  return value === undefined || (typeof value === "number" && value >= SAMPLE_RATE_MIN && value <= 1);
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** A copy without unknown fields: it has the same problems and the same sums. */
export function usedFields(event: unknown): Record<keyof WireEvent, unknown> | null {
  if (!isPlainObject(event)) return null;
  return {
    ts: used(event.ts),
    project_id: used(event.project_id),
    env: used(event.env),
    tenant_id: used(event.tenant_id),
    key_id: used(event.key_id),
    display_prefix: used(event.display_prefix),
    method: used(event.method),
    path: used(event.path),
    route: used(event.route),
    status: used(event.status),
    duration_ms: used(event.duration_ms),
    degraded: used(event.degraded),
    denial_reason: used(event.denial_reason),
    request_id: used(event.request_id),
    sample_rate: used(event.sample_rate),
    cost: used(event.cost),
    tags: isPlainObject(event.tags) ? usedTags(event.tags) : used(event.tags),
    network: used(event.network),
    user_agent: used(event.user_agent),
    would_deny: used(event.would_deny),
  };
}

/** An object is invalid whatever it holds. */
function used(value: unknown): unknown {
  return typeof value === "object" && value !== null ? [] : value;
}

/** One more than allowed is as invalid as more. */
function usedTags(tags: Fields): Fields {
  const entries = Object.entries(tags).slice(0, TAGS_MAX + 1);
  return Object.fromEntries(entries.map(([name, value]) => [name, used(value)]));
}

class Problems {
  readonly list: Detail[] = [];

  add(path: string, value: unknown, message: string): void {
    if (this.list.length >= DETAILS_MAX) return;
    this.list.push({ path, message: value === undefined ? "is required" : message });
  }

  addAt(i: number, name: string, value: unknown, message: string): void {
    this.add(`events[${i}].${name}`, value, message);
  }

  get full(): boolean {
    return this.list.length >= DETAILS_MAX;
  }
}

/** Checks the batch except its events. */
export function checkBatch(value: unknown, eventsMax: number): { batch: EventBatch | null; problems: Detail[] } {
  const problems = new Problems();
  if (!isPlainObject(value)) return { batch: null, problems: [{ path: "", message: "must be an object" }] };
  const { object, protocol_version, node_id, sdk, events, events_dropped = 0, sample_rate = 1 } = value;
  const key_first_daily = value.key_first_daily === true;
  const add = problems.add.bind(problems);
  if (object !== "ingest_batch") add("object", object, "must be ingest_batch");
  if (protocol_version !== 1) add("protocol_version", protocol_version, "must be 1");
  if (typeof node_id !== "string" || !NODE_ID.test(node_id)) {
    add("node_id", node_id, "must be 1 to 128 of A-Z, a-z, 0-9, . _ : -");
  }
  if (!isPlainObject(sdk)) add("sdk", sdk, "must be an object");
  else {
    if (!isText(sdk.name, 1, 64)) add("sdk.name", sdk.name, "must have 1 to 64 characters");
    if (!isText(sdk.version, 1, 64)) add("sdk.version", sdk.version, "must have 1 to 64 characters");
  }
  if (!Array.isArray(events)) add("events", events, "must be an array");
  else if (events.length > eventsMax) add("events", events, `must have at most ${eventsMax} entries`);
  if (!isCount(events_dropped)) add("events_dropped", events_dropped, "must be a whole number from 0");
  if (!isSampleRate(sample_rate)) add("sample_rate", sample_rate, MESSAGES.sample_rate);
  const batch = { node_id, events, sample_rate, events_dropped, key_first_daily } as EventBatch;
  return { batch: Array.isArray(events) && events.length <= eventsMax ? batch : null, problems: problems.list };
}

/** Checks the shape of every event, and collects the ids that still have to be looked up. */
export function checkEvents(events: readonly unknown[], known: KnownOwners): CheckedEvents {
  const problems = new Problems();
  const checked: CheckedEvents = {
    problems: problems.list,
    times: new Float64Array(events.length),
    keys: [],
    unresolved: [],
    missing: { keys: new Set(), projects: new Set(), tenants: new Set() },
    live: false,
  };
  for (let i = 0; i < events.length && !problems.full; i++) {
    const event = events[i];
    if (!isPlainObject(event)) {
      problems.add(`events[${i}]`, event, "must be an object");
      continue;
    }
    const time = typeof event.ts === "string" ? parseEventTime(event.ts) : null;
    if (time === null) problems.addAt(i, "ts", event.ts, "must be an ISO 8601 date-time");
    else checked.times[i] = time;
    checkRequest(event, i, problems);
    checkContext(event, i, problems);
    checkIds(event, i, problems, checked, known);
    if (event.env === "live") checked.live = true;
  }
  return checked;
}

function checkRequest(event: Fields, i: number, problems: Problems): void {
  const { method, path, route, status, duration_ms, request_id } = event;
  if (!isText(method, 1, TEXT_MAX.method)) problems.addAt(i, "method", method, MESSAGES.method);
  if (!isText(path, 0, TEXT_MAX.path)) problems.addAt(i, "path", path, MESSAGES.path);
  if (route !== null && !isText(route, 0, TEXT_MAX.route)) problems.addAt(i, "route", route, MESSAGES.route);
  if (!(Number.isInteger(status) && (status as number) >= 100 && (status as number) <= 599)) {
    problems.addAt(i, "status", status, "must be a whole number from 100 to 599");
  }
  if (!(typeof duration_ms === "number" && duration_ms >= 0 && duration_ms <= Number.MAX_SAFE_INTEGER)) {
    problems.addAt(i, "duration_ms", duration_ms, "must be a number from 0 to 2^53 - 1");
  }
  if (!isText(request_id, 1, TEXT_MAX.request_id)) problems.addAt(i, "request_id", request_id, MESSAGES.request_id);
}

function checkContext(event: Fields, i: number, problems: Problems): void {
  const { env, degraded, display_prefix, denial_reason, sample_rate } = event;
  if (env !== "live" && env !== "test") problems.addAt(i, "env", env, "must be live or test");
  if (typeof degraded !== "boolean") problems.addAt(i, "degraded", degraded, "must be true or false");
  if (!isTextOrNull(display_prefix, TEXT_MAX.display_prefix))
    problems.addAt(i, "display_prefix", display_prefix, MESSAGES.display_prefix);
  if (!isTextOrNull(denial_reason, TEXT_MAX.denial_reason))
    problems.addAt(i, "denial_reason", denial_reason, MESSAGES.denial_reason);
  if (!isSampleRate(sample_rate)) problems.addAt(i, "sample_rate", sample_rate, MESSAGES.sample_rate);
}

/** An event may omit the tenant of its key. */
export function matchesTenant(key: KnownKey, tenant_id: unknown): boolean {
  return tenant_id === key.tenant_id || tenant_id === null || tenant_id === undefined;
}

/** Known ids are well-formed, so only the others are parsed, and put in lower case for the lookup. */
function checkIds(event: Fields, i: number, problems: Problems, checked: CheckedEvents, known: KnownOwners): void {
  const { key_id, project_id, tenant_id, env } = event;
  const key = typeof key_id === "string" ? known.keys.get(key_id) : undefined;
  checked.keys[i] = key;
  if (key && key.project_id === project_id && key.env === env && matchesTenant(key, tenant_id)) return;
  checked.unresolved.push(i);
  if (!key && key_id !== null && key_id !== undefined) requireId(event, "key_id", i, problems, checked.missing.keys);
  if ((!key || key.project_id !== project_id) && !known.projects.has(project_id as string)) {
    requireId(event, "project_id", i, problems, checked.missing.projects);
  }
  if (tenant_id === null || tenant_id === undefined || key?.tenant_id === tenant_id) return;
  if (!known.tenants.has(tenant_id as string)) requireId(event, "tenant_id", i, problems, checked.missing.tenants);
}

function requireId(event: Fields, name: string, i: number, problems: Problems, missing: Set<string>): void {
  const value = event[name];
  const id = typeof value === "string" ? parseUuid(value) : null;
  if (id === null) problems.addAt(i, name, value, "must be a UUID");
  else {
    event[name] = id;
    missing.add(id);
  }
}

let dayText = "";
let dayStart = 0;

/** Fast path for `YYYY-MM-DDTHH:MM:SS.sssZ`: the date is parsed once per day, the time by hand. bench: ingest/batch */
function parseEventTime(text: string): number | null {
  if (text.length === 24 && text.charCodeAt(23) === 90 && dayText !== "" && text.startsWith(dayText)) {
    const ms = timeOfDay(text);
    if (ms >= 0) return dayStart + ms;
  }
  const time = parseTimestamp(text);
  if (time !== null && text.length === 24 && text.endsWith("Z")) {
    dayText = text.slice(0, 11);
    dayStart = time - (time % DAY_MS);
  }
  return time;
}
