// `keyrack db migrate/check/copy`.
import { resolve } from "node:path";
import type { Command } from "commander";
import type { CopiedDatabase } from "../../backup/database-copy.ts";
import { database, type DatabaseSetting } from "../../config/parsers.ts";
import { createLog } from "../../platform/log.ts";
import { operatorFlags, operatorSettings, refuseWhileRunning, type OperatorOptions } from "../operator.ts";
import { ExitError, plural, printResult, table } from "../ui/output.ts";
import { withProgress } from "../ui/progress.ts";

export function addTo(program: Command): void {
  const db = program.command("db");
  operatorFlags(
    db.command("migrate"),
    ["keyrack db migrate", "keyrack db migrate --database-url postgres://keyrack@db/keyrack"],
    "print only the applied migrations",
  )
    .description(
      "Apply pending schema migrations. A server does this when it starts. On SQLite, refused while one is running.",
    )
    .action((options: OperatorOptions) => migrate(options));
  operatorFlags(
    db.command("check"),
    ["keyrack db check --data-dir /var/lib/keyrack", "keyrack db check --json"],
    "print only problems",
  )
    .description(
      "Check schema, integrity and every audit chain. Read-only, safe while a server is running. Exit 4 on problems.",
    )
    .action((options: OperatorOptions) => check(options));
  operatorFlags(
    db.command("copy"),
    [
      "keyrack db copy --to postgres://keyrack@db/keyrack --dry-run",
      "keyrack db copy --database-url postgres://keyrack@db/keyrack --to sqlite:./keyrack-data/keyrack.db",
    ],
    "print only the number of rows",
  )
    .description("Copy a deployment from SQLite to PostgreSQL or back, and verify every value and every audit chain.")
    .option("--to <url>", "the new database: sqlite:FILE or postgres://…")
    .option("--dry-run", "check both databases and show what would be copied")
    .action((options: CopyOptions) => copy(options));
}

type CopyOptions = OperatorOptions & { to?: string; dryRun?: true };

const MISSING_TO = "Missing --to: sqlite:FILE or postgres://…";

function parseTo(text: string | undefined): Exclude<DatabaseSetting, { kind: "default" }> {
  if (!text) throw new ExitError(MISSING_TO, 2);
  try {
    const setting = database(text);
    if (setting.kind !== "default") return setting;
  } catch (error) {
    throw new ExitError(`--to ${(error as Error).message}.`, 2);
  }
  throw new ExitError(MISSING_TO, 2);
}

async function copy(options: CopyOptions): Promise<void> {
  const to = parseTo(options.to);
  const settings = operatorSettings(options);
  await refuseWhileRunning(resolve(settings.data_dir), "copy its database");
  const { copyOffline } = await import("../../server/offline.ts");
  const copied = await withProgress((onProgress) =>
    copyOffline({
      settings,
      to,
      dryRun: options.dryRun === true,
      allowNetworkFs: options.allowNetworkFs === true,
      onProgress,
    }),
  );
  printResult(options, { json: copied, quiet: String(copied.rows), human: copyReport(copied) });
}

function copyReport({ from, to, dry_run, tables, rows, chains, audit_rows, took_ms }: CopiedDatabase): string {
  const filled = tables.filter((each) => each.rows > 0).map((each) => [`  ${each.name}`, String(each.rows)]);
  const proof = `${plural(chains, "audit chain")} (${plural(audit_rows, "row")}) verified`;
  const seconds = `${(took_ms / 1_000).toFixed(1)} s`;
  if (dry_run)
    return `${table(filled)}\nWould copy ${plural(rows, "row")} from ${from}\nto ${to}. ${proof}; nothing was written.`;
  return [
    table(filled),
    `Copied ${plural(rows, "row")} from ${from}`,
    `to ${to} in ${seconds}. Every value is equal; ${proof}.`,
    "Next: set KEYRACK_DATABASE_URL to the new database and start the server. Do not start one on the old database again.",
  ].join("\n");
}

async function migrate(options: OperatorOptions): Promise<void> {
  const { openOffline } = await import("../../server/offline.ts");
  const log = createLog({ level: "warn", pretty: process.stderr.isTTY });
  const offline = await openOffline({
    settings: operatorSettings(options),
    log,
    migrate: "auto",
    allowNetworkFs: options.allowNetworkFs === true,
  });
  const { applied } = offline.services.store;
  const { migrationBackup: backup } = offline;
  await offline.close();
  const done = applied.length > 0 ? `Applied ${applied.join(", ")}.` : "The schema is up to date.";
  const human = backup ? `${done}\nThe database from before is kept as backup ${backup}.` : done;
  printResult(options, { json: { object: "migration", applied, backup }, quiet: applied.join("\n"), human });
}

/** The exit code of a server that finds its database damaged. */
const DAMAGED = 70;

async function check(options: OperatorOptions): Promise<void> {
  const [offline, { checkIntegrity }, { findMissingKeys }, { readAppliedMigrations }, { loadMigrations }] =
    await Promise.all([
      import("./audit/offline.ts"),
      import("../../store/offline/integrity.ts"),
      import("../../store/offline/constraints.ts"),
      import("../../store/schema/applied.ts"),
      import("../../store/schema/migrate.ts"),
    ]);
  const target = await offline.databaseOf(operatorSettings(options));
  const known = loadMigrations(target.kind);
  const schema: { database: number | null; binary: number } = { database: null, binary: known.at(-1)?.version ?? 0 };
  const pending: string[] = [];
  const findings: string[] = [];
  let chains = 0;
  try {
    await offline.withOfflineSource(target, async (source) => {
      const applied = await readAppliedMigrations(source);
      const unknown = applied.filter(
        ({ version, checksum }) => known.find((one) => one.version === version)?.checksum !== checksum,
      );
      schema.database = applied.at(-1)?.version ?? 0;
      for (const { version, name } of known) if (!applied.some((one) => one.version === version)) pending.push(name);
      findings.push(...unknown.map(({ name }) => `migration ${name} is unknown to this version`));
      findings.push(
        ...pending.map((name) => `migration ${name} is pending: run keyrack db migrate, or start the server`),
      );
      findings.push(...(await checkIntegrity(source)), ...(await findMissingKeys(source)));
    });
    const verdicts = await offline.verifyOffline(options, async () => undefined);
    chains = verdicts.length;
    for (const { workspace_id, verified, broken_seq, reason } of verdicts)
      if (!verified) findings.push(`audit chain ${workspace_id} is broken at seq ${broken_seq}: ${reason}`);
  } catch (error) {
    findings.push(damageOf(error));
  }
  const ok = findings.length === 0;
  const human = ok
    ? `No problems found: the schema is up to date, ${plural(chains, "audit chain")} verified.`
    : findings.join("\n");
  printResult(options, {
    json: { object: "database_check", ok, schema, pending, findings, chains },
    quiet: findings.join("\n"),
    human,
  });
  if (!ok) throw new ExitError(`${plural(findings.length, "problem")} found.`, 4);
}

/** Damage that ends the check is a finding too; any other error is none. */
function damageOf(error: unknown): string {
  const { exitCode, message } = error as Error & { exitCode?: number };
  if (exitCode !== DAMAGED) throw error;
  return message;
}
