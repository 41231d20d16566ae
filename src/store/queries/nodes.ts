// Nodes that poll the policy feed: one row per project, node and environment scope.
import { sql, type SqlBool } from "kysely";
import { isIn, isInJson } from "./id-lists.ts";
import { isUnexpired, notRevoked } from "./keys.ts";
import { upsertRow } from "../engine/rows.ts";
import { deleteWhere } from "../engine/delete-piece.ts";
import { countRows, selectRows, statement, type Builder, type Params } from "../engine/statement.ts";
import { rawQuery, tableOf, type Bind } from "../engine/raw-query.ts";
import type { Query, Reader, Tx } from "../engine/tx.ts";
import type { Env } from "../../kernel/credentials.ts";
import type { EnvScope, PolicyNodeRow } from "../schema/tables.ts";

export type NodeKey = { project_id: string; node_id: string; env_scope: EnvScope };

function withKeys(on: Reader, start: string, keys: readonly NodeKey[], end = ""): Query {
  const columns = { project_id: "text", node_id: "text", env_scope: "text" } as const;
  const text = (bind: Bind): string => `${start} from policy_nodes
    where (project_id, node_id, env_scope) in (${tableOf(on.dialect, bind, keys, columns)}) ${end}`;
  return rawQuery(on.dialect, text);
}

export function nodesByKeys(on: Reader, keys: readonly NodeKey[]): Promise<PolicyNodeRow[]> {
  return on.all<PolicyNodeRow>(withKeys(on, "select *", keys));
}

/** In one order, so that two processes that write the same nodes do not wait for each other. */
export function lockNodes(on: Tx, keys: readonly NodeKey[]): Promise<PolicyNodeRow[]> {
  if (on.dialect === "sqlite") return nodesByKeys(on, keys);
  const locked = `order by project_id, env_scope collate "C", node_id collate "C" for update`;
  return on.all<PolicyNodeRow>(withKeys(on, "select *", keys, locked));
}

export function deleteNodes(on: Tx, keys: readonly NodeKey[]): Promise<number> {
  return on.run(withKeys(on, "delete", keys));
}

/** `first_seen_at` is that of the first registration. */
export const upsertNode = upsertRow(
  "policy_nodes",
  ["project_id", "node_id", "env_scope"],
  ["version", "last_seen_at", "caps", "full_power", "sdk"],
  ["first_seen_at"],
);

export type DegradedNode = NodeKey & { at: number; unlessAfter: number };

/** Only of a registered node, and unless it was marked after `unlessAfter`. */
export const markDegraded = statement<DegradedNode>()((db, p) =>
  db
    .updateTable("policy_nodes")
    .set({ degraded_at: p.at })
    .where("project_id", "=", p.project_id)
    .where("node_id", "=", p.node_id)
    .where("env_scope", "=", p.env_scope)
    .where((eb) => eb.or([eb("degraded_at", "is", null), eb("degraded_at", "<=", p.unlessAfter)])),
);

/** `missed_at`: when the oldest version that the node lacks was made, if the delta log still has it. */
export type NodeRow = PolicyNodeRow & { missed_at: number | null };

/** Where a walk over the nodes of a project continues, in the order of the primary key. */
export type NodePosition = { node_id: string; env_scope: string };

const AFTER = (p: NodePosition) => sql<SqlBool>`(n.node_id, n.env_scope) > (${p.node_id}, ${p.env_scope})`;

/** Nodes of test keys among others, so that no piece takes long to find. */
export const nodesAfter = statement<NodePosition & { project_id: string; limit: number }>()((db, p) =>
  db
    .selectFrom("policy_nodes as n")
    .leftJoin("policy_versions as v", (join) =>
      join.onRef("v.project_id", "=", "n.project_id").on((eb) => eb("v.version", "=", eb("n.version", "+", 1))),
    )
    .selectAll("n")
    .select("v.changed_at as missed_at")
    .where("n.project_id", "=", p.project_id)
    .where(AFTER(p))
    .orderBy("n.node_id")
    .orderBy("n.env_scope")
    .limit(p.limit),
);

