// The number of active keys that a plan allows a tenant in each environment. Counted in the transaction that adds one:
// the workspace's audit head is locked, and jobs of a batch share the count, so concurrent creations never exceed it.
import { fail } from "../../kernel/errors.ts";
import { countActiveKeys } from "../../store/queries/plans.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { ApiKeyRow, PlanRow } from "../../store/schema/tables.ts";

/** Call it last before a key is inserted, or made to work again: it counts that key. */
export async function takeKeyPlace(
  tx: Tx,
  plan: Pick<PlanRow, "max_keys"> | null,
  { workspace_id, tenant_id, env }: Pick<ApiKeyRow, "workspace_id" | "tenant_id" | "env">,
  now: number,
): Promise<void> {
  const max = plan?.max_keys ?? null;
  if (max === null) return;
  const active = await tx.tally(`keys ${tenant_id} ${env}`, () =>
    countActiveKeys.count(tx, { workspace_id, tenant_id, env, now, max }),
  );
  if (active.n >= max) throw fail("plan_keys_cap");
  active.n++;
}
