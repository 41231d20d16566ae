// The customers of the demonstration and their keys, in every state that a key can have.
import { rotateKey } from "../../domain/keys/key-rotation.ts";
import { createKey, revokeKey } from "../../domain/keys/keys.ts";
import { disableKey } from "../../domain/keys/disabling.ts";
import { createPlan } from "../../domain/plans/plans.ts";
import { createTenant } from "../../domain/workspaces/tenants.ts";
import type { SecretKeyActor } from "../../domain/core/actor.ts";
import type { Ctx } from "../../domain/core/context.ts";
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";

const FIRST = ["North", "Blue", "Silver", "Green", "Bright", "Stone", "River", "Cedar", "Amber", "Swift"];
const SECOND = ["wind", "field", "harbour", "bridge", "works", "labs", "freight", "foods", "media", "robotics"];
const USES = ["Backend", "Mobile app", "Nightly import", "CI", "Staging", "Analytics", "Partner", "Webhooks"];
const SCOPES = [["orders:read"], ["orders:read", "orders:write"], ["reports:read"], []];
const OVERLAP_HOURS = 24;
/** Keys made at the same time. */
const TOGETHER = 200;

export type Customer = { id: string; external_id: string };
export type DemoKey = {
  id: string;
  key: string;
  project_id: string;
  tenant_id: string;
  env: Env;
  /** When it was made, and until when it is accepted. */
  from: number;
  until: number;
};
type Vendor = Ctx<SecretKeyActor>;

/** The ids of three plans. None bounds what the keys of the demonstration have. */
export async function makePlans(ctx: Vendor): Promise<string[]> {
  const perMinute = (limit: number) => {
    return [{ id: "minute", limit, window_ms: MINUTE_MS, algorithm: "sliding" as const, scope: "tenant" as const }];
  };
  const all = [
    await createPlan(ctx, { name: "Free", slug: "free", rate_limits: perMinute(60), max_keys: 100_000 }),
    await createPlan(ctx, { name: "Team", slug: "team", rate_limits: perMinute(600) }),
    await createPlan(ctx, { name: "Business", slug: "business", scopes: [...new Set(SCOPES.flat())] }),
  ];
  return all.map(({ id }) => id);
}

type Wanted = { from: number; count: number; plans: readonly string[] };

export async function makeCustomers(ctx: Vendor, { from, count, plans }: Wanted): Promise<Customer[]> {
  return inPieces(count, (i) => {
    const n = from + i;
    const name = `${FIRST[n % 10]}${SECOND[Math.floor(n / 10) % 10]}${n < 100 ? "" : ` ${Math.floor(n / 100) + 1}`}`;
    const external_id = `cus-${String(n + 1).padStart(5, "0")}`;
    return createTenant(ctx, { external_id, name, plan_id: plans[n % plans.length], meta: { region: "eu" } });
  });
}

/** `from`: the number of keys made before; the n-th key is the same every time. */
export async function makeKeys(
  ctx: Vendor,
  { from, count, projects, customers }: { from: number; count: number; projects: string[]; customers: Customer[] },
): Promise<DemoKey[]> {
  const now = ctx.services.clock.now();
  return inPieces(count, async (i) => {
    const n = from + i;
    const [project_id, tenant_id] = [projects[n % projects.length] ?? "", customers[n % customers.length]?.id ?? ""];
    const env = n % 7 === 6 ? "test" : "live";
    const expires_at = expiryOf(n, now);
    const { id, key } = await createKey(ctx, {
      project_id,
      tenant_id,
      env,
      name: `${USES[n % USES.length]}${n % 3 === 0 ? "" : ` ${1 + (n % 5)}`}`,
      scopes: SCOPES[n % SCOPES.length],
      expires_at,
    });
    return { id, key, project_id, tenant_id, env, from: ctx.services.clock.now(), until: expires_at ?? Infinity };
  });
}

/** Some expire within a day, some within a month, most never. */
function expiryOf(n: number, now: number): number | undefined {
  if (n % 20 === 3) return now + DAY_MS;
  return n % 20 === 4 ? now + 33 * DAY_MS : undefined;
}

/** What happens to some of the keys later; `from` as above. */
export async function changeKeys(ctx: Vendor, keys: readonly DemoKey[], from: number): Promise<void> {
  await inPieces(keys.length, async (i) => {
    const n = from + i;
    const key = keys[i] as DemoKey;
    const now = ctx.services.clock.now();
    if (n % 20 === 7) await revokeKey(ctx, key.id, n % 40 === 7 ? "the customer left" : undefined);
    if (n % 20 === 11) await disableKey(ctx, key.id, "unpaid invoice");
    if (n % 20 === 13) await rotateKey(ctx, key.id, OVERLAP_HOURS);
    if (n % 20 === 7 || n % 20 === 11) key.until = now;
    if (n % 20 === 13) key.until = now + OVERLAP_HOURS * HOUR_MS;
  });
}

async function inPieces<T>(count: number, make: (i: number) => Promise<T>): Promise<T[]> {
  const made: T[] = [];
  while (made.length < count) {
    const size = Math.min(TOGETHER, count - made.length);
    made.push(...(await Promise.all(Array.from({ length: size }, (_, i) => make(made.length + i)))));
  }
  return made;
}
