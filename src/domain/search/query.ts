// The text of a search: words, the start of a display prefix, or an id.
import { ENVS, type Env } from "../../kernel/credentials.ts";
import { fail, failField } from "../../kernel/errors.ts";
import { parseUuid } from "../../kernel/ids.ts";
import { WORDS_MAX, wordsOf } from "./words.ts";

/** A whole credential, anywhere in a text. */
const CREDENTIAL = /([a-z][a-z0-9]+_(live|test)|kr(ses|boot|ev|pr|set))_[\w-]{40}|[0-9a-f]{12}\.[\w-]{40}/;
/**
 * Most of one; at the start of a text, and with our own prefix, also a display prefix with more than six characters
 * behind it.
 */
const MOST_OF_CREDENTIAL =
  /(^[a-z][a-z0-9]*_(live|test)|kr(sk)?_(live|test)|kr(ses|boot|ev|pr|set))_[\w-]{7}|[a-z][a-z0-9]+_(live|test)_[\w-]{40}|[0-9a-f]{12}\.[\w-]{32}/;
/** So much of a credential was pasted, not typed. */
const PASTED = /[_.][\w-]{32}/;
const DISPLAY_PREFIX = /^[a-z][a-z0-9]*_(live|test)_(.*)$/s;
/** Sorts after every term that begins with the text before it. */
const LAST_CHARACTER = "\u{10ffff}";

type IdText = { kind: "id"; id: string };
/** Longest first: that has the fewest matches, most of the time. */
type WordsText = { kind: "words"; words: string[] };
export type SearchText = IdText | WordsText | { kind: "prefix"; text: string; env: Env; word: string | undefined };

/** Most of a key is refused like all of it: queries end up in the logs of proxies. */
export function parseKeySearch(q: string): SearchText {
  refuse(q, MOST_OF_CREDENTIAL);
  const prefix = DISPLAY_PREFIX.exec(q);
  if (!prefix) return parseText(q);
  const env = ENVS.find((each) => each === prefix[1]) as Env;
  return { kind: "prefix", text: q, env, word: wordsOf(prefix[2] ?? "")[0] };
}

/** The external ids of tenants may look like display prefixes. */
export function parseTenantSearch(q: string): IdText | WordsText {
  refuse(q, CREDENTIAL);
  return parseText(q);
}

function refuse(q: string, credential: RegExp): void {
  if (!credential.test(q)) return;
  if (PASTED.test(q))
    throw fail("credential_in_query", { details: [{ path: "q", message: "contains a whole key or most of one" }] });
  throw failField("invalid_query", "q", "must have at most six characters of a key after its prefix");
}

function parseText(q: string): IdText | WordsText {
  const id = parseUuid(q);
  if (id) return { kind: "id", id };
  const words = [...new Set(wordsOf(q, Infinity))];
  if (words.length === 0) throw failField("invalid_query", "q", "must have a letter or a digit");
  if (words.length > WORDS_MAX) throw failField("invalid_query", "q", `must have at most ${WORDS_MAX} words`);
  return { kind: "words", words: words.toSorted((a, b) => b.length - a.length) };
}

/** The terms that begin with a text. */
export function termsFrom(word: string): { from: string; below: string } {
  return { from: word, below: word + LAST_CHARACTER };
}

/** The first of the words that begin with `lead`, by which a record is listed once; undefined if none does. */
export function firstMatch(words: readonly string[], lead: string): string | undefined {
  return words.filter((word) => word.startsWith(lead)).toSorted((a, b) => (a < b ? -1 : 1))[0];
}

export function matchesAll(words: readonly string[], candidates: readonly string[]): boolean {
  return words.every((word) => candidates.some((candidate) => candidate.startsWith(word)));
}
