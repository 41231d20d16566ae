// Unused keys: what is known of each key's use, of the reports that this knowledge rests on, and of earlier
// revocations.
import { sql } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { additiveUpsert } from "../engine/additive-upsert.ts";
import { deleteWhere } from "../engine/delete-piece.ts";
import { columns, selectRows, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { ApiKeyRow } from "../schema/tables.ts";
import type { IdleRevocationRow } from "../schema/tables-machine.ts";
import { isIn, notLookedUp } from "./id-lists.ts";
import { isUnexpired, notRevoked, workingSuccessor } from "./keys.ts";

export type KeyUse = Pick<
  ApiKeyRow,
  | "id"
  | "project_id"
  | "tenant_id"
  | "env"
  | "display_prefix"
  | "name"
  | "created_at"
  | "expires_at"
  | "last_used_at"
  | "enabled_at"
  | "quarantined_at"
  | "disabled_at"
> & {
  /** Id of a successor that works. */
  successor_id: string | null;
  /** Since when its tenant is suspended. */
  suspended_at: number | null;
  /** When its tenant was last resumed. */
  tenant_resumed_at: number | null;
};

export type KeysOf = {
  workspace_id: string;
  project_id: string;
  env?: Env | undefined;
  withDisabled?: boolean;
  now: number;
};

/** Ids between two others, the second included, or named ones. */
type KeyIds = { after: string; upTo: string } | readonly string[];

/** The unrevoked key of a project behind `skipped` others, in the order of ids. */
export const keyBehind = statement<{ project_id: string; after: string; skipped: number }>()((db, p) =>
  db
    .selectFrom("api_keys")
    .select("id")
    .where("project_id", "=", p.project_id)
    .where("revoked_at", "is", null)
    .where("id", ">", p.after)
    .orderBy("id")
    .limit(1)
    .offset(p.skipped),
);

/** Keys of a project that are neither revoked nor expired nor, unless asked for, disabled. */
export function keyUses(on: Reader, of: KeysOf, ids: KeyIds): Promise<KeyUse[]> {
  return selectRows(on, (db, dialect) => {
    const query = db
      .selectFrom("api_keys")
      .innerJoin("tenants", "tenants.id", "api_keys.tenant_id")
      .select(["api_keys.id", "project_id", "tenant_id", "env", "display_prefix", "api_keys.name"])
      .select(["api_keys.created_at", "expires_at", "suspended_at", "tenants.resumed_at as tenant_resumed_at"])
      .select(["last_used_at", "enabled_at", "quarantined_at", "disabled_at"])
      .select(workingSuccessor("api_keys", of.now))
      .where(notLookedUp("api_keys.workspace_id"), "=", of.workspace_id)
      .where(notRevoked)
      .where(isUnexpired("expires_at", of.now));
    const working = of.withDisabled ? query : query.where("disabled_at", "is", null);
    const wanted = of.env ? working.where("env", "=", of.env) : working;
    if (!("upTo" in ids))
      return wanted
        .where(notLookedUp("api_keys.project_id"), "=", of.project_id)
        .where(isIn("api_keys.id", ids, dialect));
    return wanted
      .where("project_id", "=", of.project_id)
      .where("api_keys.id", ">", ids.after)
      .where("api_keys.id", "<=", ids.upTo);
  });
}

/** Projects of every workspace with rules of their own for keys. */
export const policyProjects = statement<Record<string, never>>()((db) =>
  db
    .selectFrom("projects")
    .select(["id", "workspace_id", "key_policy", "idle_changed_at"])
    .where("key_policy", "is not", null)
    .where("deleted_at", "is", null),
);

export const telemetryDays = statement<{ project_id: string; env: Env; from: number }>()((db, p) =>
  db
    .selectFrom("telemetry_days")
    .selectAll()
    .where("project_id", "=", p.project_id)
    .where("env", "=", p.env)
    .where("day", ">=", p.from),
);

/** Not sums, but merged alike: the newest time, and whether any batch was sampled. */
export const telemetryDayUpsert = additiveUpsert("telemetry_days", {
  keyOf: ({ project_id, env, day }) => `${project_id} ${env} ${day}`,
  key: ["project_id", "env", "day"],
  max: ["last_at", "sampled"],
});

export const reapTelemetryDays = deleteWhere("telemetry_days", ["project_id", "env", "day"], "day", "<");

export const insertIdleRevocation = statement<IdleRevocationRow>()((db, p) =>
  db
    .insertInto("idle_revocations")
    .values(columns(p, ["project_id", "revoked_at", "keys", "test_keys"]))
    .onConflict((oc) =>
      oc.columns(["project_id", "revoked_at"]).doUpdateSet({
        keys: sql<number>`idle_revocations.keys + excluded.keys`,
        test_keys: sql<number>`idle_revocations.test_keys + excluded.test_keys`,
      }),
    ),
);

export const idleRevocationsSince = statement<{ project_id: string; since: number }>()((db, p) =>
  db
    .selectFrom("idle_revocations")
    .select([
      sql<number>`coalesce(cast(sum(keys - test_keys) as bigint), 0)`.as("live"),
      sql<number>`coalesce(cast(sum(test_keys) as bigint), 0)`.as("test"),
    ])
    .where("project_id", "=", p.project_id)
    .where("revoked_at", ">", p.since),
);

export const reapIdleRevocations = deleteWhere("idle_revocations", ["project_id", "revoked_at"], "revoked_at", "<=");
