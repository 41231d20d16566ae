// Opens the database of a deployment, with what surrounds the migration of an existing one: permission, a backup as the
// way back, and a refusal that names this backup when an older binary meets the migrated database.
import { backUpBeforeMigration, findWayBack } from "../backup/before-migration.ts";
import type { Manifest } from "../backup/files.ts";
import { BadSetting, type Settings } from "../config/settings.ts";
import { ExitError } from "../kernel/exit-error.ts";
import type { Log } from "../platform/log.ts";
import { openReadOnly, openStore } from "../store/database.ts";
import { SchemaRefused, SchemaTooNew, type MigrationPlan } from "../store/schema/migrate.ts";
import type { Store, StoreOptions } from "../store/store.ts";
import type { DatabaseTarget } from "../store/target.ts";

type Deployment = {
  settings: Settings;
  target: DatabaseTarget;
  log: Log;
  now: () => number;
  /** Instead of what KEYRACK_MIGRATE says. */
  migrate?: MigrateMode;
  /** The caller excludes other processes itself. */
  locked?: boolean;
  forceReadOnly?: boolean;
};

/** `never`: for commands other than `serve`, `db migrate` and `restore`, which must not change a schema on the way. */
export type MigrateMode = Settings["migrate"] | "never";

type DeploymentStore = {
  store: Store;
  /** Made because opening it migrated the database. */
  migrationBackup: Manifest | undefined;
};

export async function openDeploymentStore(deployment: Deployment, options: StoreOptions): Promise<DeploymentStore> {
  const { target, locked, forceReadOnly, settings, migrate = settings.migrate } = deployment;
  let migrationBackup: Manifest | undefined;
  const beforeMigrate = async (plan: MigrationPlan): Promise<void> => {
    migrationBackup = await prepareMigration(deployment, plan);
  };
  try {
    const yieldsToCommands = !locked;
    const store = await (forceReadOnly
      ? openReadOnly(requireSqlite(target), options)
      : openStore(target, { ...options, yieldsToCommands, beforeMigrate, leaveIndexes: migrate !== "auto" }));
    return { store, migrationBackup };
  } catch (error) {
    throw await withWayBack(error, deployment);
  }
}

function requireSqlite(target: DatabaseTarget): DatabaseTarget & { kind: "sqlite" } {
  if (target.kind === "sqlite") return target;
  throw new BadSetting("--force-read-only is for a damaged SQLite database. Restore a backup of PostgreSQL instead.");
}

/** Throws if the migration may not run. Returns the backup that it made, if any. */
async function prepareMigration(deployment: Deployment, plan: MigrationPlan): Promise<Manifest | undefined> {
  const { settings, target, log, migrate = settings.migrate } = deployment;
  const { from, to, pending, inUse } = plan;
  if (migrate === "never") {
    const why = from === 0 ? "is empty" : `has schema ${from}, and this version of Keyrack needs ${to}`;
    throw new SchemaRefused(`The database ${why}. Run keyrack db migrate, or start the server.`);
  }
  if (from === 0) return undefined; // a new database: nothing is migrated, the schema is created
  if (migrate === "refuse")
    throw new SchemaRefused(
      `The database has schema ${from}, this version of Keyrack needs ${to}, and KEYRACK_MIGRATE=refuse. Run keyrack db migrate.`,
    );
  log.info("migrating the database", { from, to, migrations: pending.join(" ") });
  if (!inUse) return undefined;
  if (target.kind === "postgres") {
    log.warn("PostgreSQL is migrated without a backup: the way back is your own backup", { from, to });
    return undefined;
  }
  return settings.backup_before_migrate ? backUp(deployment, target.file, to) : undefined;
}

async function backUp({ settings, log, now }: Deployment, file: string, to: number): Promise<Manifest> {
  try {
    const manifest = await backUpBeforeMigration(settings, { file, to, now: now() });
    log.info("backup before the migration created", { backup_id: manifest.id, bytes: manifest.bytes });
    return manifest;
  } catch (error) {
    const { message } = error as Error;
    throw new ExitError(
      `The database was not migrated, because the backup before it failed: ${message.replace(/\.$/, "")}. Nothing was changed. Fix this, or set KEYRACK_BACKUP_BEFORE_MIGRATE=off.`,
      1,
    );
  }
}

/** Names the backup that leads back from a newer schema; returns any other error unchanged. */
async function withWayBack(error: unknown, { settings, target }: Deployment): Promise<unknown> {
  if (!(error instanceof SchemaTooNew)) return error;
  const backup = await findWayBack(settings, target, error.known);
  if (!backup) return error;
  return new SchemaRefused(
    `${error.problem} Use a newer Keyrack. To go back, stop every process and run keyrack restore ${backup.id} --force: the backup of ${backup.manifest.created_at}, before the upgrade. What was written since is lost.`,
  );
}
