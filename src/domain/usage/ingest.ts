// Telemetry ingest, in a fixed order: reject an exhausted budget before reading the body; read, parse and charge the batch
// (an invalid batch is charged too); validate it; check the ownership of its ids; add it to the usage totals.
import { isAscii, isUtf8 } from "node:buffer";
import { hash, subtle } from "node:crypto";
import { fail, Failure } from "../../kernel/errors.ts";
import type { MaybePromise } from "../../kernel/maybe-promise.ts";
import { batchReceipt, budgetRow, chargeBudget, insertBatch, reapBatches } from "../../store/queries/ingest.ts";
import { insertJournal } from "../../store/queries/series.ts";
import type { Tx } from "../../store/engine/statement.ts";
import { telemetryDayUpsert } from "../../store/queries/idle-keys.ts";
import { usageDayUpsert, tenantMonthUpsert, touchKey } from "../../store/queries/usage.ts";
import { confinedTo, ownerOf, projectsOf, type SecretKeyActor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { checkBatch, checkEvents } from "./ingest-events.ts";
import { sumEvents, checkOwnership, checkProjects, DAY_MS, type IngestTotals } from "./ingest-totals.ts";
import type { KnownOwners } from "./known-ids.ts";
import { record } from "../core/record.ts";

const MINUTE_MS = 60_000;
const EVENTS_MAX = 5_000;
const TOUCH_EVERY_MS = 60_000;
/** Smaller bodies are hashed faster than they are handed to another thread. */
const ASYNC_HASH_MIN_BYTES = 64 * 1024;

type Machine = Ctx<SecretKeyActor>;

/** `events_dropped_reported` echoes the number of events that the sender itself has dropped. */
export type Receipt = { object: "ingest_receipt"; accepted: number; events_dropped_reported: number };
export type Ingested = { receipt: Receipt; headers: Record<string, string> };

export async function ingest(ctx: Machine, read: () => Promise<Buffer>): Promise<Ingested> {
  const { services, actor } = ctx;
  await rejectExhausted(services, actor);
  const { charged, sum } = begin(ctx, await read().catch((error: unknown) => chargeComplex(ctx, error)));
  const headers = budgetHeaders(services, actor, await charged);
  return { receipt: await saveTotals(ctx, await sum()), headers };
}

/**
 * Checks and sums the batch synchronously while its charge is being committed, so that the parsed events are garbage before
 * the first await. Its result is reported only after the charge. bench: ingest/batch
 */
function begin(ctx: Machine, bytes: Buffer): { charged: Promise<Budget>; sum: () => MaybePromise<BatchSum> } {
  const value = parse(bytes);
  const charged = charge(ctx.services, ctx.actor, costOf(value, eventsMax(ctx)));
  const summed = capture(() => sumBatch(ctx, value, bytes));
  return { charged, sum: () => summed()() };
}

type BatchSum = { body_hash: MaybePromise<string>; events_dropped: number; totals: IngestTotals };

function sumBatch(ctx: Machine, value: unknown, bytes: Buffer): () => MaybePromise<BatchSum> {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  // Keep this reference until the end: the cache may be cleared meanwhile.
  const known = services.knownIds.of(workspace_id);
  const { batch, checked } = check(ctx, value, known);
  const body_hash = hashOf(bytes);
  const sum = (): BatchSum => {
    const projects = projectsOf(actor);
    const problems = projects ? checkProjects(batch, projects) : [];
    problems.push(...checkOwnership(batch, checked, known));
    if (problems.length > 0) throw fail("invalid_body", { details: problems });
    const totals = sumEvents(workspace_id, batch, checked, {
      now: services.clock.now(),
      series: services.settings.series,
    });
    return { body_hash, events_dropped: batch.events_dropped, totals };
  };
  const { missing } = checked;
  if (missing.keys.size + missing.projects.size + missing.tenants.size > 0) {
    return async () => {
      await services.knownIds.resolve(services.store.read, workspace_id, known, missing);
      return sum();
    };
  }
  const result = sum();
  return () => result;
}

/** A large batch is hashed on another thread while it is checked and its charge is committed. bench: ingest/batch */
function hashOf(bytes: Buffer): MaybePromise<string> {
  if (bytes.length < ASYNC_HASH_MIN_BYTES) return hash("sha256", bytes);
  const digest = subtle
    .digest("SHA-256", bytes as Uint8Array<ArrayBuffer>)
    .then((sum) => Buffer.from(sum).toString("hex"));
  digest.catch(() => {}); // handled by the awaiting caller; a rejected batch never awaits it
  return digest;
}

/** Runs `work` now; the returned function returns its result or throws its error. */
function capture<T>(work: () => T): () => T {
  try {
    const value = work();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

function eventsMax({ services, actor }: Machine): number {
  return Math.min(EVENTS_MAX, maxOf(services, actor));
}

/** A batch that was too complex to be parsed costs 1. */
async function chargeComplex({ services, actor }: Machine, error: unknown): Promise<never> {
  const isComplex = error instanceof Failure && error.failure === "body_too_complex";
  if (isComplex) await charge(services, actor, 1).catch(() => {}); // it is refused either way
  throw error;
}

/** Undefined for invalid JSON: such a batch costs 1. */
function parse(bytes: Buffer): unknown {
  const ascii = isAscii(bytes);
  if (!ascii && !isUtf8(bytes)) return undefined;
  try {
    const text = bytes.toString(ascii ? "latin1" : "utf8"); // ASCII needs no decoding. bench: ingest/batch
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function costOf(value: unknown, max: number): number {
  const events = (value as { events?: unknown } | null | undefined)?.events;
  return Array.isArray(events) && events.length <= max ? Math.max(1, events.length) : 1;
}

/** Shape first, then environment: a test key may report test events only. */
function check(ctx: Machine, value: unknown, known: KnownOwners) {
  if (value === undefined) throw fail("invalid_body");
  const { batch, problems } = checkBatch(value, eventsMax(ctx));
  const checked = checkEvents(batch?.events ?? [], known);
  const details = [...problems, ...checked.problems].slice(0, 20);
  if (!batch || details.length > 0) throw fail("invalid_body", details[0]?.path === "" ? {} : { details });
  if (checked.live && confinedTo(ctx.actor) === "test") throw fail("test_cannot_live");
  return { batch, checked };
}

// The budget: events per workspace and UTC minute. Test credentials may use a part of it, and never refuse events of live.

type Budget = { used: number; test_used: number };

const TEST_PART = 0.25;

function maxOf({ settings }: Services, { env }: SecretKeyActor): number {
  const max = settings.ingest_events_per_minute;
  return env === "test" ? Math.ceil(max * TEST_PART) : max;
}

function remaining(services: Services, actor: SecretKeyActor, { used, test_used }: Budget): number {
  const max = services.settings.ingest_events_per_minute;
  const left = actor.env === "test" ? Math.min(maxOf(services, actor) - test_used, max - used - test_used) : max - used;
  return Math.max(0, left);
}

async function rejectExhausted(services: Services, actor: SecretKeyActor): Promise<void> {
  const row = await budgetRow.first(services.store.read, { workspace_id: actor.workspace_id });
  if (row && row.minute >= minuteOf(services) && remaining(services, actor, row) === 0)
    throw overBudget(services, actor, row);
}

function minuteOf(services: Services): number {
  return Math.floor(services.clock.now() / MINUTE_MS);
}

/** In its own transaction, so that a batch rejected later is charged too. */
async function charge(services: Services, actor: SecretKeyActor, cost: number): Promise<Budget> {
  const { workspace_id, env } = actor;
  const max = services.settings.ingest_events_per_minute;
  const costs = env === "test" ? { cost: 0, test_cost: cost } : { cost, test_cost: 0 };
  const bounds = { max, test_max: Math.ceil(max * TEST_PART) };
  const { row, current } = await record(
    services,
    async (tx) => {
      const charged = await chargeBudget.first(tx, { workspace_id, minute: minuteOf(services), ...costs, ...bounds });
      return { row: charged, current: charged ? undefined : await budgetRow.first(tx, { workspace_id }) };
    },
    { batch: true, owner: ownerOf(actor) },
  );
  if (!row) throw overBudget(services, actor, current ?? { used: max, test_used: 0 });
  return row;
}

function overBudget(services: Services, actor: SecretKeyActor, budget: Budget): Failure {
  services.shares.of("ingest").countRefusal(ownerOf(actor));
  const headers = budgetHeaders(services, actor, budget);
  return fail("rate_limited", { retryAfterSeconds: secondsLeft(services), headers });
}

function secondsLeft(services: Services): number {
  return Math.max(1, Math.ceil((MINUTE_MS - (services.clock.now() % MINUTE_MS)) / 1000));
}

/** draft-ietf-httpapi-ratelimit-headers-11. */
function budgetHeaders(services: Services, actor: SecretKeyActor, budget: Budget): Record<string, string> {
  const max = services.settings.ingest_events_per_minute;
  return {
    ratelimit: `"ingest";r=${remaining(services, actor, budget)};t=${secondsLeft(services)}`,
    "ratelimit-policy": `"ingest";q=${max};w=60`,
  };
}

// The totals.

async function saveTotals({ services, actor }: Machine, { events_dropped, totals, ...sum }: BatchSum) {
  const { workspace_id } = actor;
  const body_hash = await sum.body_hash;
  const journal = (await totals.series?.rows) ?? [];
  const { accepted } = totals;
  const now = services.clock.now();
  const touched = [...totals.lastUsed].filter(([key, at]) => at - (key.last_used_at ?? 0) >= TOUCH_EVERY_MS);
  const earlier = await record(
    services,
    async (tx: Tx) => {
      const row = { workspace_id, body_hash, accepted, events_dropped, created_at: now, since: now - DAY_MS };
      if (!(await insertBatch.first(tx, row))) return batchReceipt.first(tx, { workspace_id, body_hash });
      await tx.upsertAdditive(usageDayUpsert, totals.days);
      await tx.upsertAdditive(tenantMonthUpsert, totals.months);
      await tx.upsertAdditive(telemetryDayUpsert, totals.reported);
      for (const data of journal)
        await insertJournal.insertDeferred(tx, { id: services.newId(), workspace_id, created_at: now, data });
      for (const [{ id }, at] of touched) await touchKey.run(tx, { workspace_id, id, at });
      return undefined;
    },
    { batch: true, owner: ownerOf(actor) },
  );
  if (!earlier) for (const [key, at] of touched) key.last_used_at = at;
  if (!earlier && totals.series) services.series.countIgnored(totals.series.ignored);
  return receiptOf(earlier ?? { accepted, events_dropped });
}

function receiptOf({ accepted, events_dropped }: { accepted: number; events_dropped: number }): Receipt {
  return { object: "ingest_receipt", accepted, events_dropped_reported: events_dropped };
}

export function reapIngest(services: Services): Promise<number> {
  return record(services, (tx) => reapBatches.run(tx, { before: services.clock.now() - DAY_MS }));
}
