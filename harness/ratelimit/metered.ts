// A tenant and a key with quotas, and the calls that charge them, for tests and campaigns of quotas.
import type { SecretKeyActor } from "../../src/domain/core/actor.ts";
import type { Ctx, Services } from "../../src/domain/core/context.ts";
import { createKey } from "../../src/domain/keys/keys.ts";
import { checkLimits, leaseLimits, returnLease, type LimitsResult } from "../../src/domain/limits/ratelimit.ts";
import { keyBalances } from "../../src/domain/quotas/balances.ts";
import type { WithQuotas } from "../../src/domain/quotas/results.ts";
import { createProject } from "../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../src/domain/workspaces/tenants.ts";
import type { RateLimit } from "../../src/kernel/ratelimit/rule.ts";
import { completeQuota, type Quota, type QuotaInput } from "../../src/kernel/quotas/quota.ts";
import type { Lease } from "../../src/ratelimit/counter.ts";
import { vendorOf } from "../instances/services.ts";

export function quotaOf(fields: Partial<QuotaInput> = {}): Quota {
  return completeQuota({ id: "calls", amount: 1_000, refill: "monthly", time_zone: "UTC", overage: "deny", ...fields });
}

type Quotas = { key?: Quota[]; tenant?: Quota[] };
type Charge = { cost?: number; owed?: number; owed_id?: string; limits?: RateLimit[] };

export class MeteredWorld {
  readonly ctx: Ctx<SecretKeyActor>;
  readonly project_id: string;
  readonly tenant_id: string;
  readonly key_id: string;

  constructor(ctx: Ctx<SecretKeyActor>, ids: { project_id: string; tenant_id: string; key_id: string }) {
    this.ctx = ctx;
    this.project_id = ids.project_id;
    this.tenant_id = ids.tenant_id;
    this.key_id = ids.key_id;
  }

  static async create(services: Services, quotas: Quotas): Promise<MeteredWorld> {
    const ctx = await vendorOf(services);
    const { id: project_id } = await createProject(ctx, { name: "API", slug: `p-${services.newId()}` });
    const tenant = await createTenant(ctx, { external_id: "customer", quotas: quotas.tenant });
    const key = await createKey(ctx, { project_id, tenant_id: tenant.id, env: "live", quotas: quotas.key });
    return new MeteredWorld(ctx, { project_id, tenant_id: tenant.id, key_id: key.id });
  }

  /** Creates worlds in the services that the tests of a `describe` share. */
  static creatorIn(shared: () => { services: Services }): (quotas: Quotas) => Promise<MeteredWorld> {
    return (quotas) => MeteredWorld.create(shared().services, quotas);
  }

  /** The same key, seen by another process. */
  in(services: Services): MeteredWorld {
    return new MeteredWorld({ ...this.ctx, services }, this);
  }

  async check({ cost = 1, owed = 0, owed_id, limits = [] }: Charge = {}) {
    const { project_id, key_id } = this;
    const subject = { project_id, env: "live" as const, key_id, tenant_id: null };
    const body = { ...subject, cost, limits, quotas: true, owed, owed_id };
    return (await checkLimits(this.ctx, body)) as WithQuotas<LimitsResult>;
  }

  async lease(want: number, limits: RateLimit[] = []) {
    const { project_id, key_id } = this;
    const body = { project_id, env: "live" as const, key_id, tenant_id: null, want, limits, quotas: true };
    return (await leaseLimits(this.ctx, body)) as WithQuotas<Lease>;
  }

  return(lease_id: string | null, unused: number) {
    return returnLease(this.ctx, { lease_id: lease_id ?? "", unused });
  }

  /** How many of these concurrent requests are admitted. */
  async admitted(requests: number, charge: Charge = {}): Promise<number> {
    const results = await Promise.all(Array.from({ length: requests }, () => this.check(charge)));
    return results.filter(({ allowed }) => allowed).length;
  }

  async balance() {
    const { data } = await keyBalances(this.ctx, this.key_id);
    const [balance] = data;
    if (!balance) throw new Error("the key has no quota");
    return balance;
  }
}
