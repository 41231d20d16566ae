// Every SQL statement that this version runs on its tables, for test/fixtures/statements-V.json: while a deployment is
// upgraded, processes of this version run them on the schema of the next one. Statements declared with `statement()`
// list themselves. A function that builds its SQL from its arguments has a line in `built`, with arguments for each
// shape.
import { readdirSync } from "node:fs";
import * as auditChains from "../src/store/audit/chains.ts";
import { expectedCheckpoints, listTables, readContents } from "../src/store/offline/contents.ts";
import type { Source } from "../src/store/offline/source.ts";
import { readAppliedMigrations } from "../src/store/schema/applied.ts";
import { readSeries } from "../src/store/usage/series.ts";
import { namesOf } from "../src/store/usage/series-labels.ts";
import { FIRST_GROUP } from "../src/store/usage/export-groups.ts";
import { exportPart } from "../src/store/usage/export.ts";
import { verifyStoredChain } from "../src/store/audit/verify.ts";
import { declaredStatements } from "../src/store/engine/statement.ts";
import type { Dialect, Query, Tx } from "../src/store/engine/tx.ts";
import { filterAuditRows, lastExamined, listAuditRows } from "../src/store/queries/audit.ts";
import * as cascades from "../src/store/queries/cascades.ts";
import { addMissingCells, cellUpsert, nextExcess } from "../src/store/queries/idempotency-claim-counts.ts";
import { findKnownKeys, findOwnedIds } from "../src/store/queries/ingest.ts";
import { countNetworks, keyNetworkUpsert, storedNetworks } from "../src/store/queries/key-networks.ts";
import { lastUsesOf, lastUseUpsert } from "../src/store/queries/last-uses.ts";
import { deleteNotices, insertNotices, noticesOf } from "../src/store/queries/key-notices.ts";
import { keyUses, telemetryDayUpsert } from "../src/store/queries/idle-keys.ts";
import { listInvites } from "../src/store/queries/invites.ts";
import { countFailureRows, failureBeyond } from "../src/store/queries/logins.ts";
import { capExpiries, changeKeys, countEligible, eligibleKeys, rangeEnd } from "../src/store/queries/key-bulk.ts";
import { keysByIds } from "../src/store/queries/key-search.ts";
import { listedRangeEnd, listKeyIds, listKeys } from "../src/store/queries/key-list.ts";
import { countNeedingKeys, deleteNodes, firstLagging, lockNodes, nodesByKeys } from "../src/store/queries/nodes.ts";
import { listGrants } from "../src/store/queries/quota-grants.ts";
import { findMeteredHours, writeParts } from "../src/store/queries/metering.ts";
import { listMail } from "../src/store/queries/outbox.ts";
import { listLive } from "../src/store/queries/page.ts";
import { changesSince, headsByIds, snapshotChunk } from "../src/store/queries/policy.ts";
import { saveCounters } from "../src/store/queries/rate-counters.ts";
import {
  countReturnedMembers,
  findLostStops,
  findMovedBalances,
  findUndoneGrants,
  findWidened,
  readReplacedState,
  readVersions,
} from "../src/store/queries/restore.ts";
import { sealedTables } from "../src/store/queries/sealed-values.ts";
import { listSecretKeys, revokeSecretKeyRows, workingSecretKeys } from "../src/store/queries/secret-keys.ts";
import { deleteJournal, findGroups, findRollups, insertGroups, writeRollups } from "../src/store/queries/series.ts";
import { countLeakedKeys } from "../src/store/queries/unreplaced-leaks.ts";
import {
  firstAllowedAt,
  tenantMonths,
  tenantMonthUpsert,
  touchKeys,
  usageDayUpsert,
} from "../src/store/queries/usage.ts";
import { usersByIds } from "../src/store/queries/users.ts";
import { builtForSearch } from "./statements-search.ts";
import {
  after,
  auditFilter,
  auditSlices,
  bulk,
  day,
  keyLastUse,
  keyNetwork,
  leak,
  month,
  range,
  revocation,
  rollup,
  scopes,
  selections,
  series,
  stopped,
  usageGroup,
  workspace_id,
} from "./statement-arguments.ts";
import "../src/store/engine/group-commit.ts";

export type StatementList = Record<Dialect, string[]>;

