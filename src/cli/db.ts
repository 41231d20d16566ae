// `keyrack db migrate/check`.
import type { Command } from "commander";
import { operatorFlags, show, withRack, type OperatorOptions } from "./operator.ts";
import { ExitError } from "./shell.ts";

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
}

async function migrate(options: OperatorOptions): Promise<void> {
  const applied = await withRack(options, async (rack) => rack.store.applied);
  const human = applied.length > 0 ? `Applied ${applied.join(", ")}.` : "The schema is up to date.";
  show(options, { json: { object: "migration", applied }, quiet: applied.join("\n"), human });
}

async function check(options: OperatorOptions): Promise<void> {
  const [{ databaseOf, verifyOffline, withSource }, chains, { loadMigrations }] = await Promise.all([
    import("./audit-offline.ts"),
    import("../store/chains.ts"),
    import("../store/migrate.ts"),
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