export const liveNodesAfter = statement<NodePosition & { project_id: string; seenAfter: number; limit: number }>()(
  (db, p) =>
    db
      .selectFrom("policy_nodes as n")
      .selectAll("n")
      .where("n.project_id", "=", p.project_id)
      .where("n.last_seen_at", ">", p.seenAfter)
      .where(AFTER(p))
      .orderBy("n.node_id")
      .orderBy("n.env_scope")
      .limit(p.limit),
);

/** The most recently seen nodes of a project: those with only test keys, or all others. */
export const newestNodes = statement<{ project_id: string; isTest: number; limit: number }>()((db, p) =>
  db
    .selectFrom("policy_nodes")
    .selectAll()
    .where("project_id", "=", p.project_id)
    .where(sql<SqlBool>`case when env_scope = 'test' then 1 else 0 end = ${p.isTest}`)
    .orderBy("last_seen_at", "desc")
    .orderBy("node_id")
    .orderBy("env_scope")
    .limit(p.limit),
);

/** A version of a project, and the first node that may lack it. */
type AwaitedNodes = NodeScopes & { version: number; first: string };
export type LaggingNode = { project_id: string; node_id: string };

/**
 * The first live node of any of the projects that lacks its version: a wait that continues there reads each row once.
 * One query, whatever the number of projects.
 */
export function firstLagging(
  on: Reader,
  awaited: readonly AwaitedNodes[],
  seenAfter: number,
): Promise<LaggingNode | undefined> {
  const columns = { project_id: "text", version: "bigint", one: "text", other: "text", first: "text" } as const;
  const text = (bind: Bind): string => `select project_id, node_id from (
      select a.project_id, (
        select n.node_id from policy_nodes n
        where n.project_id = a.project_id and n.node_id >= a.first and n.version < a.version
          and n.env_scope in (a.one, a.other, 'all') and n.last_seen_at > ${bind(seenAfter)}
        order by n.node_id limit 1
      ) as node_id from (${tableOf(on.dialect, bind, awaited, columns)}) a
    ) lagging where node_id is not null limit 1`;
  return on.first<LaggingNode>(rawQuery(on.dialect, text));
}

export type FleetProject = { id: string; policy_version: number; features: number };

/** The projects of a workspace that have nodes. */
export const projectsWithNodes = statement<{ workspace_id: string }>()((db, p) =>
  db
    .selectFrom("projects as p")
    .select(["p.id", "p.policy_version", "p.features"])
    .where("p.workspace_id", "=", p.workspace_id)
    .where("p.deleted_at", "is", null)
    .where((eb) =>
      eb.exists(eb.selectFrom("policy_nodes as n").select("n.node_id").whereRef("n.project_id", "=", "p.id")),
    )
    .orderBy("p.id"),
);

const IS_SUSPENDED = sql<SqlBool>`exists (select 1 from tenants t
  where t.id = api_keys.tenant_id and t.suspended_at is not null)`;
/** Whether nodes need to know other prefixes than ours. */
const IS_CHOSEN = sql<SqlBool>`substr(display_prefix, 1, 3) <> 'kr_'`;
/** Whether nodes need to enforce a list of networks. */
const IS_CONFINED = sql<SqlBool>`case when api_keys.allowed_cidrs is null
  then exists (select 1 from tenants t where t.id = api_keys.tenant_id and t.allowed_cidrs <> '[]' and t.ip_mode = 'enforce')
  else api_keys.allowed_cidrs <> '[]' and api_keys.ip_mode = 'enforce' end`;
const CHOSEN = sql<number>`case when ${IS_CHOSEN} then 1 else 0 end`;
/** Whether nodes need to charge quotas, of the key, its tenant or its plan. */
const IS_METERED = sql<SqlBool>`(coalesce(api_keys.quotas, '[]') like '%"overage":"deny"%'
  or exists (select 1 from tenants t left join plans p on p.id = t.plan_id
    where t.id = api_keys.tenant_id and coalesce(t.quotas, p.quotas) like '%"overage":"deny"%'))`;
const METERED = sql<number>`case when ${IS_METERED} then 1 else 0 end`;
const CONFINED = sql<number>`case when ${IS_CONFINED} then 1 else 0 end`;

export type NeedingKeys = {
  project_id: string;
  env: Env;
  chosen: number;
  confined: number;
  metered: number;
  n: number;
};

