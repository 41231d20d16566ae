// Statements find their rows by an index: one that reads a whole table holds every writer, or the event loop, for as
// long as all workspaces together have rows.
import { expect, it } from "vitest";
import { readyDatabase } from "../../../harness/databases/backends.ts";
import { openRaw } from "../../../harness/databases/raw-sql.ts";
import { openStore } from "../../../src/store/database.ts";
import { listStatements } from "../../../tools/statements.ts";

/** Tables with rows of customers, their keys or their requests. */
const LARGE =
  /^\w+ (api_keys|audit_log|secret_keys|tenants|idempotency_records|search_terms|tenant_terms|usage_\w+|policy_versions|key_\w+|last_uses|ingest_batches|quota_(?!processes)\w+|sessions)\b/;

/** The plan names tables by their aliases. */
const aliasesOf = (sql: string): [alias: string, table: string][] =>
  Array.from(sql.matchAll(/(?:from|join) "?(\w+)"? as "?(\w+)"?/g), ([, table = "", alias = ""]) => [alias, table]);

/** Run before a server takes requests, by a command while it is stopped, or for a metric once a minute. */
const MAINTENANCE = [
  /(revoked|disabled|quarantined|suspended|deleted|voided)_at >= \?$/, // what a restore has brought back
  /where allowed_cidrs <> '\[\]' and ip_mode = 'enforce'/, // the same
  /"sealed_response" is not null/, // a new master key
  /^select chains\.workspace_id/, // keyrack audit verify
  /^delete from "key_digests"/, // one row for a workspace and day
  /^select count\(\*\) as "rows", min\("created_at"\)/, // the age of the journal
];

/** The plans of all statements, each with its statement. */
async function eachPlan(look: (sql: string, plan: string[]) => void): Promise<void> {
  const { target, dispose } = await readyDatabase("sqlite");
  const store = await openStore(target, { now: Date.now, fatal: () => {} });
  await store.close();
  const raw = await openRaw(target);
  try {
    for (const sql of (await listStatements()).sqlite) {
      if (sql.includes("scopes_within(")) continue; // a function of ours, which this connection lacks
      const values = Array.from(sql.matchAll(/\?/g), () => "[]");
      const aliases = new Map(aliasesOf(sql));
      const plan = (await raw.all(`explain query plan ${sql}`, values)).map(({ detail }) =>
        String(detail).replace(/^(SCAN|SEARCH) (\w+)/, (_all, how, name) => `${how} ${aliases.get(name) ?? name}`),
      );
      look(sql, plan);
    }
  } finally {
    await raw.close();
    await dispose();
  }
}

it("no statement reads the whole of a large table, except for maintenance", async () => {
  const scans: string[] = [];
  await eachPlan((sql, plan) => {
    const isScan = plan.some((line) => line.startsWith("SCAN ") && LARGE.test(line));
    if (isScan && !MAINTENANCE.some((known) => known.test(sql))) scans.push(`${sql}\n${plan.join("\n")}`);
  });
  expect(scans).toEqual([]);
});

/** A record that is named, and a search that finds all records of what it belongs to instead. */
const NAMED = /"?\b(id|rotated_from|lineage_id|lookup_hash)"? = \?|"tenant_id" in \(select "target_id"/;
const BROAD = /\((workspace_id|project_id|env)=\?( AND (project_id|env)=\?)*\)/;

it("no statement that names a record walks its workspace or project", async () => {
  const walks: string[] = [];
  await eachPlan((sql, plan) => {
    const isWalk = plan.some((line) => line.startsWith("SEARCH ") && LARGE.test(line) && BROAD.test(line));
    if (NAMED.test(sql) && isWalk) walks.push(`${sql}\n${plan.join("\n")}`);
  });
  expect(walks).toEqual([]);
});
