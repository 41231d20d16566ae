// A deployment with many keys, created in this process.
import { startInstance, type RunningInstance } from "../src/server/start.ts";
import type { Settings } from "../src/config/settings.ts";
import { createKey } from "../src/domain/keys/keys.ts";
import { createProject } from "../src/domain/workspaces/projects.ts";
import { createTenant } from "../src/domain/workspaces/tenants.ts";
import { createLog } from "../src/platform/log.ts";
import { vendorOf } from "../harness/instances/services.ts";

const AT_ONCE = 500;

/** Starts an instance on these settings and mints keys, each with its audit row. The caller stops it. */
export async function filledApp(settings: Settings, keys: number): Promise<RunningInstance> {
  const app = await startInstance({ settings, log: createLog({ level: "error" }) });
  const { services } = app;
  const ctx = await vendorOf(services, "live", "filled");
  const project = await createProject(ctx, { name: "P", slug: "ppp" });
  const tenant = await createTenant(ctx, { external_id: "t" });
  const want = { project_id: project.id, tenant_id: tenant.id, env: "live" as const };
  for (let done = 0; done < keys; done += AT_ONCE)
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, keys - done) }, () => createKey(ctx, want)));
  return app;
}
