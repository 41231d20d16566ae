// Every advisory lock of Keyrack on PostgreSQL with a fixed number; src/store/engine/group-locks.ts derives others from
// names. Caution: processes of different versions exclude each other by these numbers. Do not change or reuse one.

/** Held by the transaction that migrates. */
export const MIGRATION_LOCK = 1_263_682_379;

/** The two keys of the leader's lock, held by its listening session. */
export const LEADER_LOCK = [1_263_682_379, 1] as const;

/** Held while pg_dump runs. */
export const BACKUP_LOCK = 1_263_682_380;

/** Held in the scratch database while a restore test uses it. */
export const RESTORE_TEST_LOCK = 1_263_682_381;

/**
 * Held while missing indexes are built. Builds of earlier versions take the backup's number, so one of them and one of
 * this version may meet. That is harmless: both need the lock of the same table, PostgreSQL ends one of two that wait
 * for each other, which tries again, and an index that is not valid is never used.
 */
export const INDEX_LOCK = 1_263_682_382;

/** Held by a command that no server may run beside. Versions before this one do not look for it. */
export const MAINTENANCE_LOCK = 1_263_682_383;
