// Fills a throwaway instance with some weeks of a small vendor: people, projects, customers, keys in every state,
// traffic and nodes. Everything goes through the operations that the API calls, so it holds only what an instance
// can hold.
import type { SecretKeyActor } from "../../domain/core/actor.ts";
import type { Ctx, Services } from "../../domain/core/context.ts";
import { record } from "../../domain/core/record.ts";
import { reportLeaks } from "../../domain/leaks/leaks.ts";
import { createSecretKey } from "../../domain/keys/secret-keys.ts";
import { createProject } from "../../domain/workspaces/projects.ts";
import { DAY_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { touchSecretKey } from "../../store/queries/secret-keys.ts";
import type { DemoClock } from "./clock.ts";
import { changeKeys, makeCustomers, makeKeys, makePlans, type Customer, type DemoKey } from "./customers.ts";
import { addSilentNode, keepNodes } from "./nodes.ts";
import { ADMIN, DEMO_PASSWORD, invite, makeOwner, MEMBER, OWNER } from "./people.ts";
import { reportDay } from "./traffic.ts";

/** How far in the past the instance has to start: before the traffic, so that some keys are idle. */
export const DEMO_DAYS = 40;
const TRAFFIC_DAYS = 30;
/** Customers and keys come four times a day. */
const QUARTERS = 4;
const MINUTES_AGO_10 = 10 / 24 / 60;
/** Every fifth key is never used; of many keys, at most 600 are. */
const UNUSED_EVERY = 5;
const USED_MAX = 600;

export type DemoSize = { keys: number; tenants: number };
export type Demo = {
  dashboard_url: string;
  owner_email: string;
  owner_password: string;
  member_email: string;
  member_password: string;
  secret_key: string;
  project_id: string;
};

/** `onDay` receives the number of days that are done. */
export async function seedDemo(
  services: Services,
  clock: DemoClock,
  size: DemoSize,
  onDay: (days: number) => void = () => {},
): Promise<Demo> {
  const { owner, project_id } = await makeOwner(services);
  await invite(owner, ADMIN, "admin");
  await invite(owner, MEMBER, "member");
  const { id, key: secret_key } = await createSecretKey(owner, { env: "live", name: "Vendor backend" });
  const { workspace_id } = owner.actor;
  const ctx: Ctx<SecretKeyActor> = {
    services,
    actor: {
      kind: "secret_key",
      id,
      workspace_id,
      env: "live",
      owner_scope: true,
      expires_at: null,
      restriction: null,
    },
  };
  const billing = await createProject(ctx, { name: "Billing API", slug: "billing-api" });
  const maps = await createProject(ctx, { name: "Maps API", slug: "maps-api" });
  const projects = [project_id, billing.id, maps.id];
  await liveThrough(ctx, clock, size, projects, onDay);
  await addSilentNode(services, workspace_id, project_id);
  clock.goTo(0);
  // Its rows in the audit log are written without a request, which would do this.
  await record(services, (tx) =>
    touchSecretKey.run(tx, { workspace_id, id, last_used_at: services.clock.now() - 10 * MINUTE_MS }),
  );
  await keepNodes(services, workspace_id, project_id);
  const password = { owner_password: DEMO_PASSWORD, member_password: DEMO_PASSWORD };
  const emails = { owner_email: OWNER, member_email: MEMBER };
  return { dashboard_url: `${services.publicUrl}/`, ...emails, ...password, secret_key, project_id };
}

/**
 * An equal share of the customers and keys comes each quarter of a day. Some keys are revoked, disabled or rotated
 * three days later. The traffic of a day is reported at its end.
 */
async function liveThrough(
  ctx: Ctx<SecretKeyActor>,
  clock: DemoClock,
  size: DemoSize,
  projects: string[],
  onDay: (days: number) => void,
) {
  const customers: Customer[] = [];
  const plans = await makePlans(ctx);
  const keys: DemoKey[] = [];
  let changed = 0;
  const quarters = DEMO_DAYS * QUARTERS;
  for (let left = quarters - 1; left >= 0; left--) {
    clock.goTo(left === 0 ? MINUTES_AGO_10 : left / QUARTERS);
    const share = (quarters - left) / quarters;
    const missing = Math.ceil(size.tenants * share) - customers.length;
    customers.push(...(await makeCustomers(ctx, { from: customers.length, count: missing, plans })));
    const count = Math.ceil(size.keys * share) - keys.length;
    keys.push(...(await makeKeys(ctx, { from: keys.length, count, projects, customers })));
    const threeDaysAgo = ctx.services.clock.now() - 3 * DAY_MS;
    const old = keys.slice(changed).filter(({ from }) => from <= threeDaysAgo);
    await changeKeys(ctx, old, changed);
    changed += old.length;
    if (left % QUARTERS !== 0) continue;
    const day = left / QUARTERS;
    const used = keys.filter((_, n) => n % UNUSED_EVERY !== 0).slice(0, USED_MAX);
    if (day < TRAFFIC_DAYS) await reportDay(ctx, used, "orders-1");
    onDay(DEMO_DAYS - day);
  }
  const leaked = keys.findLast(({ env }, n) => env === "live" && n % 20 === 1);
  if (leaked) {
    const location = "https://github.com/example/repository/blob/main/config.js";
    const scanner = { services: ctx.services, actor: { kind: "scanner" } } as const;
    await reportLeaks(scanner, [{ token: leaked.key, type: "keyrack_api_key", location }]);
  }
}