const QUERIES = new URL("../src/store/queries/", import.meta.url);
/** Functions that build SQL, by name. */
const built: Record<string, (on: Tx, source: Source) => Promise<unknown>[]> = {
  ...builtForSearch,
  rangeEnd: (on) => bulk.filter(({ ids }) => !ids).map((selection) => rangeEnd(on, selection, after, 2)),
  eligibleKeys: (on) => bulk.map((selection) => eligibleKeys(on, selection, range, 1)),
  countEligible: (on) => bulk.map((selection) => countEligible(on, selection, range)),
  changeKeys: (on) => [
    changeKeys(on, { workspace_id, project_id: "p", ids: ["i"] }, { revoked_at: 1, policy_version: 1 }),
    changeKeys(on, { workspace_id, project_id: "p", ids: ["i"] }, { disabled_at: 1, policy_version: 1 }),
  ],
  capExpiries: (on) => [
    capExpiries(on, { workspace_id, project_id: "p", ids: ["i"] }, { ms: 1, earliest: 1, policy_version: 1 }),
  ],
  keyUses: (on) =>
    [["i"], { after: "i", upTo: "k" }].map((ids) =>
      keyUses(on, { workspace_id, project_id: "p", env: "live", now: 1 }, ids),
    ),
  telemetryDayUpsert: (on) => [
    telemetryDayUpsert.write(on, [{ project_id: "p", env: "live", day: 1, last_at: 1, sampled: 0 }]),
  ],
  noticesOf: (on) => [noticesOf(on, ["i"])],
  deleteNotices: (on) => [deleteNotices(on, ["i"])],
  insertNotices: (on) => [insertNotices(on, [{ key_id: "k", kind: "idle", threshold: 1, due_at: 1 }])],
  keysByIds: (on) => [keysByIds(on, workspace_id, ["i"])],
  nodesByKeys: (on) => [nodesByKeys(on, [])],
  firstLagging: (on) => [firstLagging(on, [], 1)],
  lockNodes: (on) => [lockNodes(on, [])],
  deleteNodes: (on) => [deleteNodes(on, [])],
  touchKeys: (on) => [touchKeys(on, workspace_id, [])],
  listGrants: (on) => [
    listGrants(on, { subject_id: "s", env: "live", quota_id: "q" }, null, 1),
    listGrants(on, { subject_id: "s", env: "live", quota_id: "q" }, { created_at: 1, id: "i" }, 1),
  ],
  countNeedingKeys: (on) => [countNeedingKeys(on, { workspace_id, project_ids: ["p"], now: 1 })],
  listAuditRows: (on) => auditSlices.map((slice) => listAuditRows(on, slice, 1)),
  filterAuditRows: (on) =>
    auditSlices.map((slice) => filterAuditRows(on, slice, auditFilter, { examined: 1, limit: 1 })),
  lastExamined: (on) => auditSlices.map((slice) => lastExamined(on, slice, 1)),
  countWorkingKeys: (on) => scopes.map((scope) => cascades.countWorkingKeys(on, scope)),
  growthSince: (on) => scopes.map((scope) => cascades.growthSince(on, scope, 1)),
  sizesOfWorkingKeys: (on) => scopes.map((scope) => cascades.sizesOfWorkingKeys(on, scope, 1, 1)),
  revokeWorkingKeys: (on) =>
    scopes.flatMap((scope) => [
      cascades.revokeWorkingKeys(on, scope, { ...revocation, policy_version: 1 }, 1),
      cascades.revokeWorkingKeys(on, scope, { ...revocation, policy_version: null }, 1),
    ]),
  touchKeysOf: (on) => scopes.map((scope) => cascades.touchKeysOf(on, scope, 1, 1)),
  projectsWithKeysOf: (on) =>
    [true, false].map((deleted) => cascades.projectsWithKeysOf(on, { workspace_id, tenant_id: "t", deleted })),
  cellUpsert: (on) => [cellUpsert.write(on, [{ workspace_id, env: "live", records: 1, stored_bytes: 1 }])],
  addMissingCells: (on) => [addMissingCells(on)],
  nextExcess: (on) => [nextExcess(on, { workspace_id, env: "live" })],
  findKnownKeys: (on) => [findKnownKeys(on, workspace_id, ["k"])],
  keyNetworkUpsert: (on) => [keyNetworkUpsert.write(on, [keyNetwork])],
  lastUseUpsert: (on) => [lastUseUpsert.write(on, [keyLastUse])],
  lastUsesOf: (on) => [lastUsesOf(on, "w", ["k"])],
  storedNetworks: (on) => [storedNetworks(on, [])],
  countNetworks: (on) => [countNetworks(on, [], { unnamed: ["a", "b"], limit: 1 })],
  findOwnedIds: (on) => [
    findOwnedIds(on, "projects", workspace_id, ["p"]),
    findOwnedIds(on, "tenants", workspace_id, ["t"]),
  ],
  listInvites: (on) => [null, after].map((each) => listInvites(on, { workspace_id, after: each, limit: 1 })),
  listKeys: (on) => [
    listKeys(on, { workspace_id, include_revoked: true, limit: 1, after: null }),
    listKeys(on, {
      workspace_id,
      project_id: "p",
      tenant_id: "t",
      env: "live",
      include_revoked: false,
      limit: 1,
      after,
    }),
    listKeys(on, { workspace_id, project_id: "p", include_revoked: false, limit: 1, after: null }, after),
  ],
  listKeyIds: (on) => [listKeyIds(on, { workspace_id, ids: ["i"], include_revoked: true, limit: 1, after: null })],
  listedRangeEnd: (on) => [
    listedRangeEnd(on, { workspace_id, include_revoked: false, limit: 1, after: null }, 1),
    listedRangeEnd(on, { workspace_id, tenant_id: "t", include_revoked: false, limit: 1, after }, 1),
  ],
  listMail: (on) => [listMail(on, null), listMail(on, "queued")],
  listLive: (on) => [
    listLive(on, "projects", { workspace_id, after: null, limit: 1 }),
    listLive(on, "tenants", { workspace_id, after, limit: 1 }),
    listLive(on, "tenants", { workspace_id, after, limit: 1, ids: ["t"] }),
  ],
  snapshotChunk: (on) => selections.map((each) => snapshotChunk(on, { ...each, after: "k", expiredBefore: 1 })),
  workingSecretKeys: (on) => [workingSecretKeys(on, ["k"], 0)],
  headsByIds: (on) => [headsByIds(on, ["p"])],
  changesSince: (on) => selections.map((each) => changesSince(on, { ...each, since: 1, upTo: 2 })),
  saveCounters: (on) => [saveCounters(on, [{ key: "k", lapses_at: 1, windows: "[]" }])],
  sealedTables: (on) => sealedTables.map(({ page }) => page(on, "", 1)),
  listSecretKeys: (on) => [
    listSecretKeys(on, { workspace_id, env: null, isQuarantined: false, after: null, limit: 1 }),
    listSecretKeys(on, { workspace_id, env: "live", isQuarantined: true, after, limit: 1 }),
  ],
  countFailureRows: (on) => [countFailureRows(on, 1)],
  failureBeyond: (on) => [failureBeyond(on, 1, 1)],
  revokeSecretKeyRows: (on) => [revokeSecretKeyRows(on, { workspace_id, ids: ["k"], now: 1, reason: "r" })],
  countLeakedKeys: (on) => [null, ["p"]].map((projects) => countLeakedKeys(on, { ...leak, projects })),
  firstAllowedAt: (on) => [null, ["p"]].map((projects) => firstAllowedAt(on, { workspace_id, env: "live", projects })),
  usageDayUpsert: (on) => [usageDayUpsert.write(on, [day])],
  tenantMonthUpsert: (on) => [tenantMonthUpsert.write(on, [{ ...month, first_seen_at: 1, last_seen_at: 1 }])],
  tenantMonths: (on) =>
    ([undefined, "live"] as const).map((env) =>
      tenantMonths(on, { workspace_id, projects: env ? ["p"] : null, env, from: 1, to: 2, limit: 1 }),
    ),
  findGroups: (on) => [findGroups(on, [usageGroup])],
  findMeteredHours: (on) => [findMeteredHours(on, 1, [1])],
  writeParts: (on) => [writeParts(on, [{ hour: 1, group_id: 1, parts: "[]", sent: 0 }])],
  findRollups: (on) => [findRollups(on, [rollup])],
  insertGroups: (on) => [insertGroups(on, [{ ...usageGroup, id: 1 }])],
  writeRollups: (on) => [writeRollups(on, [rollup])],
  deleteJournal: (on) => [deleteJournal(on, ["i"])],
  usersByIds: (on) => [usersByIds(on, ["u"])],
  readReplacedState: (_on, source) => [readReplacedState(source, 1)],
  countReturnedMembers: (_on, source) => [countReturnedMembers(source, [])],
  readVersions: (_on, source) => [readVersions(source)],
  findWidened: (_on, source) => [
    findWidened(source, [{ id: "k", kind: "tenants", allowed_cidrs: "[]", ip_mode: "enforce" }]),
  ],
  findMovedBalances: (_on, source) => [
    findMovedBalances(source, [
      { subject_id: "t", env: "live", quota_id: "q", calendar: "none", period_start: 0, spent: 1 },
    ]),
  ],
  findUndoneGrants: (_on, source) => [
    findUndoneGrants(source, [
      { id: "g", subject_id: "t", env: "live", quota_id: "q", units: 1, reference: null, voided_at: null },
    ]),
  ],
  findLostStops: (_on, source) => [
    findLostStops(source, stopped, "revoked_at"),
    findLostStops(source, stopped, "quarantined_at"),
    findLostStops(source, [{ id: "k", kind: "api_keys" }], "disabled_at"),
    findLostStops(source, [{ id: "t", kind: "tenants" }], "suspended_at"),
    findLostStops(source, [{ id: "p", kind: "projects" }], "deleted_at"),
    findLostStops(source, [{ id: "t", kind: "tenants" }], "deleted_at"),
  ],
  // Of the offline tools: a running server verifies chains and makes backups with them.
  offline: (_on, source) => [
    auditChains.listChains(source),
    auditChains.newestCheckpoint(source, workspace_id),
    auditChains.readCheckpointKey(source),
    auditChains.readChainRows(source, workspace_id, 0, 1),
    readAppliedMigrations(source),
    expectedCheckpoints(source, workspace_id),
    listTables(source),
    readContents(source),
    verifyStoredChain(source, workspace_id, []),
    readSeries(source, series),
    namesOf(source, workspace_id, { table: "tenants", column: "external_id" }, ["t"]),
    ...(["tenant", "key"] as const).map((by) => {
      const groups = { kind: by, env: "live", projects: ["p"], tenant: "t" } as const;
      return exportPart(source, { ...series, as_of: 1, by, bucket: "hour", format: "csv", groups, after: FIRST_GROUP });
    }),
  ],
};

