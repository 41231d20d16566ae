// Retention of the policy feed: the delta log (7 days and 10,000 versions) and silent nodes (24 hours, and
// as long as they count as live).
import { reapVersions, oldestVersion, projectsAfter } from "../../store/queries/policy.ts";
import { reapNodes } from "../../store/queries/nodes.ts";
import type { Services } from "../core/context.ts";
import { reap } from "../core/record.ts";
import { liveSince } from "../nodes/presence.ts";
import { NODE_RETENTION_MS } from "../nodes/registry.ts";
import { correctSeenTimes } from "../nodes/seen-times.ts";
import { DELTA_VERSIONS_MAX } from "./policy.ts";
import { DELTA_AGE_MAX_MS } from "./build-page.ts";

const PROJECTS_PER_PAGE = 200;

export async function reapSilentNodes(services: Services): Promise<number> {
  await correctSeenTimes(services);
  const before = Math.min(services.clock.now() - NODE_RETENTION_MS, await liveSince(services));
  return reap(services, reapNodes, { before });
}

/** Transactions for each project with outdated versions; other projects cost one point read. */
export async function reapDeltaLog(services: Services): Promise<void> {
  const { store, clock } = services;
  const changedBefore = clock.now() - DELTA_AGE_MAX_MS;
  for (let after = ""; ; ) {
    const projects = await projectsAfter.all(store.read, { after, limit: PROJECTS_PER_PAGE });
    for (const { id, policy_version } of projects) {
      const upTo = policy_version - DELTA_VERSIONS_MAX;
      const oldest = await oldestVersion.first(store.read, { project_id: id });
      if (!oldest || (oldest.version > upTo && oldest.changed_at >= changedBefore)) continue;
      const due = { project_id: id, upTo, changedBefore };
      await reap(services, reapVersions, due);
    }
    if (projects.length < PROJECTS_PER_PAGE) return;
    after = projects.at(-1)?.id ?? "";
  }
}
