// Deletes balances that no quota refers to any more. A balance of a calendar with periods is of no use once its period is long
// over; one that is never refilled stays as long as its quota is defined, or deleting it would refill it.
import { calendarName } from "../../kernel/quotas/quota.ts";
import type { Reader } from "../../store/engine/statement.ts";
import {
  deleteBalance,
  raiseUsedAt,
  reapHoldings,
  reapProcesses,
  subjectQuotas,
  unusedBalances,
} from "../../store/queries/quotas.ts";
import type { QuotaBalanceRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { parseQuotas } from "./stored.ts";

const DAY_MS = 86_400_000;
const KEPT_MS = 400 * DAY_MS;
const PIECE_ROWS = 500;
/** Longer than a process that lives holds units without reporting them again. */
const REPORTS_KEPT_MS = 60_000;

export async function reapBalances(services: Services): Promise<number> {
  const now = services.clock.now();
  const before = now - REPORTS_KEPT_MS;
  await record(services, (tx) => reapHoldings.run(tx, { before }));
  await record(services, (tx) => reapProcesses.run(tx, { before }));
  const rows = await unusedBalances.all(services.store.read, { before: now - KEPT_MS, limit: PIECE_ROWS });
  if (rows.length === 0) return 0;
  return record(services, async (tx) => {
    let deleted = 0;
    for (const row of rows) {
      // One that is still defined is looked at again after as long.
      if (await isDefined(tx, row)) await raiseUsedAt.run(tx, { ...row, used_at: now });
      else deleted += await deleteBalance.run(tx, row);
    }
    return deleted;
  });
}

async function isDefined(
  on: Reader,
  { workspace_id, subject_id, quota_id, calendar }: QuotaBalanceRow,
): Promise<boolean> {
  const rows = await subjectQuotas.all(on, { workspace_id, subject_id });
  return rows.some(({ quotas }) =>
    parseQuotas(quotas).some((quota) => quota.id === quota_id && calendarName(quota) === calendar),
  );
}
