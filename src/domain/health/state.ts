// Health as plain values: what /status reports, and the state of backups and jobs it is derived from.
import { DAY_MS } from "../../kernel/durations.ts";

/** A restore test that is older makes the status degraded while tests are scheduled. */
export const RESTORE_TEST_AGE_MAX_MS = 8 * DAY_MS;

export const HEALTHS = ["ok", "degraded", "down", "disabled", "unknown"] as const;
export type Health = (typeof HEALTHS)[number];

/** Times in milliseconds; null = never. Provided by the backup schedule. */
export type BackupState = {
  readonly lastSuccessAt: number | null;
  /** The last backup or its hook failed, or the last restore test could not run. */
  readonly failing?: boolean;
  readonly restoreTest: {
    readonly lastRunAt: number | null;
    readonly pass: boolean | null;
    readonly backupId: string | null;
  };
};

export const NO_BACKUPS: BackupState = {
  lastSuccessAt: null,
  restoreTest: { lastRunAt: null, pass: null, backupId: null },
};

export type Status = {
  status: "ok" | "degraded" | "down";
  components: { api: Health; database: Health; redis: Health; worker: Health; backup: Health };
  restoreTest: { lastRunAt: string | null; pass: boolean | null; backupId: string | null };
  /** Versions of the processes on this database: more than one only during an upgrade. */
  versions: string[];
};

/** The last computed status. */
export type StatusCache = { until: number; status: Promise<Status> | undefined };

/** Whether the instance has an owner: forever once it has, else until the given time. */
export type SetupState = { claimed: boolean; unclaimedUntil: number };

/** `leads`: this process is the leader and runs the scheduled jobs. `failing`: the jobs whose last run failed. */
export type WorkerState = {
  leads: boolean;
  /** When this process last found a leader, itself or another, by `performance.now()`; absent where no job runs. */
  leaderSeenAt?: number;
  readonly failing: Set<string>;
  /** Projects whose idle keys the last run could not revoke. */
  keyPoliciesBlocked?: number;
  /** Runs of the search index in a row that left the writer to others. */
  searchSkips?: number;
  /** Approximate number of key changes that the search index lacked at its last run. */
  searchBacklog?: number;
  /**
   * Running passes of the search index, one for each environment of a workspace that is searched while
   * its index is behind.
   */
  readonly searchPasses: Map<string, Promise<boolean>>;
};
