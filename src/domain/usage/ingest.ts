// Telemetry ingest, in the order of decision 145: an exhausted budget is refused unread, then the body is read, parsed
// and charged (that commit stands whatever follows), then validated, then its ids are checked, then it is counted.
import { isAscii, isUtf8 } from "node:buffer";
import { hash, subtle } from "node:crypto";
import { fail, type Failure } from "../../kernel/errors.ts";
import type { MaybePromise } from "../../kernel/maybe-promise.ts";
import { batchReceipt, budgetRow, chargeBudget, insertBatch, reapBatches } from "../../store/queries/ingest.ts";
import type { Tx } from "../../store/engine/statement.ts";
import { usageDayUpsert, tenantMonthUpsert, touchKey } from "../../store/queries/usage.ts";
import { confinedTo, type SecretKeyActor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { checkBatch, checkEvents } from "./ingest-events.ts";
import { sumEvents, checkOwnership, DAY_MS, type IngestTotals } from "./ingest-totals.ts";
import type { Known } from "./known-ids.ts";
import { record } from "../core/record.ts";

const MINUTE_MS = 60_000;
const EVENTS_MAX = 5_000;
const TOUCH_EVERY_MS = 60_000;
const DEPTH_MAX = 32;
/** Below this, handing it to another thread takes longer than hashing it. */
const HASH_BESIDE_MIN = 64 * 1024;

type Machine = Ctx<SecretKeyActor>;

/** `events_dropped_reported` echoes what the sender says it dropped itself. */
export type Receipt = { object: "ingest_receipt"; accepted: number; events_dropped_reported: number };
export type Ingested = { receipt: Receipt; headers: Record<string, string> };

export async function ingest(ctx: Machine, read: () => Promise<Buffer>): Promise<Ingested> {
  const { services, actor } = ctx;
  await refuseExhausted(services, actor.workspace_id);
  const { charged, tally } = begin(ctx, await read());
  const headers = budgetHeaders(services, await charged);
  return { receipt: await count(services, actor.workspace_id, await tally()), headers };
}

/**
 * All that needs no waiting, in one go: while the charge is being committed the batch is checked and added up, and the
 * parsed events are garbage before anything is awaited. Nothing is said of the batch before the charge stands.
 */
function begin(ctx: Machine, bytes: Buffer): { charged: Promise<Budget>; tally: () => Tally | Promise<Tally> } {
  const value = parse(bytes);
  const charged = charge(ctx.services, ctx.actor.workspace_id, costOf(value, eventsMax(ctx.services)));
  const tallied = attempt(() => tallyOf(ctx, value, bytes));
  return { charged, tally: () => tallied()() };
}

/** What a batch comes to. */
type Tally = { body_hash: MaybePromise<string>; events_dropped: number; figures: IngestTotals };

function tallyOf(ctx: Machine, value: unknown, bytes: Buffer): () => Tally | Promise<Tally> {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  // Held to the end: what is forgotten meanwhile, this batch still knows.
  const known = services.knownIds.of(workspace_id);
  const { batch, findings } = check(ctx, value, known);
  const body_hash = hashOf(bytes);
  const sum = (): Tally => {
    const problems = checkOwnership(batch, findings, known);
    if (problems.length > 0) throw fail("invalid_body", { details: problems });
    const figures = sumEvents(workspace_id, batch, findings, services.clock.now());
    return { body_hash, events_dropped: batch.events_dropped, figures };
  };
  const { missing } = findings;
  if (missing.keys.size + missing.projects.size + missing.tenants.size > 0) {
    return async () => {
      await services.knownIds.resolve(services.store.read, workspace_id, known, missing);
      return sum();
    };
  }
  const tally = sum();
  return () => tally;
}

/** A large batch is hashed beside the event loop, while it is checked and its charge is committed. */
function hashOf(bytes: Buffer): MaybePromise<string> {
  if (bytes.length < HASH_BESIDE_MIN) return hash("sha256", bytes);
  const digest = subtle
    .digest("SHA-256", bytes as Uint8Array<ArrayBuffer>)
    .then((sum) => Buffer.from(sum).toString("hex"));
  digest.catch(() => {}); // whoever needs it is told; a batch that is refused needs it no more
  return digest;
}

/** Runs the work now and gives its result, or throws its error, when asked. */
function attempt<T>(work: () => T): () => T {
  try {
    const value = work();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

function eventsMax(services: Services): number {
  return Math.min(EVENTS_MAX, services.settings.ingest_events_per_minute);
}

/** Undefined for what is not JSON, or too deep: it costs 1 like any other batch that cannot be counted. */
function parse(bytes: Buffer): unknown {
  const ascii = isAscii(bytes);
  if (!ascii && !isUtf8(bytes)) return undefined;
  try {
    const text = bytes.toString(ascii ? "latin1" : "utf8"); // plain ASCII needs no decoding
    const value: unknown = JSON.parse(text);
    return mayBeDeep(text, value) && isDeeper(value, DEPTH_MAX) ? undefined : value;
  } catch {
    return undefined;
  }
}

/** Unknown fields pass, so depth can hide in them; without brackets to spare beyond one an event it cannot. */
function mayBeDeep(text: string, value: unknown): boolean {
  const { events } = (value ?? {}) as { events?: unknown };
  let spare = DEPTH_MAX - 1 + (Array.isArray(events) ? events.length : 0);
  for (const bracket of ["[", "{"]) {
    for (let at = text.indexOf(bracket); at >= 0; at = text.indexOf(bracket, at + 1)) if (--spare < 0) return true;
  }
  return false;
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

function costOf(value: unknown, max: number): number {
  const events = (value as { events?: unknown } | null | undefined)?.events;
  return Array.isArray(events) && events.length <= max ? Math.max(1, events.length) : 1;
}

/** Shape, then environment: a test key reports test events only. */
function check({ services, actor }: Machine, value: unknown, known: Known) {
  if (value === undefined) throw fail("invalid_body");
  const { batch, problems } = checkBatch(value, eventsMax(services));
  const findings = checkEvents(batch?.events ?? [], known);
  const details = [...problems, ...findings.problems].slice(0, 20);
  if (!batch || details.length > 0) throw fail("invalid_body", details[0]?.path === "" ? {} : { details });
  if (findings.live && confinedTo(actor) === "test") throw fail("test_cannot_live");
  return { batch, findings };
}

// The budget: so many events a workspace and UTC minute.

type Budget = { used: number; minute: number };

async function refuseExhausted(services: Services, workspace_id: string): Promise<void> {
  const row = await budgetRow.first(services.store.read, { workspace_id });
  if (row && row.minute >= minuteOf(services) && row.used >= services.settings.ingest_events_per_minute) {
    throw overBudget(services, row);
  }
}

function minuteOf(services: Services): number {
  return Math.floor(services.clock.now() / MINUTE_MS);
}

/** In a transaction of its own: a batch that is refused afterwards has paid. */
async function charge(services: Services, workspace_id: string, cost: number): Promise<Budget> {
  const max = services.settings.ingest_events_per_minute;
  const minute = minuteOf(services);
  const { row, standing } = await record(
    services,
    async (tx) => {
      const charged = await chargeBudget.first(tx, { workspace_id, minute, cost, max });
      return { row: charged, standing: charged ? undefined : await budgetRow.first(tx, { workspace_id }) };
    },
    { batch: true },
  );
  if (!row) throw overBudget(services, standing ?? { used: max, minute });
  return { used: row.used, minute };
}

function overBudget(services: Services, budget: Budget): Failure {
  return fail("rate_limited", { retryAfterSeconds: secondsLeft(services), headers: budgetHeaders(services, budget) });
}

function secondsLeft(services: Services): number {
  return Math.max(1, Math.ceil((MINUTE_MS - (services.clock.now() % MINUTE_MS)) / 1000));
}

/** draft-ietf-httpapi-ratelimit-headers-11. */
function budgetHeaders(services: Services, { used }: Budget): Record<string, string> {
  const max = services.settings.ingest_events_per_minute;
  return {
    ratelimit: `"ingest";r=${Math.max(0, max - used)};t=${secondsLeft(services)}`,
    "ratelimit-policy": `"ingest";q=${max};w=60`,
  };
}

// The figures.

async function count(services: Services, workspace_id: string, { events_dropped, figures, ...tally }: Tally) {
  const body_hash = await tally.body_hash;
  const { accepted } = figures;
  const now = services.clock.now();
  const touched = [...figures.lastUsed].filter(([place, at]) => at - (place.last_used_at ?? 0) >= TOUCH_EVERY_MS);
  const kept = await record(
    services,
    async (tx: Tx) => {
      const row = { workspace_id, body_hash, accepted, events_dropped, created_at: now, since: now - DAY_MS };
      if (!(await insertBatch.first(tx, row))) return batchReceipt.first(tx, { workspace_id, body_hash });
      await tx.upsertAdditive(usageDayUpsert, figures.days);
      await tx.upsertAdditive(tenantMonthUpsert, figures.months);
      for (const [{ id }, at] of touched) await touchKey.run(tx, { workspace_id, id, at });
      return undefined;
    },
    { batch: true },
  );
  if (!kept) for (const [place, at] of touched) place.last_used_at = at;
  return receiptOf(kept ?? { accepted, events_dropped });
}

function receiptOf({ accepted, events_dropped }: { accepted: number; events_dropped: number }): Receipt {
  return { object: "ingest_receipt", accepted, events_dropped_reported: events_dropped };
}

export function reapIngest(services: Services): Promise<number> {
  return record(services, (tx) => reapBatches.run(tx, { before: services.clock.now() - DAY_MS }));
}
