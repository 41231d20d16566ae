// API keys. Rows are never deleted; revocation is a state. `policy_version` places a change in the delta feed.
import type { Env } from "../../kernel/credentials.ts";
import { pageAfter, type PageKey } from "./page.ts";
import { columns, compileQuery, statement, type Reader, type Tx } from "../engine/statement.ts";
import type { ApiKeyRow, RevokedCause } from "../schema/tables.ts";

/** A new key is neither revoked nor quarantined nor used: what is null by itself need not be bound. */
type NewRow = Omit<
  ApiKeyRow,
  "revoked_at" | "revoked_reason" | "revoked_cause" | "quarantined_at" | "quarantine_reason" | "last_used_at"
>;

export const insertKey = statement<NewRow>()((db, p) =>
  db
    .insertInto("api_keys")
    .values(
      columns(p, [
        "id",
        "workspace_id",
        "project_id",
        "tenant_id",
        "env",
        "lookup_hash",
        "display_prefix",
        "name",
        "scopes",
        "meta",
        "rate_limits",
        "expires_at",
        "requested_expires_at",
        "rotated_from",
        "created_at",
        "policy_version",
      ]),
    ),
);

export const keyById = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db.selectFrom("api_keys").selectAll().where("id", "=", p.id).where("workspace_id", "=", p.workspace_id),
);

type Holding = { tenant_id: string; project_id: string; env: Env; now: number; max: number };

/** The active keys of one tenant in one project and environment, no more than are asked about. */
export const activeKeysOf = statement<Holding>()((db, p) =>
  db
    .selectFrom("api_keys")
    .select("id")
    .where("tenant_id", "=", p.tenant_id)
    .where("project_id", "=", p.project_id)
    .where("env", "=", p.env)
    .where("revoked_at", "is", null)
    .where((eb) => eb.or([eb("expires_at", "is", null), eb("expires_at", ">", p.now)]))
    .limit(p.max),
);

export const activeSuccessor = statement<{ workspace_id: string; id: string; now: number }>()((db, p) =>
  db
    .selectFrom("api_keys")
    .select("id")
    .where("rotated_from", "=", p.id)
    .where("workspace_id", "=", p.workspace_id)
    .where("revoked_at", "is", null)
    .where((eb) => eb.or([eb("expires_at", "is", null), eb("expires_at", ">", p.now)]))
    .limit(1),
);

type KeyEdit = Pick<
  ApiKeyRow,
  | "workspace_id"
  | "id"
  | "name"
  | "scopes"
  | "meta"
  | "rate_limits"
  | "expires_at"
  | "requested_expires_at"
  | "policy_version"
>;

export const updateKey = statement<KeyEdit>()((db, p) =>
  db
    .updateTable("api_keys")
    .set(columns(p, ["name", "scopes", "meta", "rate_limits", "expires_at", "requested_expires_at", "policy_version"]))
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export const shortenKey = statement<{ workspace_id: string; id: string; expires_at: number; policy_version: number }>()(
  (db, p) =>
    db
      .updateTable("api_keys")
      .set({ expires_at: p.expires_at, policy_version: p.policy_version })
      .where("id", "=", p.id)
      .where("workspace_id", "=", p.workspace_id),
);

export const revokeKeyRow = statement<{
  workspace_id: string;
  id: string;
  now: number;
  reason: string | null;
  policy_version: number;
}>()((db, p) =>
  db
    .updateTable("api_keys")
    .set({
      revoked_at: p.now,
      revoked_reason: p.reason,
      revoked_cause: "revoked",
      policy_version: p.policy_version,
    })
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export const projectsOfTenant = statement<{ workspace_id: string; tenant_id: string }>()((db, p) =>
  db
    .selectFrom("api_keys")
    .select("project_id")
    .distinct()
    .where("tenant_id", "=", p.tenant_id)
    .where("workspace_id", "=", p.workspace_id)
    .where("revoked_at", "is", null)
    .orderBy("project_id"),
);

type Cascade = {
  workspace_id: string;
  project_id: string;
  now: number;
  reason: string;
  cause: RevokedCause;
  policy_version: number;
};

// A statement of bounded length: a tenant may hold more keys than one may revoke in PostgreSQL's statement_timeout.
const CASCADE_ROWS = 5_000;

const revokeSomeOfTenant = statement<Cascade & { tenant_id: string }>()((db, p) =>
  db
    .updateTable("api_keys")
    .set({ revoked_at: p.now, revoked_reason: p.reason, revoked_cause: p.cause, policy_version: p.policy_version })
    .where("id", "in", (eb) =>
      eb
        .selectFrom("api_keys")
        .select("id")
        .where("tenant_id", "=", p.tenant_id)
        .where("project_id", "=", p.project_id)
        .where("workspace_id", "=", p.workspace_id)
        .where("revoked_at", "is", null)
        .limit(eb.lit(CASCADE_ROWS)),
    ),
);

const revokeSomeOfProject = statement<Cascade>()((db, p) =>
  db
    .updateTable("api_keys")
    .set({ revoked_at: p.now, revoked_reason: p.reason, revoked_cause: p.cause, policy_version: p.policy_version })
    .where("id", "in", (eb) =>
      eb
        .selectFrom("api_keys")
        .select("id")
        .where("project_id", "=", p.project_id)
        .where("workspace_id", "=", p.workspace_id)
        .where("revoked_at", "is", null)
        .limit(eb.lit(CASCADE_ROWS)),
    ),
);

async function untilNone(revokeSome: () => Promise<number>): Promise<number> {
  for (let all = 0; ; ) {
    const some = await revokeSome();
    all += some;
    if (some < CASCADE_ROWS) return all;
    await new Promise((resolve) => setImmediate(resolve)); // requests that only read go on meanwhile
  }
}

/** Revokes what is left of a deleted tenant in one project; answers how many. */
export function revokeKeysOfTenant(tx: Tx, p: Cascade & { tenant_id: string }): Promise<number> {
  return untilNone(() => revokeSomeOfTenant.run(tx, p));
}

export function revokeKeysOfProject(tx: Tx, p: Cascade): Promise<number> {
  return untilNone(() => revokeSomeOfProject.run(tx, p));
}

export type KeyFilter = {
  workspace_id: string;
  project_id?: string | undefined;
  tenant_id?: string | undefined;
  env?: Env | undefined;
  include_revoked: boolean;
  limit: number;
  after: PageKey | null;
};

export function listKeys(on: Reader, filter: KeyFilter): Promise<ApiKeyRow[]> {
  return on.all<ApiKeyRow>(
    compileQuery(on, (db) => {
      let query = db.selectFrom("api_keys").selectAll().where("workspace_id", "=", filter.workspace_id);
      if (filter.project_id) query = query.where("project_id", "=", filter.project_id);
      if (filter.tenant_id) query = query.where("tenant_id", "=", filter.tenant_id);
      if (filter.env) query = query.where("env", "=", filter.env);
      if (!filter.include_revoked) query = query.where("revoked_at", "is", null);
      if (filter.after) query = query.where(pageAfter<"api_keys">(filter.after));
      return query
        .orderBy("created_at", "desc")
        .orderBy("id", "desc")
        .limit(filter.limit + 1);
    }),
  );
}
