// The orders in which keys are searched: an index of keys by state, terms of the search index, and the keys of tenants
// whose words match. What the index leads to is compared again, because terms may be out of date.
import { mapInTurns, yieldToEventLoop } from "../../platform/event-loop.ts";
import { keyTexts, walkTexts, type KeyWalk, type WalkedTexts } from "../../store/queries/key-search.ts";
import { countTermMatches, walkTerms, type TermPosition } from "../../store/queries/search-terms.ts";
import { anyTenantById } from "../../store/queries/tenants.ts";
import type { Reader } from "../../store/engine/tx.ts";
import type { Position } from "../core/cursor.ts";
import { EXAMINED_MAX, PIECE_ROWS, type Candidate, type IndexScan, type Piece } from "./find.ts";
import { firstMatch, matchesAll, termsFrom } from "./query.ts";
import { kindsOf, ownWords, TENANT_WORD, tenantWords } from "./terms.ts";

export type Walk = Omit<KeyWalk, "limit" | "after">;
export type Keys = IndexScan<WalkedTexts>;
type Accepts = (key: WalkedTexts, term: string) => boolean;
type Terms = { kinds: readonly string[]; from: string; below: string; direction: "asc" | "desc" };

const TENANTS_AT_ONCE = 8;
/** Words whose matches are counted to find the rarest. */
const LEADS_MAX = 5;
/** The position behind all keys of a tenant. */
const NO_KEYS = -1;

/** Keys in the order of a state or of their creation. */
export function byState(read: Reader, walk: Walk, accepts: (key: WalkedTexts) => boolean = () => true): Keys {
  return {
    shape: ["number", "string"],
    read: async (position, limit) => {
      const after = position && { at: Number(position[0]), id: String(position[1]) };
      const keys = await walkTexts(read, { ...walk, limit, after });
      const candidates = keys.map((key) => candidateOf(key, [key.at, key.id], () => accepts(key)));
      return { candidates, last: lastOf(candidates, keys.length < limit) };
    },
  };
}

export function byTerm(read: Reader, walk: Walk, terms: Terms, accepts: Accepts): Keys {
  return {
    shape: ["string", "number", "string"],
    read: async (position, limit) => {
      const place = { ...terms, workspace_id: walk.workspace_id, after: position && termPosition(position) };
      const found = await walkTerms(read, { ...place, limit });
      const texts = await keyTexts(read, walk, [...new Set(found.map(({ id }) => id))]);
      const keys = new Map(texts.map((key) => [key.id, key]));
      const candidates = found.flatMap(({ term, newest, id }) => {
        const key = keys.get(id);
        return key ? [candidateOf(key, [term, newest, id], () => accepts(key, term))] : [];
      });
      const end = found.at(-1);
      const isEnd = found.length < limit || !end;
      return { candidates, last: isEnd ? null : [end.term, end.newest, end.id] };
    },
  };
}

/** Keys with a scope. Their positions have no term: it is always the scope, which may be too long for a cursor. */
export function byScope(read: Reader, walk: Walk, scope: string): Keys {
  const terms = { kinds: kindsOf(walk.env, "scope"), from: scope, below: `${scope}\u0001`, direction: "asc" } as const;
  const keys = byTerm(read, walk, terms, (_key, term) => term === scope);
  const withoutTerm = ([, ...place]: Position): Position => place;
  return {
    shape: keys.shape.slice(1),
    read: async (position, limit) => {
      const { candidates, last } = await keys.read(position && [scope, ...position], limit);
      const placed = candidates.map((each) => ({ ...each, position: withoutTerm(each.position) }));
      // A later term means that there is no more of this one.
      return { candidates: placed, last: last?.[0] === scope ? withoutTerm(last) : null };
    },
  };
}

/**
 * By the word with the fewest matches, of the longest ones. Positions begin with its number: it stays the same on the
 * pages of a list.
 */
export function byWords(read: Reader, walk: Walk, words: readonly string[]): Keys {
  const longest = words.slice(0, LEADS_MAX);
  const leads = longest.map((lead) => byLead(read, walk, words, lead));
  return {
    shape: ["number", ...(leads[0]?.shape ?? [])],
    read: async (position, limit) => {
      const [n = 0, ...place] = position ?? [await rarest(read, walk, longest)];
      const { candidates, last } = await (leads[Number(n)] as Keys).read(position && place, limit);
      const numbered = candidates.map((each) => ({ ...each, position: [n, ...each.position] }));
      return { candidates: numbered, last: last && [n, ...last] };
    },
  };
}

/** The number of the word that leads to the fewest keys; the first, where each leads to more than a page examines. */
async function rarest(read: Reader, { workspace_id, env }: Walk, words: readonly string[]): Promise<number> {
  if (words.length === 1) return 0;
  const kinds = { kinds: kindsOf(env, "word"), tenantKind: TENANT_WORD };
  for (const max of [PIECE_ROWS, EXAMINED_MAX]) {
    const counts: number[] = [];
    for (const word of words) {
      counts.push(await countTermMatches(read, { workspace_id, ...kinds, ...termsFrom(word) }, max));
      await yieldToEventLoop();
    }
    const least = Math.min(...counts);
    if (least < max) return counts.indexOf(least);
  }
  return 0;
}