/** Exports that only run declared statements or the functions above. */
const COMPOSED = new Set(
  `tallyCell databaseNow claimRecord completeRecord releaseRecord heartbeatRecord reapRecords revokeKeysOfTenant revokeKeysOfProject holdsScope liveById pageKeyOf countLive markDeleted pageAfter chunkQuery changesQuery
   inRange isIn isInJson isInNumbers isNamed notLookedUp KEY_STATES selectKeys selectOpenGrants notRevoked notDeleted isActive isUnexpired isUnusedSince workingSuccessor hasNoSuccessor isIndexed`.split(
    /\s+/,
  ),
);

/** Exported functions and tables of src/store/queries that this file does not know. */
export async function unlistedQueries(): Promise<string[]> {
  const unlisted: string[] = [];
  for (const file of readdirSync(QUERIES)) {
    const module = (await import(new URL(file, QUERIES).href)) as Record<string, unknown>;
    for (const [name, value] of Object.entries(module)) {
      const runsSql = typeof value === "function" || (typeof value === "object" && !isDeclared(value));
      if (runsSql && !(name in built) && !COMPOSED.has(name)) unlisted.push(`${name} of src/store/queries/${file}`);
    }
  }
  return unlisted;
}

const isDeclared = (value: object | null): boolean => declaredStatements.includes(value as never);

