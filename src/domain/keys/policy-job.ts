// The scheduled job of key policies: revokes idle keys, and notifies owners of keys that are about to end.
import { readFact, writeFact } from "../../store/queries/deployment.ts";
import { policyProjects, reapIdleRevocations, reapTelemetryDays } from "../../store/queries/idle-keys.ts";
import type { Services } from "../core/context.ts";
import { DAY_MS, parseKeyPolicy } from "../core/key-policy.ts";
import { record } from "../core/record.ts";
import { revokeIdle } from "./idle.ts";
import { forgetNotices, sendDigest } from "./notices.ts";

/** The longest window of a policy. */
const KEEP_DAYS = 3_650;

/** Several runs within the interval, by whichever process leads, are one. */
export async function runKeyPolicies(services: Services): Promise<void> {
  const every = services.settings.key_policy_every;
  if (every === null) return;
  const now = services.clock.now();
  const last = Number((await readFact.first(services.store.read, { name: "key_policy_run" }))?.value ?? 0);
  if (now >= last && now - last < every) return;
  await record(services, async (tx) => {
    await writeFact.run(tx, { name: "key_policy_run", value: String(now) });
    await reapTelemetryDays.run(tx, { before: Math.floor(now / DAY_MS) - KEEP_DAYS });
    await reapIdleRevocations.run(tx, { before: now - DAY_MS });
    await forgetNotices(tx, now);
  });
  await applyKeyPolicies(services);
}

export async function applyKeyPolicies(services: Services): Promise<void> {
  let blocked = 0;
  const projects = await policyProjects.all(services.store.read, {});
  for (const project of projects) {
    if (services.shutdown.signal.aborted) return;
    const { idle_revoke_days } = parseKeyPolicy(project.key_policy);
    if (idle_revoke_days !== null && (await revokeIdle(services, project, idle_revoke_days))) blocked++;
  }
  for (const own of Map.groupBy(projects, (project) => project.workspace_id).values()) await sendDigest(services, own);
  services.worker.keyPoliciesBlocked = blocked;
}
