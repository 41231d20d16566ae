// Finding keys: by state, by the words of a search, by scope and by last use. A page examines a bounded number of keys
// in the order of an index: it may be short, or empty, although there is more.
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS } from "../../kernel/durations.ts";
import { failField } from "../../kernel/errors.ts";
import {
  KEY_STATES,
  keyTexts,
  runningCascade,
  type KeySet,
  type KeyState,
  type WalkedTexts,
} from "../../store/queries/key-search.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
import { confinedTo, projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { visibleEnv } from "../core/env-access.ts";
import type { JsonText, Viewer } from "../core/list.ts";
import { readKeys } from "../keys/key-list.ts";
import { findPage, showFound, type FoundPage } from "./find.ts";
import { requireIndexed } from "./search-index.ts";
import { byScope, byState, byTerm, byWords, type Keys, type Walk } from "./key-drivers.ts";
import { parseKeySearch, termsFrom, type SearchText } from "./query.ts";
import { dayTerm, kindsOf, nameTerm, prefixWords, usedTerm } from "./terms.ts";

export const EXPIRING_DAYS = 7;
export const IDLE_DAYS = 30;
const LAST_DAY = "99999";

export const SEARCH_STATES = KEY_STATES;
export const KEY_SORTS = ["created_at", "name", "expires_at", "last_used_at"] as const;

export type KeySearch = {
  q?: string | undefined;
  state?: KeyState | undefined;
  scope?: string | undefined;
  unused_days?: number | undefined;
  within_days?: number | undefined;
  sort?: (typeof KEY_SORTS)[number] | undefined;
  project_id?: string | undefined;
  tenant_id?: string | undefined;
  env?: Env | undefined;
  include_revoked: boolean;
  include?: string | undefined;
  limit: number;
  cursor?: string | undefined;
};

export async function searchKeys<T>(
  ctx: Ctx<Vendor>,
  search: KeySearch,
  viewer: Viewer<ApiKeyRow, T>,
): Promise<JsonText<FoundPage<T>>> {
  requireCombinable(search);
  const { services, actor } = ctx;
  const { limit, cursor, ...filters } = search;
  const pages = new ListCursor(ctx, "keys", filters);
  const driver = await driverOf(ctx, search, await walkOf(ctx, search));
  const after = cursor === undefined ? null : pages.read(cursor, driver?.shape ?? ["number", "string"]);
  const page = driver ? await findPage(driver, limit, after) : { found: [], end: null };
  const ids = new Set(page.found.map(({ record }) => record.id));
  const rows = await readKeys(services, actor.workspace_id, [...ids]);
  return showFound(services, page, { limit, rows, viewer, pages });
}

function requireCombinable({ q, state, sort, within_days }: KeySearch): void {
  if (within_days !== undefined && state !== "expiring")
    throw failField("invalid_query", "within_days", "needs state=expiring");
  if (sort !== undefined && (q !== undefined || state !== undefined))
    throw failField("invalid_query", "sort", "cannot be combined with q or state");
}

function setOf({ state, sort, unused_days, include_revoked }: KeySearch): KeySet {
  if (state) return state;
  const isAll = include_revoked && unused_days === undefined;
  if (sort === "expires_at") return isAll ? "allDated" : "dated";
  return isAll ? "all" : "unrevoked";
}

/** All of a walk but its place. */
async function walkOf({ services, actor }: Ctx<Vendor>, search: KeySearch): Promise<Walk> {
  const { workspace_id } = actor;
  const now = services.clock.now();
  const unused_days = search.unused_days ?? (search.state === "idle" ? IDLE_DAYS : null);
  return {
    workspace_id,
    projects: projectsOf(actor),
    project_id: search.project_id,
    tenant_id: search.tenant_id,
    env: visibleEnv(actor, search.env),
    scope: search.scope,
    set: setOf(search),
    now,
    until: now + (search.within_days ?? EXPIRING_DAYS) * DAY_MS,
    usedBefore: unused_days === null ? null : now - unused_days * DAY_MS,
    isDeleting: (await runningCascade.first(services.store.read, { workspace_id })) !== undefined,
    byTenant: confinedTo(actor) === null,
  };
}

/** The order of the list; undefined: it is empty. */
async function driverOf(ctx: Ctx<Vendor>, search: KeySearch, walk: Walk): Promise<Keys | undefined> {
  const { read } = ctx.services.store;
  const { q, scope, sort, state } = search;
  const text = q === undefined ? undefined : parseKeySearch(q);
  const isIdle = walk.usedBefore !== null && (state === undefined || state === "idle") && sort === undefined;
  const isText = text !== undefined && text.kind !== "id";
  const isIndexed = isText || isIdle || sort === "name" || sort === "last_used_at" || scope !== undefined;
  if (isIndexed) await requireIndexed(ctx, walk.env ?? (text?.kind === "prefix" ? text.env : undefined));
  if (text) return searchDriver(read, walk, text);
  if (sort === "name") {
    const terms = { kinds: kindsOf(walk.env, "name"), ...termsFrom(""), direction: "asc" } as const;
    return byTerm(read, walk, terms, (key, term) => key.name !== null && nameTerm(key.name) === term);
  }
  if (sort === "last_used_at" || isIdle) {
    const below = isIdle ? dayTerm((walk.usedBefore as number) + DAY_MS) : LAST_DAY;
    const terms = { kinds: kindsOf(walk.env, "used"), from: "", below, direction: isIdle ? "asc" : "desc" } as const;
    return byTerm(read, walk, terms, (key, term) => usedTerm(key) === term);
  }
  if (scope !== undefined && state === undefined && sort === undefined) return byScope(read, walk, scope);
  return byState(read, walk);
}

type Reads = Parameters<typeof byState>[0];

async function searchDriver(read: Reads, walk: Walk, text: SearchText): Promise<Keys | undefined> {
  if (text.kind === "words") return byWords(read, walk, text.words);
  if (text.kind === "id") {
    const [key] = await keyTexts(read, walk, [text.id]);
    if (key) return key.belongs === 1 ? justOne(key) : undefined;
    if (walk.tenant_id !== undefined && walk.tenant_id !== text.id) return undefined;
    return byState(read, { ...walk, tenant_id: text.id });
  }
  if (walk.env !== undefined && walk.env !== text.env) return undefined;
  const own = { ...walk, env: text.env };
  const hasPrefix = (key: WalkedTexts): boolean => key.display_prefix.startsWith(text.text);
  if (text.word === undefined) return byState(read, own, hasPrefix);
  const terms = { kinds: kindsOf(text.env, "word"), ...termsFrom(text.word), direction: "asc" } as const;
  // The six characters may contain - or _ and so be several words: a key is listed at the first of them only.
  return byTerm(read, own, terms, (key, term) => prefixWords(key)[0] === term && hasPrefix(key));
}

function justOne(key: WalkedTexts): Keys {
  const candidate = { record: key, position: [key.at, key.id], isFound: () => true };
  return { shape: ["number", "string"], read: async () => ({ candidates: [candidate], last: null }) };
}
