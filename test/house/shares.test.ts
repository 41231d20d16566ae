// Everything that grows across requests has a bound and an owner: a file that keeps a Map, Set, queue or growing array
// is listed here with the resource of the shares table that it holds, or with the reason why no caller can make it
// grow.
import { describe, expect, it } from "vitest";
import { filesIn, readText } from "../../harness/repository.ts";
import { firstDifference } from "../../harness/texts.ts";
import { envOf, settingNames } from "../../src/config/settings.ts";
import { sharesTable, type Resource, type Share } from "../../src/fairness/shares.ts";
import { withSharesTable } from "../../tools/shares-table.ts";

/** The files that hold each resource. */
const FILES: Record<Resource, readonly string[]> = {
  polls: ["src/domain/policy/feed.ts", "src/domain/policy/waiters.ts"],
  receipts: ["src/server/services.ts"],
  holder_receipts: ["src/server/services.ts"],
  writes: ["src/store/engine/write-queue.ts", "src/store/engine/group-locks.ts"],
  loop: ["src/fairness/turns.ts"],
  pipeline: ["src/http/receiving/pipelining.ts"],
  counters: ["cells", "dirty-rows", "row-index", "row-store", "row-table", "rows", "rules"].map(
    (name) => `src/ratelimit/memory/${name}.ts`,
  ),
  leases: ["src/ratelimit/memory/leases.ts"],
  quota_leases: ["src/domain/quotas/leases.ts"],
  quota_definitions: ["src/domain/quotas/definitions.ts"],
  quota_balances: ["src/domain/quotas/bank.ts", "src/domain/quotas/holding.ts"],
  quota_returns: [],
  overviews: ["src/domain/workspaces/overview-cache.ts"],
  nodes: ["lost-reports", "registry", "report-queue"].map((name) => `src/domain/nodes/${name}.ts`),
  passwords: ["src/domain/auth/password-queue.ts"],
  disk: ["src/domain/limits/written-bytes.ts"],
  idempotency: [],
  throttles: ["src/domain/limits/throttles.ts"],
  unsent: ["src/fairness/large-responses.ts"],
  caches: ["src/domain/policy/page-cache.ts"],
  not_modified: ["src/server/services.ts"],
  touches: ["src/server/services.ts"],
  heads: [],
  known_nodes: ["src/domain/nodes/known-nodes.ts"],
  credentials: ["src/domain/auth/credential-cache.ts"],
  known_ids: ["src/domain/ingest/known-ids.ts"],
  workers: ["src/store/audit/chain-verifications.ts"],
  usage_reads: ["src/fairness/slots.ts"],
  fleet_reads: [],
  exports: [],
  bodies: ["src/fairness/reservations.ts"],
  anonymous_bodies: [],
  connections: ["src/http/connections.ts", "src/http/overload-guard.ts"],
  log: ["src/fairness/log-limit.ts"],
  quotas: [],
  ingest: [],
  workspaces: [],
  mail: [],
};

/** Grows with the code, the configuration or the operator's own actions. */
const FIXED: Record<string, string> = {
  "src/fairness/shares.ts": "one ledger per row of the table",
  "src/http/fast/routes.ts": "the declared endpoints",
  "src/http/metrics.ts": "the declared endpoints",
  "src/http/request-log.ts": "constants",
  "src/http/response.ts": "constants",
  "src/platform/native-addons.ts": "the native addons",
  "src/ratelimit/redis/counter.ts": "texts made of names, at most a fixed number; making one again costs a hash",
  "src/ratelimit/redis/circuit-breaker.ts": "recent failures of Redis, at most a fixed number",
  "src/domain/core/events.ts": "constants",
  "src/domain/metering/state.ts":
    "events of one request that are sent again; no other request follows before they are settled",
  "src/domain/nodes/traits.ts": "texts of the sets of capabilities",
  "src/server/instance.ts": "jobs that fail, and at most one entry for each request that runs",
  "src/server/scheduler.ts": "the declared jobs",
  "src/store/database.ts": "topics of notices, named in the code",
  "src/store/engine/statement.ts": "the declared statements",
  "src/store/postgres/connection-outages.ts": "constants",
  "src/store/postgres/multi-row.ts": "statement texts by number of rows, which is bounded",
  "src/store/postgres/query.ts": "statement names, at most a fixed number",
  "src/store/postgres/reader.ts": "the connections of the pool",
  "src/store/sqlite/functions.ts": "lists of scopes, at most a fixed number",
  "src/store/sqlite/lock.ts": "constants",
  "src/store/sqlite/wal-sync.ts": "syncs of the group commit, one at a time, and checkpoints",
  "src/store/threads/idle-workers.ts": "threads; the shares of workers and usage_reads bound those that run",
  "src/store/sqlite/reader.ts": "prepared statements, at most a fixed number",
};

