// Finding keys: by state and by the words of a search. A page examines a bounded number of keys in the order of an index, so
// that minting maintains no search index: it may be short, or empty, although there is more.
import { setImmediate as endOfTurn } from "node:timers/promises";
import type { Env } from "../../kernel/credentials.ts";
import { fail, failField } from "../../kernel/errors.ts";
import { parseUuid } from "../../kernel/ids.ts";
import {
  KEY_STATES,
  keysByIds,
  runningCascade,
  walkKeys,
  walkTexts,
  type KeyState,
  type KeyWalk,
  type Walked,
  type WalkedTexts,
  type WalkPosition,
} from "../../store/queries/key-search.ts";
import { confinedTo, projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { visibleEnv } from "../core/env-access.ts";
import { cutListOf } from "../core/list.ts";
import { viewKey, type ApiKey } from "../core/views.ts";
import { wordsOf } from "./words.ts";

/** Keys that one page of a search examines at most, and those of one read. */
const EXAMINED_MAX = 5_000;
const PIECE_ROWS = 250;
/** A search yields to the event loop after this time. */
const TURN_MS = 4;
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

export async function searchKeys(ctx: Ctx<Vendor>, search: KeySearch): Promise<KeyPage> {
  if (search.within_days !== undefined && search.state !== "expiring")
    throw failField("invalid_query", "within_days", "needs state=expiring");
  const { services, actor } = ctx;
  const { read } = services.store;
  const { limit, cursor, ...filters } = search;
  const matches = search.q === undefined ? () => true : matcherOf(search.q);
  const pages = new ListCursor(actor, "keys", filters);
  const [at, id] = cursor === undefined ? [] : pages.read(cursor, ["number", "string"]);
  const after = at === undefined ? null : { at: Number(at), id: String(id) };
  const walk = await walkOf(ctx, search);
  const { found, end } = await find((rest) => walkTexts(read, { ...walk, ...rest }), matches, limit, after);
  const positions = new Map(found.map((key) => [key.id, key]));
  const rows = new Map((await keysByIds(read, actor.workspace_id, [...positions.keys()])).map((row) => [row.id, row]));
  const inOrder = found.flatMap((key) => rows.get(key.id) ?? []);
  const { data, has_more } = cutListOf(services, inOrder, limit, viewKey);
  const last = has_more ? positions.get(data.at(-1)?.id ?? "") : end;
  return { object: "list", data, next_cursor: last ? pages.write([last.at, last.id]) : null };
}

/** All of a walk but its place. */
async function walkOf({ services, actor }: Ctx<Vendor>, search: KeySearch) {
  const { workspace_id } = actor;
  const now = services.clock.now();
  return {
    workspace_id,
    projects: projectsOf(actor),
    project_id: search.project_id,
    tenant_id: search.tenant_id,
    env: visibleEnv(actor, search.env),
    set: search.state ?? (search.include_revoked ? "all" : "unrevoked"),
    now,
    until: now + (search.within_days ?? EXPIRING_DAYS) * DAY_MS,
    isDeleting: (await runningCascade.first(services.store.read, { workspace_id })) !== undefined,
    byTenant: confinedTo(actor) === null,
  } as const;
}

type ReadPiece = (place: Pick<KeyWalk, "limit" | "after">) => Promise<WalkedTexts[]>;

/** Up to `limit` matches, and where to continue; `end` is undefined when there is nothing more. */
async function find(
  read: ReadPiece,
  matches: (key: WalkedTexts) => boolean,
  limit: number,
  after: WalkPosition | null,
): Promise<{ found: WalkedTexts[]; end: WalkPosition | undefined }> {
  const found: WalkedTexts[] = [];
  let last = after;
  for (let examined = 0; examined < EXAMINED_MAX; examined += PIECE_ROWS) {
    const piece = await read({ limit: PIECE_ROWS, after: last });
    let turn = performance.now();
    for (const key of piece) {
      const isFound = key.belongs === 1 && matches(key);
      if (isFound && found.length === limit) return { found, end: found.at(-1) };
      if (isFound) found.push(key);
      if (performance.now() - turn < TURN_MS) continue;
      await endOfTurn();
      turn = performance.now();
    }
    if (piece.length < PIECE_ROWS) return { found, end: undefined };
    last = piece.at(-1) ?? null;
    await endOfTurn();
  }
  return { found, end: last ?? undefined };
}

/** Counts the keys of a state among the first `max` rows of its index. */
export async function countKeys(ctx: Ctx<Vendor>, env: Env, state: KeyState, max: number): Promise<number> {
  const walk = await walkOf(ctx, { env, state, include_revoked: false, limit: max });
  let count = 0;
  for (let examined = 0, after: WalkPosition | null = null; examined < max; examined += PIECE_ROWS) {
    const piece: Walked[] = await walkKeys(ctx.services.store.read, { ...walk, limit: PIECE_ROWS, after });
    count += piece.filter(({ belongs }) => belongs === 1).length;
    if (piece.length < PIECE_ROWS) break;
    after = piece.at(-1) ?? null;
    await endOfTurn();
  }
  return count;
}

/** A display prefix with more than six characters behind it, or the same of any other credential, anywhere in a text. */
const SECRET_TEXT =
  /(^[a-z][a-z0-9]*_(live|test)|kr(sk)?_(live|test)|kr(ses|boot|ev|pr|set))_[\w-]{7}|[0-9a-f]{12}\.[\w-]{32}/;
const DISPLAY_PREFIX = /^[a-z][a-z0-9]*_(live|test)_/;

/** Most of a key is refused like all of it: queries end up in the logs of proxies. */
function matcherOf(q: string): (key: WalkedTexts) => boolean {
  if (SECRET_TEXT.test(q))
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