export async function listStatements(): Promise<StatementList> {
  await unlistedQueries(); // loads every file, so that its statements are declared
  const list: StatementList = { sqlite: [], postgres: [] };
  for (const dialect of ["sqlite", "postgres"] as const) {
    const texts = new Set(declaredStatements.map((each) => each.sql(dialect)));
    const { on, source } = recorder(dialect, (text) => texts.add(text));
    for (const build of Object.values(built)) await Promise.all(build(on, source));
    list[dialect] = [...texts].map((text) => text.replace(/\s+/g, " ").trim()).toSorted();
  }
  return list;
}

/** A transaction and an offline source that record what they are asked to run, and find nothing. */
function recorder(dialect: Dialect, record: (sql: string) => void): { on: Tx; source: Source } {
  const all = async (query: Query): Promise<never[]> => {
    record(query.sql);
    return [];
  };
  const first = async (query: Query): Promise<undefined> => record(query.sql) as undefined;
  const run = async (query: Query): Promise<number> => {
    record(query.sql);
    return 0;
  };
  const source: Source = {
    kind: dialect,
    begin: async () => {},
    commit: async () => {},
    all: (sql) => all({ sql: dialect === "sqlite" ? sql.replace(/\$\d+/g, "?") : sql, values: [] }),
    ping: async () => {},
    close: async () => {},
  };
  return { on: { dialect, all, first, firstMemoized: first, run } as Partial<Tx> as Tx, source };
}
