// The scheduled job of key policies: revokes idle keys, and notifies owners of keys that are about to end.
import { errorFields } from "../../platform/errors.ts";
import { getFact, setFact } from "../core/facts.ts";
import { policyProjects, reapIdleRevocations, reapTelemetryDays } from "../../store/queries/idle-keys.ts";
import type { Services } from "../core/context.ts";
import { parseKeyPolicy } from "./key-policy.ts";
import { reap } from "../core/record.ts";
import { revokeIdle } from "./idle.ts";
import { forgetNotices, sendDigest } from "./notices.ts";
import { DAY_MS, utcDay } from "../../kernel/durations.ts";

/** The longest window of a policy. */
const KEEP_DAYS = 3_650;

/** Several runs within the interval, by whichever process leads, are one. */
export async function runKeyPolicies(services: Services): Promise<void> {
  const every = services.settings.key_policy_every;
  if (every === null) return;
  const now = services.clock.now();
  const last = Number((await getFact(services.store.read, "key_policy_run")) ?? 0);
  if (now >= last && now - last < every) return;
  await setFact(services, "key_policy_run", String(now));
  await applyKeyPolicies(services);
  const firstDay = utcDay(now) - KEEP_DAYS;
  await reap(services, reapTelemetryDays, { before: firstDay });
  await reap(services, reapIdleRevocations, { before: now - DAY_MS });
  await forgetNotices(services, now);
}

/** A project that fails keeps no other from its turn. */
export async function applyKeyPolicies(services: Services): Promise<void> {
  let blocked = 0;
  const projects = await policyProjects.all(services.store.read, {});
  for (const own of Map.groupBy(projects, (project) => project.workspace_id).values()) {
    let waiting = 0;
    for (const project of own) {
      if (services.shutdown.signal.aborted) return;
      await attempt(services, project.id, async () => {
        const { idle_revoke_days } = parseKeyPolicy(project.key_policy);
        if (idle_revoke_days === null) return;
        const state = await revokeIdle(services, project, idle_revoke_days);
        if (state.isBlocked) blocked++;
        waiting += state.waiting;
      });
    }
    await attempt(services, own[0]?.id, () => sendDigest(services, own, waiting));
  }
  services.worker.keyPoliciesBlocked = blocked;
}

async function attempt(services: Services, project_id: string | undefined, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    services.log.error("key policy failed", { project_id, ...errorFields(error) });
  }
}
