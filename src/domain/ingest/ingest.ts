// Telemetry ingest, in a fixed order: reject an exhausted budget before reading the body; read and parse the batch;
// validate it and check the ownership of its ids; charge it and add it to the usage totals, in one transaction. An
// invalid batch is charged too.
import { hash, subtle } from "node:crypto";
import { DAY_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { fail, Failure } from "../../kernel/errors.ts";
import type { RateLimitState } from "../../kernel/ratelimit/headers.ts";
import { MIB } from "../../kernel/sizes.ts";
import { batchReceipt, insertBatch, lockBudget, reapBatches, type KnownKey } from "../../store/queries/ingest.ts";
import { insertJournal } from "../../store/queries/series.ts";
import type { Tx } from "../../store/engine/tx.ts";
import { telemetryDayUpsert } from "../../store/queries/idle-keys.ts";
import { lastUseUpsert } from "../../store/queries/last-uses.ts";
import { usageDayUpsert, tenantMonthUpsert, touchKeys } from "../../store/queries/usage.ts";
import { confinedTo, ownerOf, projectsOf } from "../core/actor.ts";
import type { Machine, Services } from "../core/context.ts";
import { budgetMax, budgetState, charge, chargeIn, ingestLocks, rejectExhausted, requireCharged } from "./budget.ts";
import type { Charged } from "./budget.ts";
import type { RawBody } from "./raw-body.ts";
import { degradedNodes, degradedUpsert } from "./degraded-nodes.ts";
import { checkBatch, checkEvents, DETAILS_MAX } from "./events.ts";
import { parseBatch, parseInPieces } from "./parse.ts";
import { checkOwnership, checkProjects } from "./ownership.ts";
import { sumEvents, type IngestTotals } from "./totals.ts";
import { saveNetworks } from "../usage/key-networks.ts";
import type { KnownOwners } from "./known-ids.ts";
import { moveUses } from "../search/changes.ts";
import { reap, record } from "../core/record.ts";

export const EVENTS_MAX = 5_000;
const TOUCH_EVERY_MS = MINUTE_MS;
/**
 * Copying a smaller body for another thread takes the event loop longer than hashing it with SHA instructions. Without
 * them, hashing takes six times as long as copying at this size. bench: ingest/batch
 */
const ASYNC_HASH_MIN_BYTES = MIB / 4;

/** `events_dropped_reported` echoes the number of events that the sender itself has dropped. */
type Receipt = { object: "ingest_receipt"; accepted: number; events_dropped_reported: number };
type Ingested = { receipt: Receipt; rateLimit: RateLimitState };

export async function ingest(ctx: Machine, read: () => Promise<RawBody>): Promise<Ingested> {
  await rejectExhausted(ctx);
  const { cost, sum, rest } = await read()
    .then((body) => begin(ctx, body))
    .catch((error: unknown) => chargeComplex(ctx, error));
  if (sum) return save(ctx, sum, (tx) => chargeIn(tx, ctx, cost));
  const budget = await charge(ctx, cost);
  return save(ctx, await rest(), async (tx) => {
    await lockBudget.first(tx, { workspace_id: ctx.actor.workspace_id });
    return budget;
  });
}

/**
 * `sum`, unless the batch is invalid or has ids that must be looked up: then it is charged first, and `rest` does that.
 */
type Begun = { cost: number } & ({ sum: BatchSum; rest?: never } | { sum?: never; rest: () => Promise<BatchSum> });

/**
 * Checks and sums the batch synchronously, so that the parsed events are garbage before the next await. bench:
 * ingest/batch
 */
async function begin(ctx: Machine, { bytes, pieces }: RawBody): Promise<Begun> {
  const max = eventsMax(ctx);
  const { value, requireClean } = pieces ? await parseInPieces(bytes, pieces, max) : parseBatch(bytes);
  if (pieces) await ctx.requireStillValid?.(); // the credential may have ended between two turns
  const cost = costOf(value, max);
  try {
    requireClean();
    return { cost, ...sumBatch(ctx, value, bytes) };
  } catch (error) {
    return { cost, rest: () => Promise.reject(error) };
  }
}

type BatchSum = {
  node_id: string;
  body_hash: Promise<string>;
  events_dropped: number;
  totals: IngestTotals;
};

function sumBatch(ctx: Machine, value: unknown, bytes: Buffer): { sum: BatchSum } | { rest: () => Promise<BatchSum> } {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  // Keep this reference until the end: the cache may forget it meanwhile.
  const owner = ownerOf(actor);
  const known = services.knownIds.of(owner);
  const { batch, checked } = check(ctx, value, known);
  const body_hash = hashOf(bytes);
  body_hash.catch(() => {}); // handled by the awaiting caller; a rejected batch never awaits it
  const sum = (): BatchSum => {
    const projects = projectsOf(actor);
    const problems = projects ? checkProjects(batch, projects) : [];
    problems.push(...checkOwnership(batch, checked, known));
    if (problems.length > 0) throw fail("invalid_body", { details: problems });
    const totals = sumEvents(workspace_id, batch, checked, {
      now: services.clock.now(),
      series: services.settings.series,
      lastUsedDetail: services.settings.last_used_detail,
    });
    const { node_id, events_dropped } = batch;
    return { node_id, body_hash, events_dropped, totals };
  };
  const { missing } = checked;
  if (missing.keys.size + missing.projects.size + missing.tenants.size === 0) return { sum: sum() };
  return {
    rest: async () => {
      await services.knownIds.resolve(services.store.read, workspace_id, owner, known, missing);
      return sum();
    },
  };
}

/** A very large batch is hashed on another thread, so that it does not hold the event loop. */
async function hashOf(bytes: Buffer): Promise<string> {
  if (bytes.length < ASYNC_HASH_MIN_BYTES) return hash("sha256", bytes);
  return Buffer.from(await subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>)).toString("hex");
}