/**
 * Counts keys that work and that not every node gets, by what nodes need to get them. It reads every working key of the
 * projects.
 */
export function countNeedingKeys(
  on: Reader,
  { workspace_id, project_ids, now }: { workspace_id: string; project_ids: readonly string[]; now: number },
): Promise<NeedingKeys[]> {
  return selectRows(on, (db, dialect) =>
    db
      .selectFrom("api_keys")
      .select(["project_id", "env", CHOSEN.as("chosen"), CONFINED.as("confined"), METERED.as("metered"), countRows])
      .where("workspace_id", "=", workspace_id)
      .where(isIn("api_keys.project_id", project_ids, dialect))
      .where(notRevoked)
      .where("disabled_at", "is", null)
      .where(sql<SqlBool>`not ${IS_SUSPENDED}`)
      .where(isUnexpired("expires_at", now))
      .where((eb) => eb.or([IS_CHOSEN, IS_CONFINED, IS_METERED]))
      .groupBy(["project_id", "env", CHOSEN, CONFINED, METERED]),
  );
}

/** Two environment scopes that are counted together. */
export type NodeScopes = { project_id: string; one: EnvScope; other: EnvScope };

function nodesIn(db: Builder, p: Params<NodeScopes>) {
  return db
    .selectFrom("policy_nodes")
    .where("project_id", "=", p.project_id)
    .where((eb) => eb.or([eb("env_scope", "=", p.one), eb("env_scope", "=", p.other)]));
}

export const countInScopes = statement<NodeScopes>()((db, p) => nodesIn(db, p).select(countRows));

/** The least recently seen first. */
export const silentNodes = statement<NodeScopes & { seenBefore: number; limit: number }>()((db, p) =>
  nodesIn(db, p)
    .select(["project_id", "node_id", "env_scope"])
    .where("last_seen_at", "<=", p.seenBefore)
    .orderBy("last_seen_at")
    .orderBy("node_id")
    .limit(p.limit),
);

export const noteUnregistered = upsertRow("unregistered_nodes", ["project_id", "scope"], ["nodes", "last_seen_at"]);

/** `ids`: projects, as JSON. */
export const unregisteredNodes = statement<{ ids: string; seenAfter: number }>()((db, p, dialect) =>
  db
    .selectFrom("unregistered_nodes")
    .selectAll()
    .where(isInJson("unregistered_nodes.project_id", p.ids, dialect))
    .where("last_seen_at", ">", p.seenAfter),
);

/** Unregistered nodes of all projects of a workspace. */
export const unregisteredOf = statement<{ workspace_id: string; seenAfter: number }>()((db, p) =>
  db
    .selectFrom("projects as p")
    .innerJoin("unregistered_nodes as u", "u.project_id", "p.id")
    .select(["u.project_id", "u.scope", "u.nodes"])
    .where("p.workspace_id", "=", p.workspace_id)
    .where("p.deleted_at", "is", null)
    .where("u.last_seen_at", ">", p.seenAfter),
);

/**
 * Sets times after `latest` to `now`. Rows that are being written are skipped on PostgreSQL: they get a time of their
 * own, and two processes that lock the same rows in other orders would wait for each other.
 */
const correctSeenAt = (table: "policy_nodes" | "unregistered_nodes", key: readonly string[]) =>
  statement<{ now: number; latest: number; limit: number }>()((db, p, dialect) => {
    const columns = sql.join(key.map((name) => sql.ref(name)));
    const lock = dialect === "postgres" ? sql`for update skip locked` : sql``;
    const rows = sql`select ${columns} from ${sql.table(table)} where last_seen_at > ${p.latest} limit ${p.limit} ${lock}`;
    const query = sql`update ${sql.table(table)} set last_seen_at = ${p.now} where (${columns}) in (${rows})`;
    return { compile: () => query.compile(db) };
  });

export const correctNodes = correctSeenAt("policy_nodes", ["project_id", "node_id", "env_scope"]);
export const correctUnregistered = correctSeenAt("unregistered_nodes", ["project_id", "scope"]);

export const reapNodes = deleteWhere("policy_nodes", ["project_id", "node_id", "env_scope"], "last_seen_at", "<");
