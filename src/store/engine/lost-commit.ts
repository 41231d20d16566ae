// Whether a group was committed whose connection was lost at COMMIT. Never retried blindly: it may have been.
import { isRecorded } from "./audit-ledger.ts";
import type { Driver } from "./driver.ts";
import type { QueuedJob } from "./job.ts";
import { PolicyVersions } from "./policy-versions.ts";
import { JobTransaction } from "./transaction.ts";

/**
 * It was if its audit rows exist once its transaction has ended, which outlives the connection. False where that takes
 * longer than the database waits for a lock.
 */
export async function wasCommitted(driver: Driver, group: readonly QueuedJob[]): Promise<boolean> {
  const entry = group.flatMap(({ outcome }) => outcome?.entries ?? [])[0];
  const own = new JobTransaction(driver, new PolicyVersions());
  try {
    await driver.reconnect();
    if (!entry) return false;
    await driver.begin();
    return await isRecorded(own.branded, entry);
  } catch {
    return false;
  } finally {
    own.close();
    await driver.writer.exec("rollback").catch(() => {});
  }
}