function eventsMax(ctx: Machine): number {
  return Math.min(EVENTS_MAX, budgetMax(ctx));
}

/** A batch that was too complex to be parsed costs 1. */
async function chargeComplex(ctx: Machine, error: unknown): Promise<never> {
  const isComplex = error instanceof Failure && error.failure === "body_too_complex";
  if (isComplex) await charge(ctx, 1).catch(() => {}); // it is refused either way
  throw error;
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
  const details = [...problems, ...checked.problems].slice(0, DETAILS_MAX);
  if (!batch || details.length > 0) throw fail("invalid_body", { details });
  if (checked.live && confinedTo(ctx.actor) === "test") throw fail("test_cannot_live");
  return { batch, checked };
}

/**
 * `charge` locks the workspace's budget: batches of one workspace are saved one after the other, also by other
 * processes.
 */
async function save(ctx: Machine, sum: BatchSum, charge: (tx: Tx) => Promise<Charged>): Promise<Ingested> {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const { totals } = sum;
  const body_hash = await sum.body_hash;
  const journal = (await totals.journal) ?? [];
  const now = services.clock.now();
  const receipt = { accepted: totals.accepted, events_dropped: sum.events_dropped };
  // In the order of ids, so that two processes with the same keys hardly deadlock.
  const touched = [...totals.lastUsed]
    .filter(([key, at]) => at - (key.last_used_at ?? 0) >= TOUCH_EVERY_MS)
    .toSorted(([a], [b]) => (a.id < b.id ? -1 : 1));
  const { charged, earlier } = await record(
    services,
    async (tx: Tx) => {
      const charged = await charge(tx);
      if (charged.exceeded) return { charged };
      const row = { workspace_id, body_hash, ...receipt, created_at: now, since: now - DAY_MS };
      if (!(await insertBatch.first(tx, row)))
        return { charged, earlier: await batchReceipt.first(tx, { workspace_id, body_hash }) };
      await tx.upsertAdditive(usageDayUpsert, totals.days);
      await tx.upsertAdditive(tenantMonthUpsert, totals.months);
      await tx.upsertAdditive(telemetryDayUpsert, totals.reported);
      await tx.upsertAdditive(lastUseUpsert, totals.lastUses);
      await saveNetworks(tx, totals.networks);
      for (const data of journal)
        await insertJournal.insertDeferred(tx, { id: services.newId(), workspace_id, created_at: now, data });
      if (touched.length > 0) await touchUsed(tx, workspace_id, touched);
      await tx.upsertAdditive(degradedUpsert, degradedNodes(actor, { ...sum, at: now }));
      return { charged };
    },
    // The bound on networks depends on what the batch before has stored.
    { batch: totals.networks.length === 0, owner: ownerOf(actor), locks: ingestLocks(ctx) },
  );
  const rateLimit = budgetState(ctx, requireCharged(ctx, charged));
  if (earlier) return { receipt: receiptOf(earlier), rateLimit };
  for (const [key, at] of touched) key.last_used_at = at;
  services.counts.series.countIgnored(totals.ignored);
  return { receipt: receiptOf(receipt), rateLimit };
}

/** Keys that were not used within the minute before. */
async function touchUsed(tx: Tx, workspace_id: string, touched: [KnownKey, number][]): Promise<void> {
  await moveUses(tx, workspace_id, touched);
  await touchKeys(
    tx,
    workspace_id,
    touched.map(([{ id }, at]) => ({ id, at })),
  );
}

function receiptOf({ accepted, events_dropped }: { accepted: number; events_dropped: number }): Receipt {
  return { object: "ingest_receipt", accepted, events_dropped_reported: events_dropped };
}

export function reapIngest(services: Services): Promise<number> {
  const before = services.clock.now() - DAY_MS;
  return reap(services, reapBatches, { before });
}
