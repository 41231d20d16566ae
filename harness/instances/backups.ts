// Helpers for tests of backups: data to back up, the file to damage, and the state that /status derives from the
// record.
import { join } from "node:path";
import { backupStateOf, readBackupLog } from "../../src/backup/schedule.ts";
import type { Services } from "../../src/domain/core/context.ts";
import { backupHealth } from "../../src/domain/health/status.ts";
import { createTenant } from "../../src/domain/workspaces/tenants.ts";
import type { Backend } from "../databases/backends.ts";
import { vendorOf, type TestServices } from "./services.ts";

export const HOUR_MS = 3_600_000;

/** The backup component of /status, with the record it is derived from. */
export const backupStatus = async (services: Services) => ({
  status: backupHealth(services, await backupStateOf(services)),
  ...(await readBackupLog(services)),
});

export async function addTenants({ services }: TestServices): Promise<void> {
  const ctx = await vendorOf(services);
  for (let i = 0; i < 5; i++) await createTenant(ctx, { external_id: `t${i}` });
}

/** The database copy in a backup's folder. */
export const copyIn = (folder: string, backend: Backend): string =>
  join(folder, backend === "sqlite" ? "keyrack.db" : "keyrack.dump");
