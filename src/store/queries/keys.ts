// API keys. Rows are never deleted; revocation is a state. `policy_version` orders changes in the policy feed.
import type { Env } from "../../kernel/credentials.ts";
import { pageAfter, type PageKey } from "./page.ts";
import { columns, compileQuery, statement, type Reader, type Tx } from "../engine/statement.ts";
import type { ApiKeyRow, RevokedCause } from "../schema/tables.ts";

/** Omits columns that are null in every new key: fewer values to bind. bench: vendor/mint */
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

type ActiveKeys = { tenant_id: string; project_id: string; env: Env; now: number; max: number };

/** Up to `max` active keys of one tenant in one project and environment. */
export const activeKeysOf = statement<ActiveKeys>()((db, p) =>
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

// Keys per statement: a tenant may have more than can be revoked within PostgreSQL's statement_timeout.
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

async function repeatUntilDone(revokeSome: () => Promise<number>): Promise<number> {
  for (let all = 0; ; ) {
    const some = await revokeSome();
    all += some;
    if (some < CASCADE_ROWS) return all;
    await new Promise((resolve) => setImmediate(resolve)); // let reads run in between
  }
}

/** Revokes the remaining keys of a deleted tenant in one project. Returns their number. */
export function revokeKeysOfTenant(tx: Tx, p: Cascade & { tenant_id: string }): Promise<number> {
  return repeatUntilDone(() => revokeSomeOfTenant.run(tx, p));
}

export function revokeKeysOfProject(tx: Tx, p: Cascade): Promise<number> {
  return repeatUntilDone(() => revokeSomeOfProject.run(tx, p));
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