/** Holds the items of one resource for its owner; the resource is in the table. */
const CONTAINERS = [
  "src/platform/keyed-listeners.ts",
  "src/fairness/fair-map.ts",
  "src/fairness/fair-queue.ts",
  "src/fairness/fair-set.ts",
  "src/fairness/ledger.ts",
  "src/fairness/max-heap.ts",
  "src/fairness/owner-records.ts",
  "src/fairness/recent-refusals.ts",
  "src/fairness/recent-time.ts",
];

/** Lives for one transaction, one batch of one turn, or one request. */
const SHORT_LIVED = [
  "src/domain/core/list.ts",
  "src/domain/ingest/events.ts",
  "src/domain/ingest/parse.ts",
  "src/domain/nodes/shared-reads.ts",
  "src/domain/usage/last-use.ts",
  "src/domain/series/batch.ts",
  "src/domain/series/journal.ts",
  "src/domain/series/caps.ts",
  "src/domain/series/rollups.ts",
  "src/domain/series/groups.ts",
  "src/http/body/array-cutter.ts",
  "src/http/body/chunk-list.ts",
  "src/ratelimit/memory/counter.ts",
  "src/ratelimit/redis/batch.ts",
  "src/store/engine/additive-upsert.ts",
  "src/store/engine/policy-versions.ts",
  "src/store/engine/query-memo.ts",
  "src/store/engine/transaction.ts",
];

/** What a file keeps, if it is more than one: another one needs its own bound, and then its name here. */
const SEVERAL: Record<string, string> = {
  "src/domain/auth/credential-cache.ts": "#entries #hashes #listeners #loading",
  "src/domain/auth/password-queue.ts": "#known #others",
  "src/domain/core/events.ts": "COUNTS_LIVE_KEYS ENDING_ACTIONS PRODUCT_STATE TARGETS_WITH_ENV",
  "src/domain/ingest/parse.ts": "#events #unclean",
  "src/domain/limits/throttles.ts": "#bounded #byLength #closed #windows",
  "src/domain/limits/written-bytes.ts": "#pending #yesterday",
  "src/domain/nodes/registry.ts": "#inBatch #left #listeners",
  "src/domain/nodes/report-queue.ts": "#order #pending #unsettled",
  "src/domain/policy/feed.ts": "#heads #waiting",
  "src/domain/policy/page-cache.ts": "#building #entries #keysOf #uncompressed #unpacking",
  "src/domain/quotas/bank.ts": "#fair #holdings #refused UNWRITTEN",
  "src/domain/quotas/definitions.ts": "#changes #entries",
  "src/domain/quotas/holding.ts": "#blocks #returns demands",
  "src/domain/quotas/leases.ts": "#entries #fair",
  "src/domain/series/batch.ts": "#slices METHODS",
  "src/domain/series/caps.ts": "#seen ALWAYS_NAMED",
  "src/domain/series/groups.ts": "#numbers #shelves",
  "src/domain/series/journal.ts": "#indexes #slices #texts",
  "src/domain/series/rollups.ts": "#groups #ids #known #pending #stored",
  "src/fairness/fair-map.ts": "#entries #owned",
  "src/fairness/fair-queue.ts": "#queues #turns",
  "src/fairness/fair-set.ts": "#byOwner #items",
  "src/fairness/large-responses.ts": "#charges #unsent",
  "src/fairness/ledger.ts": "#entries #groups refused",
  "src/fairness/recent-time.ts": "#before #current",
  "src/fairness/reservations.ts": "#held #waiting",
  "src/fairness/turns.ts": "#budgets #waiting",
  "src/http/connections.ts": "#bounded #handshaking open",
  "src/http/fast/routes.ts": "#declared #exact #shaped",
  "src/http/metrics.ts": "#lateRefusals #routes",
  "src/platform/native-addons.ts": "loaded preferred",
  "src/ratelimit/memory/cells.ts": "#all #byOwner rules",
  "src/ratelimit/memory/counter.ts": "#slots #spans #used #waits",
  "src/ratelimit/memory/dirty-rows.ts": "#cells #loadedShared",
  "src/ratelimit/memory/rows.ts": "#bases #chunks",
  "src/ratelimit/memory/rules.ts": "#byNumber #freeNumbers",
  "src/ratelimit/redis/counter.ts": "#ruleNames #tags",
  "src/server/scheduler.ts": "#lastStart #rerun #running",
  "src/server/services.ts": "notModified touched waitingHolders waitingReceipts",
  "src/store/audit/chain-verifications.ts": "#running #waiting",
  "src/store/database.ts": "#noticeListeners #writtenListeners applied warnings",
  "src/store/engine/transaction.ts": "#inserts #tallies #upserts undo",
};

