// Finding tenants: by the words of a search, by plan, or by whether they are suspended. Bounded as a search of keys.
import { tenantsByIds, walkTenants, type TenantOrder } from "../../store/queries/tenant-search.ts";
import { walkTerms } from "../../store/queries/search-terms.ts";
import type { Reader } from "../../store/engine/tx.ts";
import type { TenantRow } from "../../store/schema/tables.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { viewTenant } from "../core/views.ts";
import { findPage, showFound, type IndexScan } from "./find.ts";
import { requireTenantsIndexed } from "./search-index.ts";
import { firstMatch, matchesAll, parseTenantSearch, termsFrom } from "./query.ts";
import { TENANT_WORD, tenantWords } from "./terms.ts";

export const TENANT_STATES = ["active", "suspended"] as const;

type TenantSearch = {
  q?: string | undefined;
  plan_id?: string | undefined;
  state?: (typeof TENANT_STATES)[number] | undefined;
  limit: number;
  cursor?: string | undefined;
};

export async function searchTenants(ctx: Ctx<Vendor>, search: TenantSearch) {
  const { services, actor } = ctx;
  const { limit, cursor, ...filters } = search;
  const { read } = services.store;
  const { workspace_id } = actor;
  const accepts = ({ deleted_at, plan_id, suspended_at }: TenantRow): boolean =>
    deleted_at === null &&
    (search.plan_id === undefined || plan_id === search.plan_id) &&
    (search.state === undefined || (search.state === "suspended") === (suspended_at !== null));
  if (search.q !== undefined) await requireTenantsIndexed(ctx);
  const driver = await driverOf(read, workspace_id, search, accepts);
  const pages = new ListCursor(ctx, "tenants", filters);
  const after = cursor === undefined ? null : pages.read(cursor, driver.shape);
  const page = await findPage(driver, limit, after);
  const rows = page.found.map(({ record }) => record);
  return showFound(services, page, { limit, rows, viewer: () => viewTenant, pages });
}

type Accepts = (tenant: TenantRow) => boolean;

async function driverOf(read: Reader, workspace_id: string, search: TenantSearch, accepts: Accepts) {
  const text = search.q === undefined ? undefined : parseTenantSearch(search.q);
  if (text?.kind === "words") return byWords(read, workspace_id, text.words, accepts);
  if (text) return byIds(await tenantsByIds(read, workspace_id, [text.id]), accepts);
  return byOrder(read, workspace_id, orderOf(search), accepts);
}

function orderOf({ plan_id, state }: TenantSearch): TenantOrder {
  if (plan_id !== undefined) return { by: "plan", plan_id };
  return { by: state === "suspended" ? "suspended" : "created" };
}

function byOrder(read: Reader, workspace_id: string, order: TenantOrder, accepts: Accepts): IndexScan<TenantRow> {
  return {
    shape: ["number", "string"],
    read: async (position, limit) => {
      const after = position && { created_at: Number(position[0]), id: String(position[1]) };
      const rows = await walkTenants(read, { workspace_id, order, after, limit });
      const candidates = rows.map((record) => {
        return { record, position: [record.created_at, record.id], isFound: () => accepts(record) };
      });
      return { candidates, last: rows.length < limit ? null : (candidates.at(-1)?.position ?? null) };
    },
  };
}

function byIds(rows: readonly TenantRow[], accepts: Accepts): IndexScan<TenantRow> {
  const candidates = rows.map((record) => ({ record, position: [0, record.id], isFound: () => accepts(record) }));
  return { shape: ["number", "string"], read: async () => ({ candidates, last: null }) };
}

function byWords(read: Reader, workspace_id: string, words: readonly string[], accepts: Accepts): IndexScan<TenantRow> {
  const [lead = ""] = words;
  return {
    shape: ["string", "number", "string"],
    read: async (position, limit) => {
      const [term = "", newest = 0, id = ""] = position ?? [];
      const after = position && { term: String(term), newest: Number(newest), id: String(id) };
      const terms = { workspace_id, kinds: [TENANT_WORD], ...termsFrom(lead), direction: "asc" } as const;
      const found = await walkTerms(read, { ...terms, after, limit });
      const ids = [...new Set(found.map((each) => each.id))];
      const rows = new Map((await tenantsByIds(read, workspace_id, ids)).map((row) => [row.id, row]));
      const candidates = found.flatMap((each) => {
        const record = rows.get(each.id);
        if (!record) return [];
        const isFound = (): boolean => {
          const own = tenantWords(record);
          return firstMatch(own, lead) === each.term && matchesAll(words, own) && accepts(record);
        };
        return [{ record, position: [each.term, each.newest, each.id], isFound }];
      });
      const end = found.at(-1);
      return { candidates, last: found.length < limit || !end ? null : [end.term, end.newest, end.id] };
    },
  };
}
