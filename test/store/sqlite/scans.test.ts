// Statements find their rows by an index: one that reads a whole table holds every writer, or the event loop, for as
// long as all workspaces together have rows.
import { expect, it } from "vitest";
import { readyDatabase } from "../../../harness/databases/backends.ts";
import { openRaw } from "../../../harness/databases/raw-sql.ts";
import { openStore } from "../../../src/store/database.ts";
import { listStatements } from "../../../tools/statements.ts";

/** Tables with rows of customers, their keys or their requests. */
const LARGE =
  /^SCAN (api_keys|audit_log|secret_keys|tenants|idempotency_records|search_terms|tenant_terms|usage_\w+|policy_versions|key_\w+|last_uses|ingest_batches|quota_(?!processes)\w+|sessions)\b/;

/** The plan names tables by their aliases. */
const aliasesOf = (sql: string): [alias: string, table: string][] =>
  Array.from(sql.matchAll(/(?:from|join) "?(\w+)"? as "?(\w+)"?/g), ([, table = "", alias = ""]) => [alias, table]);

/** Run before a server takes requests, by a command while it is stopped, or for a metric once a minute. */
const MAINTENANCE = [
  /(revoked|disabled|quarantined|suspended|deleted)_at >= \?$/, // what a restore has brought back
  /where allowed_cidrs <> '\[\]' and ip_mode = 'enforce'/, // the same
  /"sealed_response" is not null/, // a new master key
  /^select chains\.workspace_id/, // keyrack audit verify
  /^delete from "key_digests"/, // one row for a workspace and day
  /^select count\(\*\) as "rows", min\("created_at"\)/, // the age of the journal
];

it("no statement reads the whole of a large table, except for maintenance", async () => {
  const { target, dispose } = await readyDatabase("sqlite");
  const store = await openStore(target, { now: Date.now, fatal: () => {} });
  await store.close();
  const raw = await openRaw(target);
  try {
    const scans: string[] = [];
    for (const sql of (await listStatements()).sqlite) {
      if (sql.includes("scopes_within(")) continue; // a function of ours, which this connection lacks
      const values = Array.from(sql.matchAll(/\?/g), () => "[]");
      const aliases = new Map(aliasesOf(sql));
      const plan = (await raw.all(`explain query plan ${sql}`, values)).map(({ detail }) =>
        String(detail).replace(/^SCAN (\w+)/, (_all, name: string) => `SCAN ${aliases.get(name) ?? name}`),
      );
      const isScan = plan.some((line) => LARGE.test(line));
      if (isScan && !MAINTENANCE.some((known) => known.test(sql))) scans.push(`${sql}\n${plan.join("\n")}`);
    }
    expect(scans).toEqual([]);
  } finally {
    await raw.close();
    await dispose();
  }
});
