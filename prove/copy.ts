// Copies a whole deployment from SQLite to PostgreSQL and back: every value equal, chains verified, durations measured.
import { statSync } from "node:fs";
import { join } from "node:path";
import { copyOffline } from "../src/server/offline.ts";
import { checksumDifferences, checksumRows, type TableChecksums } from "../src/store/offline/copy.ts";
import { openCopySource } from "../src/store/offline/copy-source.ts";
import type { DatabaseTarget } from "../src/store/target.ts";
import { settingsFor, withDir } from "./backup.ts";
import type { Campaign } from "./campaign.ts";
import { filledApp } from "./filled.ts";
import { withScratchDatabase } from "../harness/databases/scratch.ts";

type CopyReport = {
  keys: number;
  rows: number;
  auditRows: number;
  sqliteBytes: number;
  toPostgresMs: number;
  toSqliteMs: number;
  problems: string[];
};

const quiet = (): void => {};

async function sumsOf(target: DatabaseTarget): Promise<TableChecksums> {
  const source = await openCopySource(target);
  try {
    return await checksumRows(source, quiet);
  } finally {
    await source.close();
  }
}

function copyBothWays({ keys, print }: { keys: number; print: (line: string) => void }): Promise<CopyReport> {
  return withDir((dir) =>
    withScratchDatabase("postgres", async (url) => {
      if (!url) throw new Error("no PostgreSQL");
      const settings = settingsFor(dir);
      const app = await filledApp(settings, keys);
      await app.stop();
      print(`filled with ${keys} keys`);
      const there = await copyOffline({ settings, to: { kind: "postgres", url }, dryRun: false, onProgress: quiet });
      print(`to PostgreSQL: ${there.rows} rows in ${there.took_ms} ms`);
      const file = join(dir, "back.db");
      const home = await copyOffline({
        settings: settingsFor(dir, { database_url: url }),
        to: { kind: "sqlite", file },
        dryRun: false,
        onProgress: quiet,
      });
      print(`to SQLite: ${home.rows} rows in ${home.took_ms} ms`);
      const first = await sumsOf({ kind: "sqlite", file: join(dir, "keyrack.db") });
      const last = await sumsOf({ kind: "sqlite", file });
      return {
        keys: first.api_keys?.rows ?? 0,
        rows: there.rows,
        auditRows: there.audit_rows,
        sqliteBytes: statSync(file).size,
        toPostgresMs: there.took_ms,
        toSqliteMs: home.took_ms,
        problems: checksumDifferences(first, last),
      };
    }),
  );
}

export const copyCampaign: Campaign = {
  name: "copy",
  promise: "P3",
  claim: "a deployment copied to PostgreSQL and back is equal in every value, its chains verified on each side",
  rounds: 100_000,
  round: "key with its audit row",
  backends: ["postgres"],
  async run({ rounds, seed, print }, tally) {
    const report = await copyBothWays({ keys: rounds, print });
    for (const problem of report.problems) tally.failed(seed, problem);
    tally.rounds = report.keys;
    tally.count("rows", report.rows);
    tally.count("audit rows", report.auditRows);
    tally.figures["to PostgreSQL ms"] = report.toPostgresMs;
    tally.figures["to SQLite ms"] = report.toSqliteMs;
  },
};
