// Which quotas apply to a key: its own and those of its tenant. Read at most once in 5 s a process, and again after
// every change that this process makes.
import { FairMap } from "../../fairness/fair-map.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import type { Owner } from "../../fairness/owners.ts";
import type { Env } from "../../kernel/credentials.ts";
import type { Quota } from "../../kernel/quotas/quota.ts";
import type { Reader } from "../../store/engine/tx.ts";
import { keyDefinition, tenantDefinition } from "../../store/queries/quotas.ts";
import type { Clock } from "../core/clock.ts";
import { parseQuotas } from "./stored.ts";

const DEFINITIONS_MS = 5_000;

/** A quota and the balance that it is charged to: of a tenant, or of a key and all keys that rotation made of it. */
export type Metered = {
  readonly scope: "key" | "tenant";
  readonly source: "key" | "tenant" | "plan";
  readonly subject_id: string;
  readonly env: Env;
  readonly quota: Quota;
};

/** `project_id` is null if the request names only a tenant. */
export type Definition = {
  readonly project_id: string | null;
  readonly env: Env;
  readonly metered: readonly Metered[];
};

type Entry = {
  readonly definition: Definition | null;
  /** Sequence number of the read. */
  readonly order: number;
  readonly until: number;
};

type MeteredSubject = { workspace_id: string; key_id: string | null; tenant_id: string | null; env: Env };

type TenantQuotas = { tenant_quotas: string | null; plan_quotas: string | null };

/** A tenant's own quotas, else those of its plan; an empty list of its own is none. */
function tenantMetered({ tenant_quotas, plan_quotas }: TenantQuotas, subject_id: string, env: Env): Metered[] {
  const source = tenant_quotas === null ? "plan" : "tenant";
  const quotas = parseQuotas(tenant_quotas ?? plan_quotas);
  return quotas.map((quota) => ({ scope: "tenant", source, subject_id, env, quota }));
}

export async function readDefinition(on: Reader, { workspace_id, key_id, tenant_id, env }: MeteredSubject) {
  if (key_id === null) {
    const tenant = tenant_id === null ? undefined : await tenantDefinition.first(on, { workspace_id, id: tenant_id });
    return tenant ? { project_id: null, env, metered: tenantMetered(tenant, tenant.id, env) } : null;
  }
  const row = await keyDefinition.first(on, { workspace_id, id: key_id });
  if (!row) return null;
  const own = parseQuotas(row.quotas).map(
    (quota): Metered => ({ scope: "key", source: "key", subject_id: row.lineage_id ?? row.id, env: row.env, quota }),
  );
  return { project_id: row.project_id, env: row.env, metered: [...own, ...tenantMetered(row, row.tenant_id, row.env)] };
}

export class Definitions {
  readonly #clock: Clock;
  readonly #entries: FairMap<Entry>;
  /** Changes of workspaces in the last seconds, the oldest first. */
  readonly #changes = new Map<string, { readonly order: number; readonly until: number }>();
  /** The last sequence number of reads and changes. */
  #order = 0;

  constructor(ledger: Ledger, clock: Clock) {
    this.#clock = clock;
    this.#entries = new FairMap(ledger);
  }

  /** This process changed quotas of a workspace: what was read of it before is read again. */
  changed(workspace_id: string): void {
    const now = this.#clock.now();
    for (const [id, { until }] of this.#changes) {
      if (now < until) break;
      this.#changes.delete(id); // whatever was read before it is outdated
    }
    this.#changes.delete(workspace_id);
    this.#changes.set(workspace_id, { order: ++this.#order, until: now + DEFINITIONS_MS });
  }

  /** Null for a key or tenant that is not in the workspace. Without a promise if it was read lately. */
  of(on: Reader, owner: Owner, subject: MeteredSubject): Definition | null | Promise<Definition | null> {
    const { workspace_id, key_id, tenant_id, env } = subject;
    const id = `${workspace_id}/${key_id === null ? `${tenant_id}/${env}` : key_id}`;
    const known = this.#entries.get(id);
    const changedAt = this.#changes.get(workspace_id)?.order ?? 0;
    if (known && known.order > changedAt && this.#clock.now() < known.until) return known.definition;
    return this.#read(on, owner, id, subject);
  }

  async #read(on: Reader, owner: Owner, id: string, subject: MeteredSubject): Promise<Definition | null> {
    const order = ++this.#order;
    const until = this.#clock.now() + DEFINITIONS_MS;
    const definition = await readDefinition(on, subject);
    this.#entries.set(owner, id, { definition, order, until });
    return definition;
  }
}
