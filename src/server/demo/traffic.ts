// The requests of the demonstration's customers, as nodes report them: with a daily rhythm, and with every reason
// for which a request is denied.
import { ingest } from "../../domain/ingest/ingest.ts";
import type { SecretKeyActor } from "../../domain/core/actor.ts";
import type { Ctx } from "../../domain/core/context.ts";
import { HOUR_MS } from "../../kernel/durations.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { VERSION } from "../../platform/version.ts";
import type { DemoKey } from "./customers.ts";

const ROUTES = [
  ["GET", "/orders"],
  ["GET", "/orders/{id}"],
  ["POST", "/orders"],
  ["GET", "/reports/{month}"],
  ["DELETE", "/orders/{id}"],
] as const;
const DENIALS = [
  [429, "rate_limited"],
  [403, "insufficient_scope"],
  [401, "expired_key"],
  [401, "invalid_key"],
  [422, "idempotency_mismatch"],
  [503, "unavailable"],
] as const;
/** The library that its nodes run. */
export const SDK = { name: "@keyrack/sdk", version: VERSION };
/** Each reported event stands for ten. */
const SAMPLE_RATE = 0.1;

/** Reports the last 24 hours. */
export async function reportDay(ctx: Ctx<SecretKeyActor>, keys: readonly DemoKey[], node_id: string): Promise<void> {
  const now = ctx.services.clock.now();
  const hours = Array.from({ length: 24 }, (_, hour) => now - (24 - hour) * HOUR_MS);
  const events = hours
    .flatMap((start) => {
      const accepted = keys.filter(({ from, until }) => from <= start && until >= start + HOUR_MS);
      return Array.from({ length: accepted.length === 0 ? 0 : eventsAt(start) }, () => ({ start, accepted }));
    })
    .map(({ start, accepted }, n) => eventOf(accepted, start, n));
  const batch = { object: "ingest_batch", protocol_version: 1, node_id, sdk: SDK, sample_rate: SAMPLE_RATE, events };
  await ingest(ctx, async () => ({ bytes: Buffer.from(JSON.stringify(batch)) }));
}

/** More by day than by night, less on weekends. */
function eventsAt(ms: number): number {
  const at = new Date(ms);
  const daily = 14 + Math.round(12 * Math.sin(((at.getUTCHours() - 6) / 24) * 2 * Math.PI));
  return at.getUTCDay() % 6 === 0 ? Math.ceil(daily / 2) : daily;
}

function eventOf(keys: readonly DemoKey[], start: number, n: number) {
  // A few keys, old and new, make most of the requests.
  const rank = Math.floor((((n * 7_919) % 997) ** 2 / 997 ** 2) * keys.length);
  const key = keys[n % 2 === 0 ? rank : keys.length - 1 - rank] as DemoKey;
  const [method, route] = ROUTES[n % ROUTES.length] as (typeof ROUTES)[number];
  const [status, reason] = n % 17 === 0 ? (DENIALS[(n / 17) % DENIALS.length] ?? DENIALS[0]) : [200, null];
  const isUnknown = reason === "invalid_key";
  // The keys that are chosen have not expired.
  const isOther = isUnknown || reason === "expired_key";
  return {
    request_id: `demo-${start}-${n}`,
    ts: formatTimestamp(start + ((n * 104_729) % HOUR_MS)),
    project_id: key.project_id,
    tenant_id: isUnknown ? null : key.tenant_id,
    key_id: isOther ? null : key.id,
    env: key.env,
    method,
    path: route.replace(/\{.*\}/, "1"),
    route,
    status: reason === null && n % 53 === 0 ? 500 : status,
    denial_reason: reason,
    duration_ms: 3 + ((n * 31) % 90),
    degraded: false,
  };
}
