// Deletes grants that have ended, and balances that no quota refers to any more. A balance of a calendar with periods
// is of no use once its period is long over; one that is never refilled stays as long as its quota is defined, or
// deleting it would refill it.
import { DAY_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { calendarName } from "../../kernel/quotas/quota.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import { reapEndedGrants } from "../../store/queries/quota-grants.ts";
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
import { reap, record } from "../core/record.ts";
import { parseQuotas } from "./stored.ts";

const KEPT_MS = 400 * DAY_MS;
/** Every other writer waits for a piece, and each row takes two statements. */
const PIECE_ROWS = 100;
/** Longer than a live process goes without reporting its units again. */
const REPORTS_KEPT_MS = MINUTE_MS;

export async function reapBalances(services: Services): Promise<number> {
  const now = services.clock.now();
  const before = now - REPORTS_KEPT_MS;
  await reap(services, reapHoldings, { before });
  await reap(services, reapProcesses, { before });
  for (let deleted = 0; ; ) {
    const rows = await unusedBalances.all(services.store.read, { before: now - KEPT_MS, limit: PIECE_ROWS });
    if (rows.length > 0) deleted += await record(services, (tx) => deleteUndefined(tx, rows, now));
    if (rows.length < PIECE_ROWS) return deleted;
  }
}

async function deleteUndefined(tx: Tx, rows: readonly QuotaBalanceRow[], now: number): Promise<number> {
  let deleted = 0;
  for (const row of rows) {
    // A balance that is still defined is examined again after the same period.
    if (await isDefined(tx, row)) await raiseUsedAt.run(tx, { ...row, used_at: now });
    else deleted += await deleteBalance.run(tx, row);
  }
  return deleted;
}

/** Deletes grants that ended long ago and have no reference: a reference stays used forever. Returns their number. */
export function reapGrants(services: Services): Promise<number> {
  const before = services.clock.now() - KEPT_MS;
  return reap(services, reapEndedGrants, { before });
}

async function isDefined(
  on: Reader,
  { workspace_id, subject_id, quota_id, calendar }: QuotaBalanceRow,
): Promise<boolean> {
  const rows = await subjectQuotas.all(on, { workspace_id, subject_id });
  return rows.some(({ quotas }) =>
    parseQuotas(quotas).some((quota) => quota.id === quota_id && calendarName(quota) === calendar.toLowerCase()),
  );
}
