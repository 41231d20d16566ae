// The terms that keys and tenants are found by. Environments are apart: a page of one never walks over the other's.
import { ENVS, type Env } from "../../kernel/credentials.ts";
import { utcDay } from "../../kernel/durations.ts";
import type { ChangedKey, IndexedTenant } from "../../store/queries/search-terms.ts";
import type { SearchTermRow } from "../../store/schema/tables.ts";
import { cutToTerm, wordsOf } from "./words.ts";

const PREFIX_CHARS = 6;

export const TENANT_WORD = "tenant.word";
type KeyTermKind = "word" | "name" | "scope" | "used";

export function kindOf(env: Env, kind: KeyTermKind): string {
  return `${env}.${kind}`;
}

export function kindsOf(env: Env | undefined, kind: KeyTermKind): string[] {
  return (env ? [env] : ENVS).map((each) => kindOf(each, kind));
}

type KeyTexts = Pick<ChangedKey, "name" | "display_prefix">;
type TenantTexts = { external_id: string | null; name: string | null };

/** The words of a key's own texts: its name, and the six characters of its display prefix. */
export function ownWords({ name, display_prefix }: KeyTexts): string[] {
  return [...wordsOf(name ?? ""), ...prefixWords({ display_prefix })];
}

export function prefixWords({ display_prefix }: Pick<KeyTexts, "display_prefix">): string[] {
  return wordsOf(display_prefix.slice(-PREFIX_CHARS));
}

export function tenantWords({ external_id, name }: TenantTexts): string[] {
  return [...wordsOf(external_id ?? ""), ...wordsOf(name ?? "")];
}

/** The name as it is sorted. */
export function nameTerm(name: string): string {
  return cutToTerm(wordsOf(name).join(" "));
}

/** The UTC day of the last use, or of creation. Five digits, so that texts sort as numbers. */
export function usedTerm({ created_at, last_used_at }: { created_at: number; last_used_at: number | null }): string {
  return dayTerm(Math.max(created_at, last_used_at ?? 0));
}

export function dayTerm(at: number): string {
  return String(utcDay(at)).padStart(5, "0");
}

export function keyTerms(workspace_id: string, key: ChangedKey): SearchTermRow[] {
  const terms: [KeyTermKind, string][] = [
    ...ownWords(key).map((word): [KeyTermKind, string] => ["word", word]),
    ...(JSON.parse(key.scopes) as string[]).map((scope): [KeyTermKind, string] => ["scope", scope]),
    ["used", usedTerm(key)],
  ];
  if (key.name !== null) terms.push(["name", nameTerm(key.name)]);
  return terms.map(([kind, term]) => termRow(workspace_id, kindOf(key.env, kind), term, key));
}

export function tenantTerms(tenant: IndexedTenant): SearchTermRow[] {
  return tenantWords(tenant).map((word) => termRow(tenant.workspace_id, TENANT_WORD, word, tenant));
}

export function termRow(
  workspace_id: string,
  kind: string,
  term: string,
  { id, created_at }: { id: string; created_at: number },
): SearchTermRow {
  return { workspace_id, kind, term, newest: -created_at, id };
}
