// One random bit flipped, in a file of a backup or in a column of an audit row: each must be detected.
import { copyFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { createBackup } from "../src/backup/create.ts";
import { verifyBackup } from "../src/backup/verify.ts";
import { inspect } from "../src/store/offline/thread-tasks.ts";
import { settingsFor, withDir } from "./backup.ts";
import type { Campaign } from "./campaign.ts";
import { filledApp } from "./filled.ts";
import { seeded, type Random } from "../harness/random.ts";

type FlipReport = { trials: number; inBackups: number; inRows: number; found: number; problems: string[] };

const quiet = (): void => {};

function flipBytes({ trials, seed, keys }: { trials: number; seed: number; keys: number }): Promise<FlipReport> {
  return withDir(async (dir) => {
    const settings = settingsFor(dir);
    const app = await filledApp(settings, keys);
    const { folder, id } = await createBackup(app.services);
    await app.stop();
    const random = seeded(seed);
    const report: FlipReport = { trials, inBackups: 0, inRows: 0, found: 0, problems: [] };
    for (let trial = 0; trial < trials; trial++) {
      const missed =
        trial % 2 === 0
          ? await flipInBackup({ settings, folder, id, random }, report)
          : await flipInRow(join(folder, "keyrack.db"), join(dir, "flipped.db"), random, report);
      if (missed === null) report.found++;
      else report.problems.push(`seed ${seed}, trial ${trial}: ${missed}`);
    }
    return report;
  });
}

type BackupUnderTest = { settings: ReturnType<typeof settingsFor>; folder: string; id: string; random: Random };

/** Null when the flip was detected, else its description. */
async function flipInBackup(
  { settings, folder, id, random }: BackupUnderTest,
  report: FlipReport,
): Promise<string | null> {
  report.inBackups++;
  const file = join(folder, random.pick(["keyrack.db", "keyrack.db", "keyrack.db", "manifest.json"]));
  const good = readFileSync(file);
  const bad = Buffer.from(good);
  const at = random.int(0, bad.length - 1);
  bad[at] = (bad[at] ?? 0) ^ (1 << random.int(0, 7));
  writeFileSync(file, bad);
  try {
    const { ok } = await verifyBackup(settings, id, quiet).catch(() => ({ ok: false }));
    return ok ? `bit at ${at} of ${file}` : null;
  } finally {
    writeFileSync(file, good);
  }
}

const COLUMNS =
  "workspace_id seq id occurred_at actor_type actor_id action target_type target_id payload prev_hash hash".split(" ");

function flipped(value: string | number, random: Random): string | number {
  if (typeof value === "number") return value + (random.int(0, 1) === 0 ? -1 : 1) * 2 ** random.int(0, 20);
  const at = random.int(0, value.length - 1);
  return value.slice(0, at) + String.fromCharCode(value.charCodeAt(at) ^ (1 << random.int(0, 6))) + value.slice(at + 1);
}

type AuditRow = { rowid: number } & Record<string, string | number | null>;

function pickFlip(rows: readonly AuditRow[], random: Random): [row: AuditRow, column: string, value: string | number] {
  const row = random.pick(rows);
  const column = random.pick(COLUMNS.filter((name) => row[name] !== null && row[name] !== ""));
  return [row, column, flipped(row[column] ?? "", random)];
}

async function flipInRow(from: string, file: string, random: Random, report: FlipReport): Promise<string | null> {
  report.inRows++;
  copyFileSync(from, file);
  const db = new Database(file);
  db.pragma("ignore_check_constraints=ON");
  db.exec("drop trigger audit_log_no_update; drop trigger audit_log_no_delete");
  const rows = db.prepare("select rowid, * from audit_log").all() as AuditRow[];
  let [row, column, value] = pickFlip(rows, random);
  for (;;) {
    try {
      db.prepare(`update audit_log set ${column} = ? where rowid = ?`).run(value, row.rowid);
      break;
    } catch {
      [row, column, value] = pickFlip(rows, random); // rejected by a unique index: no such row can exist
    }
  }
  db.close();
  try {
    const { findings } = await inspect({ kind: "sqlite", file }).catch(() => ({ findings: ["unreadable"] }));
    const chains = findings.filter((each) => each.includes("audit chain") || each === "unreadable");
    return chains.length > 0 ? null : `${column} of row ${row.rowid}: ${row[column]} became ${value}`;
  } finally {
    rmSync(file);
  }
}

export const flipsCampaign: Campaign = {
  name: "flips",
  promise: "P3, P7",
  claim: "one bit flipped in a backup or in an audit row is found",
  rounds: 200,
  round: "flipped bit",
  backends: ["sqlite"],
  async run({ rounds, seed }, tally) {
    const report = await flipBytes({ trials: rounds, seed, keys: 200 });
    for (const problem of report.problems) tally.failed(seed, problem);
    tally.rounds = report.trials;
    tally.count("in backups", report.inBackups);
    tally.count("in audit rows", report.inRows);
    tally.count("found", report.found);
  },
};
