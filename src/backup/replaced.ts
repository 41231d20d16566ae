// What a restore reports about the database that it replaces: what was stopped there after the backup and works again.
import type { Log } from "../platform/log.ts";
import { withSource, type Source } from "../store/offline/source.ts";
import {
  countReturnedMembers,
  findLostStops,
  findMovedBalances,
  findUndoneGrants,
  findWidened,
  type Confined,
  type Paused,
  type ReplacedBalance,
  type ReplacedGrant,
  type ReplacedState,
  type StoppedKey,
} from "../store/queries/restore.ts";
import type { DatabaseTarget } from "../store/target.ts";

/** `calendar`, `period_start` and `spent` are null if only grants of the balance differ: these have no period. */
type MovedBalance = Pick<ReplacedBalance, "subject_id" | "env" | "quota_id"> & {
  [K in "calendar" | "period_start" | "spent"]: ReplacedBalance[K] | null;
};

/** Numbers are null if no database was replaced, or if the replaced one could not be read. */
export type LostChanges = {
  revoked_after_backup: number | null;
  /** Keys that were revoked after the backup and are valid again. */
  revived: StoppedKey[];
  /** Keys that were quarantined as leaked after the backup and are no longer quarantined. */
  released: StoppedKey[];
  /** Keys disabled and tenants suspended after the backup. */
  disabled_after_backup: number | null;
  suspended_after_backup: number | null;
  /** Keys and tenants confined to networks since the backup, and those of them that may be used from others again. */
  narrowed_after_backup: number | null;
  widened: Confined[];
  /** The disabled keys and suspended tenants that work again. */
  resumed: Paused[];
  /** Members who were removed or had a lower role, and projects and tenants that were deleted: they are back. */
  members_returned: number | null;
  projects_returned: number | null;
  tenants_returned: number | null;
  /** Balances of quotas: units spent after the backup can be spent again, or grants are not as they were. */
  balances_moved: number | null;
  moved_balances: MovedBalance[];
  /** Grants created after the backup: they are gone, and so are their references. */
  grants_lost: number | null;
  lost_grants: ReplacedGrant[];
  /** Grants voided after the backup whose units can be spent again. */
  grants_revived: number | null;
  revived_grants: ReplacedGrant[];
};

const UNKNOWN: LostChanges = {
  revoked_after_backup: null,
  revived: [],
  released: [],
  disabled_after_backup: null,
  suspended_after_backup: null,
  narrowed_after_backup: null,
  widened: [],
  resumed: [],
  members_returned: null,
  projects_returned: null,
  tenants_returned: null,
  balances_moved: null,
  moved_balances: [],
  grants_lost: null,
  lost_grants: [],
  grants_revived: null,
  revived_grants: [],
};

/** Null when the database is too damaged to be read: that is a common reason for a restore. */
export async function readReplaced<T>(
  { target, log }: { target: DatabaseTarget; log: Log },
  read: (source: Source) => Promise<T>,
): Promise<T | null> {
  try {
    return await withSource(target, read);
  } catch (error) {
    log.warn("the replaced database cannot be read", { error: (error as Error).message });
    return null;
  }
}

/** Compares the replaced database with the restored one. */
export async function findLostChanges(restored: DatabaseTarget, before: ReplacedState | null): Promise<LostChanges> {
  if (!before) return UNKNOWN;
  return withSource(restored, async (source) => {
    const revoked = await findLostStops(source, before.revoked, "revoked_at");
    const quarantined = await findLostStops(source, before.quarantined, "quarantined_at");
    const disabled = await findLostStops(source, before.disabled, "disabled_at");
    const suspended = await findLostStops(source, before.suspended, "suspended_at");
    const projects = await findLostStops(source, before.deletedProjects, "deleted_at");
    const tenants = await findLostStops(source, before.deletedTenants, "deleted_at");
    const confined = await findWidened(source, before.confined);
    const grants = await findUndoneGrants(source, before.grants);
    const spent = await findMovedBalances(source, before.balances);
    const moved_balances = withGrants(spent, [...grants.lost, ...grants.revived]);
    return {
      revoked_after_backup: revoked.lost,
      revived: revoked.back,
      released: quarantined.back,
      disabled_after_backup: before.disabled.length,
      suspended_after_backup: before.suspended.length,
      narrowed_after_backup: confined.lost,
      widened: confined.back,
      resumed: [...disabled.back, ...suspended.back],
      members_returned: await countReturnedMembers(source, before.members),
      projects_returned: projects.back.length,
      tenants_returned: tenants.back.length,
      balances_moved: moved_balances.length,
      moved_balances,
      grants_lost: grants.lost.length,
      lost_grants: grants.lost,
      grants_revived: grants.revived.length,
      revived_grants: grants.revived,
    };
  });
}

/** Adds the balances of which only grants differ. */
function withGrants(spent: readonly MovedBalance[], grants: readonly ReplacedGrant[]): MovedBalance[] {
  const nameOf = ({ subject_id, env, quota_id }: MovedBalance | ReplacedGrant) => `${subject_id}/${env}/${quota_id}`;
  const moved = new Set(spent.map(nameOf));
  const others = new Map(grants.filter((grant) => !moved.has(nameOf(grant))).map((grant) => [nameOf(grant), grant]));
  const unspent = { calendar: null, period_start: null, spent: null };
  return [
    ...spent,
    ...[...others.values()].map(({ subject_id, env, quota_id }) => ({ subject_id, env, quota_id, ...unspent })),
  ];
}