/**
 * Keys that match by their own texts first, then those that match by their tenant. A key appears once, at its first
 * match.
 */
function byLead(read: Reader, walk: Walk, words: readonly string[], lead: string): Keys {
  const isMatch = (key: WalkedTexts): boolean => matchesAll(words, [...ownWords(key), ...wordsOfTenant(key)]);
  const terms = { kinds: kindsOf(walk.env, "word"), ...termsFrom(lead), direction: "asc" } as const;
  const own = byTerm(read, walk, terms, (key, term) => firstMatch(ownWords(key), lead) === term && isMatch(key));
  const ofTenants = byTenants(read, walk, lead, (key, term) => {
    const isOwn = firstMatch(ownWords(key), lead) !== undefined;
    return !isOwn && firstMatch(wordsOfTenant(key), lead) === term && isMatch(key);
  });
  return concatKeys(own, ofTenants);
}

function wordsOfTenant({ external_id, tenant_name }: WalkedTexts): string[] {
  return tenantWords({ external_id, name: tenant_name });
}

/** The keys of tenants that match, tenant by tenant, newest first. */
function byTenants(read: Reader, walk: Walk, lead: string, accepts: Accepts): Keys {
  const keysOf = ({ term, newest, id }: TermPosition, after: KeyWalk["after"], limit: number) =>
    walkTexts(read, {
      ...walk,
      tenant_id: id,
      byTenant: true,
      isConfined: !walk.byTenant,
      limit,
      after,
    }).then((keys) =>
      keys.map((key) => candidateOf(key, [term, newest, id, key.at, key.id], () => accepts(key, term))),
    );
  return {
    shape: ["string", "number", "string", "number", "string"],
    read: async (position, limit) => {
      const tenant = position && termPosition(position);
      const [at, id] = [Number(position?.[3] ?? NO_KEYS), String(position?.[4] ?? "")];
      const rest = tenant && at !== NO_KEYS ? await keysOf(tenant, { at, id }, limit) : [];
      if (rest.length === limit) return { candidates: rest, last: lastOf(rest, false) };
      const tenants = await tenantsBehind(read, walk, lead, tenant);
      const lists: Candidate<WalkedTexts>[][] = [];
      // One tenant with many keys fills the page: others are read only if it does not.
      for (let size = 1; lists.length < tenants.length && lists.flat().length < limit; size *= 2) {
        const next = tenants.slice(lists.length, lists.length + size);
        lists.push(...(await mapInTurns(next, (each) => keysOf(each, null, limit))));
      }
      const full = lists.findIndex((list) => list.length === limit);
      const candidates = [...rest, ...lists.slice(0, full < 0 ? undefined : full + 1).flat()];
      if (full >= 0) return { candidates, last: lastOf(candidates, false) };
      const end = tenants[lists.length - 1];
      const isEnd = (tenants.length < TENANTS_AT_ONCE && lists.length === tenants.length) || !end;
      return { candidates, last: isEnd ? null : [end.term, end.newest, end.id, NO_KEYS, ""] };
    },
  };
}

/** The next tenants that match `lead`; if only one tenant's keys are wanted, at most that one. */
async function tenantsBehind(
  read: Reader,
  { workspace_id, tenant_id }: Walk,
  lead: string,
  after: TermPosition | null,
): Promise<TermPosition[]> {
  if (tenant_id === undefined) {
    const terms = { kinds: [TENANT_WORD], ...termsFrom(lead), direction: "asc" } as const;
    return walkTerms(read, { workspace_id, ...terms, after, limit: TENANTS_AT_ONCE });
  }
  const tenant = after?.id === tenant_id ? undefined : await anyTenantById.first(read, { workspace_id, id: tenant_id });
  const term = tenant && firstMatch(tenantWords(tenant), lead);
  return term === undefined ? [] : [{ term, newest: 0, id: tenant_id }];
}

/** All of the first driver, then all of the second. Positions begin with the number of the driver. */
function concatKeys(first: Keys, second: Keys): Keys {
  const pad = (turn: number, position: Position): Position =>
    turn === 0 ? [turn, ...position, NO_KEYS, ""] : [turn, ...position];
  const numbered = (turn: number, { candidates, last }: Piece<WalkedTexts>): Piece<WalkedTexts> => ({
    candidates: candidates.map((each) => ({ ...each, position: pad(turn, each.position) })),
    last: last && pad(turn, last),
  });
  return {
    shape: ["number", ...second.shape],
    read: async (position, limit) => {
      const [turn = 0, ...place] = position ?? [];
      if (turn !== 0) return numbered(1, await second.read(place[0] === "" ? null : place, limit));
      const piece = numbered(0, await first.read(position ? place.slice(0, first.shape.length) : null, limit));
      return piece.last ? piece : { ...piece, last: [1, "", 0, "", NO_KEYS, ""] };
    },
  };
}

function termPosition([term, newest, id]: Position): TermPosition {
  return { term: String(term), newest: Number(newest), id: String(id) };
}

function candidateOf(record: WalkedTexts, position: Position, accepts: () => boolean): Candidate<WalkedTexts> {
  return { record, position, isFound: () => record.belongs === 1 && accepts() };
}

function lastOf(candidates: readonly Candidate<WalkedTexts>[], isEnd: boolean): Position | null {
  return isEnd ? null : (candidates.at(-1)?.position ?? null);
}
