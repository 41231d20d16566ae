// Walks keys in the order of an index and says of each whether it belongs to a state. The walk takes a bounded number
// of rows from the index before anything is filtered: however many keys are revoked, expired or of another project, a
// piece costs the same, and the caller continues behind the last row examined.
import { sql, type Expression, type ExpressionBuilder, type SqlBool } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { selectRows, statement, type Builder } from "../engine/statement.ts";
import type { Dialect, Reader } from "../engine/tx.ts";
import type { ApiKeyRow, Tables } from "../schema/tables.ts";
import { isIn, isNamed } from "./id-lists.ts";
import { holdsScope, isActive, isUnusedSince, notRevoked, selectKeys } from "./keys.ts";
import type { WalkPosition } from "./page.ts";

export const KEY_STATES = ["active", "expiring", "expired", "quarantined", "disabled", "revoked", "idle"] as const;
export type KeyState = (typeof KEY_STATES)[number];

/** `unrevoked` and `all` are the keys of a search without a state, `dated` and `allDated` those with an expiry. */
export type KeySet = KeyState | "unrevoked" | "dated" | "allDated" | "all";

type WalkScope = {
  workspace_id: string;
  /** The only projects to list; null: all. */
  projects?: readonly string[] | null | undefined;
  project_id?: string | undefined;
  tenant_id?: string | undefined;
  env?: Env | undefined;
  /** Compared by the database: the scopes of a piece of keys may be megabytes. */
  scope?: string | undefined;
};

/** Where a row is in its order. */
export type KeyWalk = WalkScope & {
  set: KeySet;
  now: number;
  /** For `expiring`, the latest expiry. */
  until: number;
  /** Only keys that were not used since. */
  usedBefore?: number | null | undefined;
  /** Whether a deletion is in progress, so that revoked keys may be among rows that do not say so yet. */
  isDeleting: boolean;
  /** Walk the tenant's keys of both environments, which is shorter: for actors that may see both. */
  byTenant: boolean;
  /** Walk only the environment's keys of the tenant: for actors that may not see the other's. */
  isConfined?: boolean;
  limit: number;
  after: WalkPosition | null;
};

/** A row of the walk. `belongs`: it is in the set and the scope. */
type Walked = WalkPosition & { belongs: 0 | 1 };

/** What a search compares. */
export type WalkedTexts = Walked & {
  tenant_id: string;
  created_at: number;
  last_used_at: number | null;
  name: string | null;
  display_prefix: string;
  external_id: string | null;
  tenant_name: string | null;
};

const withRevoked = (set: KeySet): boolean => set === "all" || set === "allDated";
const isDated = (set: KeySet): boolean => set === "dated" || set === "allDated";

type Column = "created_at" | "expires_at" | "quarantined_at" | "disabled_at";

function orderOf(set: KeySet): { column: Column; direction: "asc" | "desc" } {
  if (set === "expiring" || isDated(set)) return { column: "expires_at", direction: "asc" };
  if (set === "expired") return { column: "expires_at", direction: "desc" };
  if (set === "quarantined" || set === "disabled") return { column: `${set}_at`, direction: "desc" };
  return { column: "created_at", direction: "desc" };
}

/** The first position of the walk. A forged one outside of the set's range begins at its edge. */
function startOf({ set, now, after }: KeyWalk): WalkPosition {
  if (set === "expiring") return after && after.at > now ? after : { at: now + 1, id: "" };
  if (isDated(set)) return after ?? { at: 0, id: "" };
  const edge = { at: set === "expired" ? now + 1 : Number.MAX_SAFE_INTEGER, id: "" };
  return after && after.at < edge.at ? after : edge;
}

/** Index ranges of the walk, each cut at its limit. */
function ranges(db: Builder, walk: KeyWalk) {
  const { column, direction } = orderOf(walk.set);
  const start = startOf(walk);
  const [place, from] = [sql`(${sql.ref(column)}, id)`, sql`(${start.at}, ${start.id})`];
  const range = () => {
    const query = db
      .selectFrom("api_keys")
      .select(["id", `${column} as at`])
      .where(direction === "asc" ? sql<SqlBool>`${place} > ${from}` : sql<SqlBool>`${place} < ${from}`)
      .orderBy(column, direction)
      .orderBy("id", direction)
      .limit(walk.limit);
    // That it is not null too would make SQLite read the whole range and sort it, once it has statistics.
    if (walk.set === "expiring") return query.where("expires_at", "<=", walk.until);
    return column === "created_at" ? query : query.where(column, "is not", null);
  };
  if (walk.byTenant && walk.tenant_id && column === "created_at") {
    // Exclude keys of another workspace's tenant, or the position would name one.
    const own = db
      .selectFrom("tenants")
      .select("tenants.id")
      .where("tenants.id", "=", walk.tenant_id)
      .where("tenants.workspace_id", "=", walk.workspace_id);
    const keys = range().where("tenant_id", "=", own);
    return [walk.env && walk.isConfined ? keys.where("env", "=", walk.env) : keys];
  }
  const envs: Env[] = walk.env ? [walk.env] : ["live", "test"];
  const revoked =
    withRevoked(walk.set) || (walk.set === "revoked" && walk.isDeleting) ? [false, true] : [walk.set === "revoked"];
  return envs.flatMap((env) =>
    revoked.map((isRevoked) =>
      range()
        .where("workspace_id", "=", walk.workspace_id)
        .where("env", "=", env)
        .where("revoked_at", isRevoked ? "is not" : "is", null),
    ),
  );
}

