// Keys by state, each state a range of an index, and the texts that a search looks at.
import type { Env } from "../../kernel/credentials.ts";
import { compileQuery, type Builder, type Reader } from "../engine/statement.ts";
import type { ApiKeyRow } from "../schema/tables.ts";
import { notRevoked, selectKeys } from "./keys.ts";
import { pageAfter, type PageKey } from "./page.ts";

export const KEY_STATES = ["active", "expiring", "expired", "quarantined", "disabled", "revoked"] as const;
export type KeyState = (typeof KEY_STATES)[number];

export type KeyScope = {
  workspace_id: string;
  /** The only projects to list; null: all. */
  projects?: readonly string[] | null | undefined;
  project_id?: string | undefined;
  tenant_id?: string | undefined;
  env?: Env | undefined;
};

/** `until`: for `expiring`, the latest expiry. */
export type StateFilter = KeyScope & { state: KeyState; now: number; until: number };

/** The column that orders the keys of a state, and its direction. */
export const STATE_ORDER = {
  active: ["created_at", "desc"],
  expiring: ["expires_at", "asc"],
  expired: ["expires_at", "desc"],
  quarantined: ["quarantined_at", "desc"],
  disabled: ["disabled_at", "desc"],
  revoked: ["created_at", "desc"],
} as const satisfies Record<KeyState, readonly [keyof ApiKeyRow, "asc" | "desc"]>;

function inState(db: Builder, { state, now, until, ...scope }: StateFilter) {
  let query = selectKeys(db).where("workspace_id", "=", scope.workspace_id);
  if (scope.projects) query = query.where("project_id", "in", scope.projects);
  if (scope.project_id) query = query.where("project_id", "=", scope.project_id);
  if (scope.tenant_id) query = query.where("tenant_id", "=", scope.tenant_id);
  if (scope.env) query = query.where("env", "=", scope.env);
  if (state === "revoked") return query.where("revoked_at", "is not", null);
  query = query.where(notRevoked);
  if (state === "disabled") return query.where("disabled_at", "is not", null);
  if (state === "active" || state === "expiring") query = query.where("disabled_at", "is", null);
  if (state === "active") return query.where((eb) => eb.or([eb("expires_at", "is", null), eb("expires_at", ">", now)]));
  if (state === "quarantined") return query.where("quarantined_at", "is not", null);
  query = query.where("expires_at", "is not", null);
  return state === "expired"
    ? query.where("expires_at", "<=", now)
    : query.where("expires_at", ">", now).where("expires_at", "<=", until);
}

export type StatePage = StateFilter & { limit: number; after: { at: number; id: string } | null };

/** Returns one row more than the limit if there are more. */
export function keysInState(on: Reader, { limit, after, ...filter }: StatePage): Promise<ApiKeyRow[]> {
  const [column, direction] = STATE_ORDER[filter.state];
  const beyond = direction === "asc" ? ">" : "<";
  return on.all<ApiKeyRow>(
    compileQuery(on, (db) => {
      const query = inState(db, filter)
        .orderBy(column, direction)
        .orderBy("id", direction)
        .limit(limit + 1);
      if (!after) return query;
      return query.where((eb) =>
        eb.or([eb(column, beyond, after.at), eb.and([eb(column, "=", after.at), eb("id", beyond, after.id)])]),
      );
    }),
  );
}

/** Counts no further than `max`. */
export async function countKeysInState(on: Reader, filter: StateFilter, max: number): Promise<number> {
  const found = await on.all<{ id: string }>(
    compileQuery(on, (db) => inState(db, filter).clearSelect().select("id").limit(max)),
  );
  return found.length;
}

/** What a search compares. */
export type KeyTexts = PageKey & {
  tenant_id: string;
  name: string | null;
  display_prefix: string;
  external_id: string | null;
  tenant_name: string | null;
};

export type TextPage = KeyScope & { include_revoked: boolean; limit: number; after: PageKey | null };

/** Newest first. Returns one row more than the limit if there are more. */
export function keyTexts(on: Reader, filter: TextPage): Promise<KeyTexts[]> {
  return on.all<KeyTexts>(
    compileQuery(on, (db) => {
      let query = db
        .selectFrom("api_keys")
        .select(["id", "created_at", "tenant_id", "name", "display_prefix"])
        .select((eb) => {
          const tenant = eb.selectFrom("tenants").whereRef("tenants.id", "=", "api_keys.tenant_id");
          return [
            tenant.select("tenants.external_id").as("external_id"),
            tenant.select("tenants.name").as("tenant_name"),
          ];
        })
        .where("workspace_id", "=", filter.workspace_id);
      if (filter.projects) query = query.where("project_id", "in", filter.projects);
      if (filter.project_id) query = query.where("project_id", "=", filter.project_id);
      if (filter.tenant_id) query = query.where("tenant_id", "=", filter.tenant_id);
      if (filter.env) query = query.where("env", "=", filter.env);
      if (!filter.include_revoked) query = query.where(notRevoked);
      if (filter.after) query = query.where(pageAfter<"api_keys">(filter.after));
      return query
        .orderBy("created_at", "desc")
        .orderBy("id", "desc")
        .limit(filter.limit + 1);
    }),
  );
}

/** For a page of ids, in any order. */
export function keysByIds(on: Reader, workspace_id: string, ids: readonly string[]): Promise<ApiKeyRow[]> {
  if (ids.length === 0) return Promise.resolve([]);
  return on.all<ApiKeyRow>(
    compileQuery(on, (db) => selectKeys(db).where("workspace_id", "=", workspace_id).where("id", "in", ids)),
  );
}
