// `keyrack db migrate/check/copy`.
import { resolve } from "node:path";
import type { Command } from "commander";
import type { CopiedDatabase } from "../../backup/database-copy.ts";
import { readers, type DatabaseSetting } from "../../config/parsers.ts";
import {
  operatorFlags,
  operatorSettings,
  refuseWhileRunning,
  show,
  withServices,
  type OperatorOptions,
} from "../operator.ts";
import { createSteps } from "../ui/progress-steps.ts";
import { ExitError, table } from "../ui/output.ts";

export function addDbCommands(program: Command): void {
  const db = program.command("db").description("The database's schema.");
  operatorFlags(db.command("migrate"), [
    "keyrack db migrate",
    "keyrack db migrate --database-url postgres://keyrack@db/keyrack",
  ])
    .description("Bring the schema up to date. A server does this by itself when it starts; refused while one runs.")
    .action((options: OperatorOptions) => migrate(options));
  operatorFlags(db.command("check"), ["keyrack db check --data-dir /var/lib/keyrack", "keyrack db check --json"])
    .description(
      "Check schema, integrity and every audit chain, read-only and beside a running server. Exit 4 when something is wrong.",
    )
    .action((options: OperatorOptions) => check(options));
  operatorFlags(db.command("copy"), [
    "keyrack db copy --to postgres://keyrack@db/keyrack --dry-run",
    "keyrack db copy --database-url postgres://keyrack@db/keyrack --to sqlite:./keyrack-data/keyrack.db",
  ])
    .description(
      "Move a whole deployment from SQLite to PostgreSQL or back, every value and every audit chain verified.",
    )
    .option("--to <url>", "the new database: sqlite:FILE or postgres://…")
    .option("--dry-run", "check both sides and say what would be copied")
    .action((options: CopyOptions) => copy(options));
}

type CopyOptions = OperatorOptions & { to?: string; dryRun?: true };

/** The other database, as a setting would name it. */
function readTarget(text: string | undefined): Exclude<DatabaseSetting, { kind: "default" }> {
  if (!text) throw new ExitError("--to is missing: sqlite:FILE or postgres://…", 2);
  try {
    const setting = readers.database(text);
    if (setting.kind !== "default") return setting;
  } catch (error) {
    throw new ExitError(`--to ${(error as Error).message}.`, 2);
  }
  throw new ExitError("--to is missing: sqlite:FILE or postgres://…", 2);
}

async function copy(options: CopyOptions): Promise<void> {
  const to = readTarget(options.to);
  const settings = operatorSettings(options);
  await refuseWhileRunning(resolve(settings.data_dir), "copy it");
  const { copyOffline } = await import("../../server/offline.ts");
  const steps = createSteps();
  let copied: CopiedDatabase;
  try {
    copied = await copyOffline({ settings, to, dryRun: options.dryRun === true, onProgress: steps.tell });
  } finally {
    steps.end();
  }
  show(options, { json: copied, quiet: String(copied.rows), human: copiedText(copied) });
}

function copiedText({ from, to, dry_run, tables, rows, chains, audit_rows, took_ms }: CopiedDatabase): string {
  const filled = tables.filter((each) => each.rows > 0).map((each) => [`  ${each.name}`, String(each.rows)]);
  const proof = `${chains} audit chains (${audit_rows} rows) verified`;
  const seconds = `${(took_ms / 1_000).toFixed(1)} s`;
  if (dry_run)
    return `${table(filled)}\nWould copy ${rows} rows from ${from}\nto ${to}. ${proof} here; nothing was written.`;
  return [
    table(filled),
    `Copied ${rows} rows from ${from}`,
    `to ${to} in ${seconds}: every value equal, ${proof} there.`,
    "Set KEYRACK_DATABASE_URL to the new database and start the server. Never start one on the old again.",
  ].join("\n");
}

async function migrate(options: OperatorOptions): Promise<void> {
  const applied = await withServices(options, async (services) => services.store.applied);
  const human = applied.length > 0 ? `Applied ${applied.join(", ")}.` : "The schema is up to date.";
  show(options, { json: { object: "migration", applied }, quiet: applied.join("\n"), human });
}

async function check(options: OperatorOptions): Promise<void> {
  const [{ databaseOf, verifyOffline, withSource }, chains, { loadMigrations }] = await Promise.all([
    import("./audit/offline.ts"),
    import("../../store/offline/chains.ts"),
    import("../../store/schema/migrate.ts"),
  ]);
  const target = await databaseOf(options);
  const known = loadMigrations(target.kind);
  const findings = await withSource(target, async (source) => {
    const past = await chains.appliedMigrations(source);
    const foreign = past.filter(
      ({ version, checksum }) => known.find((one) => one.version === version)?.checksum !== checksum,
    );
    const pending = known.filter(({ version }) => !past.some((one) => one.version === version));
    return [
      ...foreign.map(({ name }) => `migration ${name} is not one of this version's`),
      ...pending.map(({ name }) => `migration ${name} is pending: run keyrack db migrate, or start the server`),
      ...(await chains.integrityFindings(source, target.kind === "sqlite")),
    ];
  });
  const verdicts = await verifyOffline(options, async () => undefined);
  for (const { workspace_id, verified, broken_seq, reason } of verdicts)
    if (!verified) findings.push(`audit chain ${workspace_id} is broken at seq ${broken_seq}: ${reason}`);
  const ok = findings.length === 0;
  const human = ok
    ? `The database is sound: schema up to date, ${verdicts.length} audit chains whole.`
    : findings.join("\n");
  show(options, {
    json: { object: "database_check", ok, findings, chains: verdicts.length },
    quiet: findings.join("\n"),
    human,
  });
  if (!ok) throw new ExitError(`${findings.length} findings.`, 4);
}
