// The figures of workspaces, kept for a moment: every open dashboard asks for them again and again.
import { FairMap } from "../../fairness/fair-map.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { cellOwner } from "../../fairness/owners.ts";
import type { Env } from "../../kernel/credentials.ts";
import type { Vendor } from "../core/actor.ts";
import type { Clock } from "../core/clock.ts";

export type Overview = {
  object: "overview";
  env: Env;
  generated_at: string;
  keys: { active: number; expiring: number; idle: number; quarantined: number };
  leaks: { unreplaced: number; stops_at: string | null };
  tenants: number;
  projects: number;
  nodes: { live: number; current: number };
  first_verified_at: string | null;
  audit: { head_seq: number; head_hash: string };
};

type Caller = Pick<Vendor, "workspace_id" | "account_id">;

const KEPT_MS = 2_000;

export class OverviewCache {
  readonly #clock: Pick<Clock, "now">;
  readonly #kept: FairMap<{ until: number; overview: Promise<Overview> }>;

  constructor(clock: Pick<Clock, "now">, ledger: Ledger) {
    this.#clock = clock;
    this.#kept = new FairMap(ledger);
  }

  /** Callers at the same time share one computation. One that failed is not kept. */
  get({ workspace_id, account_id }: Caller, env: Env, compute: () => Promise<Overview>): Promise<Overview> {
    const owner = cellOwner(workspace_id, env, account_id);
    const kept = this.#kept.get(owner.id);
    if (kept && this.#clock.now() < kept.until) return kept.overview;
    const overview = compute();
    this.#kept.set(owner, owner.id, { until: this.#clock.now() + KEPT_MS, overview });
    overview.catch(() => {
      if (this.#kept.get(owner.id)?.overview === overview) this.#kept.delete(owner.id);
    });
    return overview;
  }
}
