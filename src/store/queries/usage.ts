// Usage: sums per key and day, and per tenant, project, environment and month. Written as additive upserts, many rows
// per statement.
import { sql } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import type { Env } from "../../kernel/credentials.ts";
import { additiveUpsert } from "../engine/additive-upsert.ts";
import { rawQuery, tableOf, type Bind } from "../engine/raw-query.ts";
import { selectRow, selectRows, statement } from "../engine/statement.ts";
import type { Reader, Tx } from "../engine/tx.ts";
import type { UsageTenantMonthRow } from "../schema/tables.ts";
import { isIn } from "./id-lists.ts";

export const usageDayUpsert = additiveUpsert("usage_days", {
  keyOf: ({ key_id, day }) => `${key_id} ${day}`,
  key: ["key_id", "day"],
  kept: ["workspace_id"],
  sum: ["requests", "errors"],
});

export const tenantMonthUpsert = additiveUpsert("usage_tenant_months", {
  keyOf: ({ workspace_id, month, env, tenant_id, project_id }) =>
    `${workspace_id} ${month} ${env} ${tenant_id} ${project_id}`,
  key: ["workspace_id", "month", "env", "tenant_id", "project_id"],
  sum: ["requests"],
  min: ["first_seen_at"],
  max: ["last_seen_at"],
});

/**
 * Raises the last use of keys; an earlier one changes nothing. One statement: a batch may name thousands of keys. They
 * are found by id: the workspace is compared as an expression, so that none of its indexes is taken instead.
 */
export function touchKeys(on: Tx, workspace_id: string, uses: readonly { id: string; at: number }[]): Promise<number> {
  const text = (bind: Bind): string => `update api_keys set last_used_at = used.at
    from (${tableOf(on.dialect, bind, uses, { id: "text", at: "bigint" })}) as used
    where api_keys.id = used.id and coalesce(api_keys.workspace_id, '') = ${bind(workspace_id)}
      and (last_used_at is null or last_used_at < used.at)`;
  return on.run(rawQuery(on.dialect, text));
}

export const keyDays = statement<{ workspace_id: string; key_id: string; from: number; to: number }>()((db, p) =>
  db
    .selectFrom("usage_days")
    .select(["day", "requests", "errors"])
    .where("workspace_id", "=", p.workspace_id)
    .where("key_id", "=", p.key_id)
    .where("day", ">=", p.from)
    .where("day", "<=", p.to),
);

export const activeTenants = statement<{ workspace_id: string; from: number; to: number }>()((db, p) =>
  db
    .selectFrom("usage_tenant_months")
    .select((eb) => ["month", eb.fn.count<number>("tenant_id").distinct().as("active_tenants")])
    .where("workspace_id", "=", p.workspace_id)
    .where("env", "=", "live")
    .where("month", ">=", p.from)
    .where("month", "<=", p.to)
    .groupBy("month"),
);

type TenantMonthsFilter = {
  workspace_id: string;
  /** Null: all. */
  projects: readonly string[] | null;
  env: Env | undefined;
  from: number;
  to: number;
  limit: number;
};

/** One row more than the limit if there are more. */
export function tenantMonths(
  on: Reader,
  { workspace_id, projects, env, from, to, limit }: TenantMonthsFilter,
): Promise<UsageTenantMonthRow[]> {
  return selectRows(on, (db, dialect) => {
    const query = db
      .selectFrom("usage_tenant_months")
      .selectAll()
      .where("workspace_id", "=", workspace_id)
      .where("month", ">=", from)
      .where("month", "<=", to)
      .orderBy("month", "desc")
      .orderBy("requests", "desc")
      .orderBy("tenant_id")
      .orderBy("project_id")
      .orderBy("env")
      .limit(limit + 1);
    const ofProjects = projects ? query.where(isIn("usage_tenant_months.project_id", projects, dialect)) : query;
    return env ? ofProjects.where("env", "=", env) : ofProjects;
  });
}

export const reapDays = deletePiece<{ before: number }>()(
  "usage_days",
  ["key_id", "day"],
  (p) => sql`day < ${p.before}`,
);

type FirstAllowed = { workspace_id: string; env: Env; projects: readonly string[] | null };

/** When the first request of an environment was admitted, by the months that are kept. */
export async function firstAllowedAt(
  on: Reader,
  { workspace_id, env, projects }: FirstAllowed,
): Promise<number | null> {
  const first = await selectRow(on, (db, dialect) => {
    const months = db
      .selectFrom("usage_tenant_months")
      .select("first_seen_at")
      .where("workspace_id", "=", workspace_id)
      .where("env", "=", env)
      .orderBy("month")
      .limit(10_000);
    const oldest = projects ? months.where(isIn("usage_tenant_months.project_id", projects, dialect)) : months;
    return db.selectFrom(oldest.as("oldest")).select((eb) => eb.fn.min<number | null>("first_seen_at").as("at"));
  });
  return first?.at ?? null;
}