const FOLDERS = ["api", "backup", "domain", "fairness", "http", "platform", "ratelimit", "server", "store"];
const GROWS = String.raw`(?:new (?:Map|Set|BoundedMap|LinkedList|OwnerRecords|FairMap|FairSet|FairQueue|KeyedListeners)\b|\[\];)`;
/**
 * A constant of a module, a field of a class (also one that its constructor sets), and what a function makes for one.
 */
const KEPT = [
  new RegExp(`^(?:export )?(?:const|let) (\\w+).*= ${GROWS}`, "gm"),
  new RegExp(`^  (?:readonly |static )*(#?\\w+)(?:: [^=\n]+)? = ${GROWS}`, "gm"),
  new RegExp(`^    (?:this\\.(#?\\w+) =|(\\w+):) ${GROWS}`, "gm"),
  /^  return new (BoundedMap)/gm,
];

function keptBy(file: string): string[] {
  const text = readText(file);
  const found = KEPT.flatMap((pattern) =>
    [...text.matchAll(pattern)].map(([, name = "", other]) => name || (other ?? "")),
  );
  return [...new Set(found)].toSorted();
}

const rows = Object.entries(sharesTable) as [string, Share][];
const listed = new Set(Object.values(FILES).flat());
const kept = new Map(FOLDERS.flatMap((folder) => filesIn(`src/${folder}`, ".ts")).map((file) => [file, keptBy(file)]));
const keeping = [...kept].filter(([, names]) => names.length > 0).map(([file]) => file);

describe("the shares table", () => {
  it("has a row for every file that keeps something across requests", () => {
    const known = new Set([...listed, ...Object.keys(FIXED), ...CONTAINERS, ...SHORT_LIVED]);
    expect(keeping.filter((file) => !known.has(file))).toEqual([]);
  });

  it("and knows each of them where a file keeps several", () => {
    const several = [...kept].filter(([, names]) => names.length > 1).map(([file, names]) => [file, names.join(" ")]);
    expect(Object.fromEntries(several)).toEqual(SEVERAL);
  });

  it("and the other lists name only such files, each once", () => {
    const lists = [...listed, ...Object.keys(FIXED), ...CONTAINERS, ...SHORT_LIVED];
    const files = new Set(filesIn("src", ".ts"));
    expect(lists.filter((file) => !files.has(file))).toEqual([]);
    expect(lists.filter((file, i) => lists.indexOf(file) !== i)).toEqual([]);
    expect([...Object.keys(FIXED), ...SHORT_LIVED].filter((file) => !keeping.includes(file))).toEqual([]);
  });

  it("is in docs/isolation.md, row by row", () => {
    const text = readText("docs/isolation.md");
    expect(firstDifference(withSharesTable(text), text)).toBeNull(); // `npm run docs` writes it
    const missing = rows.filter(([name, { atBound }]) => !text.includes(`| \`${name}\` |`) || !text.includes(atBound));
    expect(missing.map(([name]) => name)).toEqual([]);
  });

  it("shows nothing exactly of what no ledger counts", () => {
    const sources = filesIn("src", ".ts").map(readText).join("\n");
    const unused = rows.filter(([name]) => !sources.includes(`hares.of("${name}")`) && name !== "writes");
    expect(rows.filter(([, { shows }]) => shows === "nothing")).toEqual(unused);
  });

  it("names settings that exist", () => {
    const settings = new Set<string>(settingNames.map(envOf));
    const named = rows.flatMap(([, { setting = [] }]) => setting);
    expect(named.filter((setting) => !settings.has(setting))).toEqual([]);
  });
});
