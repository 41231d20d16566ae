// Whether a group was committed whose connection was lost at COMMIT. Never retried blindly: it may have been.
import { isRecorded, lockHeads } from "./audit-ledger.ts";
import type { Driver } from "./driver.ts";
import type { QueuedJob } from "./job.ts";
import { PolicyVersions } from "./policy-versions.ts";
import { JobTransaction } from "./transaction.ts";

/**
 * It was if its audit rows exist once its transaction, which outlives the connection, has ended: then the lock on its
 * audit head is free. Where another transaction holds that for longer than the database waits for a lock, rows that
 * exist are committed all the same.
 */
export async function wasCommitted(driver: Driver, group: readonly QueuedJob[]): Promise<boolean> {
  const entry = group.flatMap(({ outcome }) => outcome?.entries ?? [])[0];
  const own = new JobTransaction(driver, new PolicyVersions());
  try {
    await driver.reconnect();
    if (!entry) return false;
    await driver.begin();
    await lockHeads(own.branded, [entry.workspace_id]).catch(() => driver.writer.exec("rollback"));
    return await isRecorded(own.branded, entry);
  } catch {
    return false;
  } finally {
    own.close();
    await driver.writer.exec("rollback").catch(() => {});
  }
}
