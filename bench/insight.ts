// Metering: rankings of usage, quotas beside none, and a plan of many tenants; the export of the audit log.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { ingest } from "../src/domain/ingest/ingest.ts";
import { foldJournal } from "../src/domain/series/fold.ts";
import { createPlan, editPlan } from "../src/domain/plans/plans.ts";
import { openRaw } from "../harness/databases/raw-sql.ts";
import { startServer } from "../harness/processes/server.ts";
import { telemetryBatch, telemetryEvent } from "../harness/telemetry.ts";
import { auditExport } from "./audit-export.ts";
import { measured } from "./ingest.ts";
import { withLarge, type Large } from "./large.ts";
import { openClient } from "./large-requests.ts";
import { bodyOf } from "./ratelimit.ts";
import { median, type Row } from "./report.ts";
import type { RowName } from "./rows.ts";
import { inTurns, perSecond, type Pair, type Side } from "./turns.ts";
import { HOUR_MS } from "../src/kernel/durations.ts";

const HOURS = 30 * 24;
const EVENTS = 1_000;
const ROUTES = 50;
const SERIES_MAX_MS = 50;
const DELAY_MAX_MS = 5;
const IDLE_MS = 3_000;
const ROUNDS = 15;
const PLAN_TENANTS = 100_000;

const row = (name: RowName, ours: number, peer: number, target: string, unit = "ms"): Row => {
  return { name, ours, peer, ratio: ours / peer, target, unit };
};

/** A month of traffic, reported hour by hour: each event stands for fourteen, which makes ten million. */
async function report({ ctx, project_id, app, target }: Large, clock: { ms: number }): Promise<void> {
  const raw = await openRaw(target);
  const keys = await raw.all("select id, tenant_id from api_keys limit 1000");
  await raw.close();
  for (let hour = 0; hour < HOURS; hour++) {
    const events = Array.from({ length: EVENTS }, (_, i) => {
      const { id: key_id, tenant_id } = keys[i % keys.length]!;
      const ts = new Date(clock.ms - (i % 60) * 60_000).toISOString();
      const request_id = `${hour}-${i}`;
      return telemetryEvent({ ts, project_id, request_id, key_id, tenant_id, route: `/r/${i % ROUTES}` });
    });
    const bytes = Buffer.from(JSON.stringify(telemetryBatch(events, { sample_rate: 0.072 })));
    await ingest(ctx, async () => measured(bytes));
    await foldJournal(app.services);
    clock.ms += HOUR_MS;
  }
}

/** The delay of the event loop meanwhile, p99 in milliseconds. */
async function delayed<T>(work: () => Promise<T>): Promise<{ result: T; p99: number }> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const result = await work();
  delay.disable();
  return { result, p99: delay.percentile(99) / 1e6 };
}

async function rankings(): Promise<Row[]> {
  const clock = { ms: Date.now() - HOURS * HOUR_MS };
  const now = (): number => clock.ms;
  const options = { clock: { now, steady: now, setBack: () => {} }, flags: { ingest_events_per_minute: "1000000000" } };
  const size = { keys: 1_000, tenants: 200 };
  const timed = async (large: Large): Promise<Row[]> => {
    await report(large, clock);
    const from = new Date(clock.ms - HOURS * HOUR_MS).toISOString();
    const time = async (query: string): Promise<number> => {
      const client = openClient(large);
      const ms: number[] = [];
      for (let round = 0; round < ROUNDS; round++)
        ms.push((await client.send({ name: query, path: `/v1/usage/series?bucket=hour&from=${from}&${query}` })).ms);
      await client.close();
      return median(ms);
    };
    const idle = await delayed(() => new Promise((resolve) => setTimeout(resolve, IDLE_MS)));
    const ranked = await delayed(() => time("group_by=tenant&top=10"));
    return [
      row("insight/top-tenants", ranked.result, SERIES_MAX_MS, "<= 1.0"),
      row("insight/top-tenants-loop", Math.max(0, ranked.p99 - idle.p99), DELAY_MAX_MS, "<= 1.0"),
      row("insight/outcomes", await time("group_by=outcome"), SERIES_MAX_MS, "<= 1.0"),
    ];
  };
  return withLarge("sqlite", size, timed, options);
}

/** Requests a second of a key with a quota that is never used up, or without one. */
async function limiter(verb: "check" | "lease", hasQuota: boolean): Promise<Side> {
  const server = await startServer(["--ephemeral", "--seed"]);
  const { url = "", secret_key = "", project_id = "", tenant_id = "" } = server.ready as Record<string, string>;
  const headers = { authorization: `Bearer ${secret_key}`, "content-type": "application/json" };
  const quotas = [{ id: "calls", amount: 1e12, refill: "monthly" }];
  const key = { project_id, tenant_id, env: "live", ...(hasQuota && { quotas }) };
  const made = await fetch(`${url}/v1/keys`, { method: "POST", headers, body: JSON.stringify(key) });
  const { id: key_id } = (await made.json()) as { id: string };
  const { cost, ...subject } = JSON.parse(bodyOf(project_id, tenant_id)) as Record<string, unknown>;
  const units = verb === "check" ? { cost } : { want: 100 };
  const body = JSON.stringify({ ...subject, ...units, key_id, ...(hasQuota && { quotas: true }) });
  const options = { url: `${url}/v1/ratelimit/${verb}`, method: "POST", headers, body };
  return { measure: (times) => perSecond({ ...options, ...times }, "200"), end: () => server.end("SIGTERM") };
}

const besideNone = (verb: "check" | "lease"): Promise<Pair> =>
  inTurns({ ours: () => limiter(verb, true), peer: () => limiter(verb, false) });

/** Milliseconds of a changed limit of a plan with almost all tenants, and of one with ten. */
function planPatch(): Promise<Row> {
  return withLarge("sqlite", { keys: 1_000, tenants: PLAN_TENANTS }, async ({ ctx, target, tenant_ids }) => {
    const large = await createPlan(ctx, { name: "Large", slug: "large" });
    const small = await createPlan(ctx, { name: "Small", slug: "small" });
    const raw = await openRaw(target);
    await raw.all("update tenants set plan_id = $1", [large.id]);
    for (const id of tenant_ids.slice(0, 10))
      await raw.all("update tenants set plan_id = $1 where id = $2", [small.id, id]);
    await raw.close();
    const seen: Record<string, number[]> = { [large.id]: [], [small.id]: [] };
    for (let round = 0; round < ROUNDS; round++)
      for (const [id, ms] of Object.entries(seen)) {
        const rule = { id: "rule", limit: round + 1, window_ms: 60_000, algorithm: "sliding", scope: "key" } as const;
        const start = performance.now();
        await editPlan(ctx, id, { rate_limits: [rule] });
        ms.push(performance.now() - start);
      }
    return row("insight/plan-patch", median(seen[large.id]!), median(seen[small.id]!), "<= 1.5");
  });
}

export async function insight(): Promise<Row[]> {
  return [
    ...(await rankings()),
    ...(await auditExport()),
    { name: "insight/check-quota", ...(await besideNone("check")), target: ">= 0.85", unit: "/s" },
    { name: "insight/lease-quota", ...(await besideNone("lease")), target: ">= 0.9", unit: "/s" },
    await planPatch(),
  ];
}
