// Finding keys: by state, each a range of an index, and by the words of a search. A search examines a bounded number of keys
// per page, newest first, so that minting maintains no search index: a page may be short, or empty, although there is more.
import { CREDENTIAL_PATTERN, type Env } from "../../kernel/credentials.ts";
import { fail, failField } from "../../kernel/errors.ts";
import { parseUuid } from "../../kernel/ids.ts";
import {
  KEY_STATES,
  keysByIds,
  keysInState,
  keyTexts,
  STATE_ORDER,
  type KeyState,
  type KeyTexts,
} from "../../store/queries/key-search.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { visibleEnv } from "../core/env-access.ts";
import { cutListOf } from "../core/list.ts";
import { viewKey, type ApiKey } from "../core/views.ts";

/** Keys that one page of a search examines at most. */
export const EXAMINED_MAX = 2_000;
const WORDS_MAX = 5;
const PREFIX_CHARS = 6;
const DAY_MS = 86_400_000;
export const EXPIRING_DAYS = 7;

export const SEARCH_STATES = KEY_STATES;

export type KeySearch = {
  q?: string | undefined;
  state?: KeyState | undefined;
  within_days?: number | undefined;
  project_id?: string | undefined;
  tenant_id?: string | undefined;
  env?: Env | undefined;
  include_revoked: boolean;
  limit: number;
  cursor?: string | undefined;
};

export type KeyPage = { object: "list"; data: ApiKey[]; next_cursor: string | null };

export function searchKeys(ctx: Ctx<Vendor>, search: KeySearch): Promise<KeyPage> {
  if (search.within_days !== undefined && search.state !== "expiring")
    throw failField("invalid_query", "within_days", "needs state=expiring");
  if (search.q !== undefined && search.state !== undefined)
    throw failField("invalid_query", "state", "cannot be combined with q");
  return search.state === undefined ? findKeys(ctx, search, search.q ?? "") : listInState(ctx, search, search.state);
}

function scopeOf({ actor }: Ctx<Vendor>, { project_id, tenant_id, env }: KeySearch) {
  const { workspace_id } = actor;
  return { workspace_id, projects: projectsOf(actor), project_id, tenant_id, env: visibleEnv(actor, env) };
}

async function listInState(ctx: Ctx<Vendor>, search: KeySearch, state: KeyState): Promise<KeyPage> {
  const { services } = ctx;
  const { limit, cursor, ...filters } = search;
  const pages = new ListCursor(ctx.actor, "keys", filters);
  const [at, id] = cursor === undefined ? [] : pages.read(cursor, ["number", "string"]);
  const now = services.clock.now();
  const rows = await keysInState(services.store.read, {
    ...scopeOf(ctx, search),
    state,
    now,
    until: now + (search.within_days ?? EXPIRING_DAYS) * DAY_MS,
    limit,
    after: at === undefined ? null : { at: Number(at), id: String(id) },
  });
  const { data, has_more } = cutListOf(services, rows, limit, viewKey);
  const last = has_more ? rows[data.length - 1] : undefined;
  const next_cursor = last ? pages.write([Number(last[STATE_ORDER[state][0]]), last.id]) : null;
  return { object: "list", data, next_cursor };
}

async function findKeys(ctx: Ctx<Vendor>, search: KeySearch, q: string): Promise<KeyPage> {
  const { read } = ctx.services.store;
  const { limit, cursor, ...filters } = search;
  const matches = matcherOf(q);
  const pages = new ListCursor(ctx.actor, "keys", filters);
  const [created_at, id] = cursor === undefined ? [] : pages.read(cursor, ["number", "string"]);
  const after = created_at === undefined ? null : { created_at: Number(created_at), id: String(id) };
  const { include_revoked } = search;
  const texts = await keyTexts(read, { ...scopeOf(ctx, search), include_revoked, limit: EXAMINED_MAX, after });
  const examined = texts.slice(0, EXAMINED_MAX);
  const found = examined.filter(matches);
  const page = found.slice(0, limit);
  const ids = page.map((key) => key.id);
  const rows = new Map((await keysByIds(read, ctx.actor.workspace_id, ids)).map((row) => [row.id, row]));
  const data = ids.flatMap((key) => rows.get(key) ?? []).map(viewKey);
  const last = found.length > limit ? page.at(-1) : texts.length > EXAMINED_MAX ? examined.at(-1) : undefined;
  return { object: "list", data, next_cursor: last ? pages.write([last.created_at, last.id]) : null };
}

const CREDENTIALS = new RegExp(CREDENTIAL_PATTERN.join("|"));
const DISPLAY_PREFIX = /^[a-z][a-z0-9]*_(live|test)_/;

/** A whole key is refused: queries end up in the logs of proxies. */
function matcherOf(q: string): (key: KeyTexts) => boolean {
  if (CREDENTIALS.test(q))
    throw fail("credential_in_query", { details: [{ path: "q", message: "contains a whole key" }] });
  const uuid = parseUuid(q);
  if (uuid) return ({ id, tenant_id }) => id === uuid || tenant_id === uuid;
  if (DISPLAY_PREFIX.test(q)) return ({ display_prefix }) => display_prefix.startsWith(q);
  const words = wordsOf(q).slice(0, WORDS_MAX);
  if (words.length === 0) throw failField("invalid_query", "q", "must have a letter or a digit");
  return ({ name, external_id, tenant_name, display_prefix }) => {
    const texts = [name, external_id, tenant_name, display_prefix.slice(-PREFIX_CHARS)];
    const own = texts.flatMap((text) => wordsOf(text ?? ""));
    return words.every((word) => own.some((candidate) => candidate.startsWith(word)));
  };
}

function wordsOf(text: string): string[] {
  const parts = text
    .normalize("NFKC")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u);
  return parts.filter((word) => word !== "");
}