type Keys = ExpressionBuilder<Tables, "api_keys">;

function belongs(eb: Keys, walk: KeyWalk, dialect: Dialect): Expression<SqlBool> {
  const all: Expression<SqlBool>[] = [eb("api_keys.workspace_id", "=", walk.workspace_id)];
  if (walk.projects) all.push(isIn("api_keys.project_id", walk.projects, dialect));
  if (walk.project_id) all.push(eb("api_keys.project_id", "=", walk.project_id));
  if (walk.tenant_id) all.push(eb("api_keys.tenant_id", "=", walk.tenant_id));
  if (walk.env) all.push(eb("api_keys.env", "=", walk.env));
  if (walk.set === "revoked") all.push(eb.not(notRevoked(eb)));
  else if (!withRevoked(walk.set)) all.push(notRevoked(eb));
  if (walk.set === "active" || walk.set === "expiring" || walk.set === "idle") all.push(isActive(walk.now)(eb));
  if (walk.set === "expiring") all.push(eb("api_keys.expires_at", "<=", walk.until));
  if (walk.set === "expired") all.push(eb("api_keys.expires_at", "<=", walk.now));
  if (walk.set === "quarantined" || walk.set === "disabled") all.push(eb(`api_keys.${walk.set}_at`, "is not", null));
  const { usedBefore = null } = walk;
  if (usedBefore !== null) all.push(isUnusedSince(usedBefore)(eb));
  if (walk.scope !== undefined) all.push(holdsScope(walk.scope, dialect));
  return eb.and(all);
}

function whetherBelongs(eb: Keys, walk: KeyWalk, dialect: Dialect) {
  return sql<0 | 1>`case when ${belongs(eb, walk, dialect)} then 1 else 0 end`;
}

const KEY_TEXTS = [
  "api_keys.tenant_id",
  "api_keys.created_at",
  "api_keys.last_used_at",
  "api_keys.name",
  "api_keys.display_prefix",
] as const;
const TENANT_TEXTS = ["tenants.external_id", "tenants.name as tenant_name"] as const;

function walkQuery(db: Builder, walk: KeyWalk, dialect: Dialect) {
  const { direction } = orderOf(walk.set);
  const parts = ranges(db, walk).map((range) => db.selectFrom(range.as("part")).select(["part.id", "part.at"]));
  const walked = parts.reduce((all, part) => all.unionAll(part));
  return db
    .selectFrom(walked.orderBy("at", direction).orderBy("id", direction).limit(walk.limit).as("walked"))
    .innerJoin("api_keys", "api_keys.id", "walked.id")
    .select(["walked.id", "walked.at"])
    .select((eb) => whetherBelongs(eb as unknown as Keys, walk, dialect).as("belongs"))
    .orderBy("walked.at", direction)
    .orderBy("walked.id", direction);
}

/** The next rows of the index, up to the limit, whether they belong to the set or not. */
export function walkTexts(on: Reader, walk: KeyWalk): Promise<WalkedTexts[]> {
  return selectRows(on, (db, dialect) =>
    walkQuery(db, walk, dialect)
      .innerJoin("tenants", "tenants.id", "api_keys.tenant_id")
      .select(KEY_TEXTS)
      .select(TENANT_TEXTS)
      .$castTo<WalkedTexts>(),
  );
}

/** The same for keys that another index has found. */
export function keyTexts(
  on: Reader,
  walk: Omit<KeyWalk, "limit" | "after">,
  ids: readonly string[],
): Promise<WalkedTexts[]> {
  if (ids.length === 0) return Promise.resolve([]);
  return selectRows(on, (db, dialect) =>
    db
      .selectFrom("api_keys")
      .innerJoin("tenants", "tenants.id", "api_keys.tenant_id")
      .select(["api_keys.id", "api_keys.created_at as at"])
      .select((eb) => whetherBelongs(eb as unknown as Keys, { ...walk, limit: 0, after: null }, dialect).as("belongs"))
      .select(KEY_TEXTS)
      .select(TENANT_TEXTS)
      .where(isIn("api_keys.id", ids, dialect)),
  );
}

/** Whether the keys of a project or tenant of this workspace are being revoked. */
export const runningCascade = statement<{ workspace_id: string }>()((db, p) =>
  db.selectFrom("cascades").select("id").where("workspace_id", "=", p.workspace_id).limit(1),
);

/** For a page of ids, in any order. */
export function keysByIds(on: Reader, workspace_id: string, ids: readonly string[]): Promise<ApiKeyRow[]> {
  if (ids.length === 0) return Promise.resolve([]);
  return selectRows(on, (db, dialect) => selectKeys(db).where(isNamed("api_keys", workspace_id, ids, dialect)));
}
