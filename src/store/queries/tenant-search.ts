// Walks tenants in the order of an index, deleted ones too, so that a piece costs the same however many there are.
import { sql, type SqlBool } from "kysely";
import { selectRows } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { TenantRow } from "../schema/tables.ts";
import { isNamed } from "./id-lists.ts";
import type { PageKey } from "./page.ts";

/** Newest first. Those that are suspended in the order of their ids, which is almost the same. */
export type TenantOrder = { by: "created" } | { by: "suspended" } | { by: "plan"; plan_id: string };

type TenantWalk = { workspace_id: string; order: TenantOrder; after: PageKey | null; limit: number };

export function walkTenants(on: Reader, { workspace_id, order, after, limit }: TenantWalk): Promise<TenantRow[]> {
  return selectRows(on, (db) => {
    const all = db.selectFrom("tenants").selectAll().where("workspace_id", "=", workspace_id).limit(limit);
    if (order.by === "suspended") {
      const query = all.where("suspended_at", "is not", null).orderBy("id", "desc");
      return after ? query.where("id", "<", after.id) : query;
    }
    const query = all.orderBy("created_at", "desc").orderBy("id", "desc");
    const paged = after ? query.where(sql<SqlBool>`(created_at, id) < (${after.created_at}, ${after.id})`) : query;
    return order.by === "plan" ? paged.where("plan_id", "=", order.plan_id) : paged;
  });
}

/** For a page of ids, in any order. */
export function tenantsByIds(on: Reader, workspace_id: string, ids: readonly string[]): Promise<TenantRow[]> {
  if (ids.length === 0) return Promise.resolve([]);
  return selectRows(on, (db, dialect) =>
    db
      .selectFrom("tenants")
      .selectAll()
      .where(isNamed("tenants", workspace_id, ids, dialect)),
  );
}
