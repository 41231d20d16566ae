// Terms that are written with the change itself: of tenants, and of keys that are renamed or used on another day.
import { findKnownKeys } from "../../store/queries/ingest.ts";
import { deleteTerms, writeTerms, type ChangedKey, type IndexedTenant } from "../../store/queries/search-terms.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { SearchTermRow } from "../../store/schema/tables.ts";
import { dayTerm, keyTerms, kindOf, tenantTerms, termRow, usedTerm } from "./terms.ts";
import type { Env } from "../../kernel/credentials.ts";

export function indexTenant(tx: Tx, tenant: IndexedTenant): Promise<void> {
  return writeTerms(tx, tenantTerms(tenant));
}

export async function reindexTenant(tx: Tx, before: IndexedTenant, after: IndexedTenant): Promise<void> {
  if (before.name === after.name) return;
  await indexTenant(tx, after);
  await deleteOthers(tx, tenantTerms(before), tenantTerms(after));
}

/** What a key is no longer found by. Its new terms are indexed as those of every changed key. */
export function dropOldTerms(tx: Tx, workspace_id: string, before: ChangedKey, after: ChangedKey): Promise<void> {
  return deleteOthers(tx, keyTerms(workspace_id, before), keyTerms(workspace_id, after));
}

type UsedKey = { id: string; env: Env; created_at: number; last_used_at: number | null };

type Use = readonly [key: UsedKey, at: number];

const isLaterDay = ([key, at]: Use): boolean => dayTerm(at) > usedTerm(key);

/** Keys whose last use moves to another UTC day. Caution: call it before the last use is stored. */
export async function moveUses(tx: Tx, workspace_id: string, uses: readonly Use[]) {
  const [added, old]: [SearchTermRow[], SearchTermRow[]] = [[], []];
  const moved = await withStored(tx, workspace_id, uses.filter(isLaterDay));
  for (const [key, at] of moved.filter(isLaterDay)) {
    const [before, after] = [usedTerm(key), dayTerm(at)];
    const kind = kindOf(key.env, "used");
    added.push(termRow(workspace_id, kind, after, key));
    old.push(termRow(workspace_id, kind, before, key));
  }
  await writeTerms(tx, added);
  await deleteTerms(tx, old);
}

/** On PostgreSQL another process may have moved the day since this one read the key: its row would stay for good. */
async function withStored(tx: Tx, workspace_id: string, uses: readonly Use[]): Promise<readonly Use[]> {
  if (tx.dialect === "sqlite" || uses.length === 0) return uses;
  const times = new Map(uses.map(([{ id }, at]) => [id, at]));
  const stored = await findKnownKeys(tx, workspace_id, [...times.keys()]);
  return stored.map((key) => [key, times.get(key.id)!]);
}

async function deleteOthers(tx: Tx, before: readonly SearchTermRow[], after: readonly SearchTermRow[]): Promise<void> {
  const kept = new Set(after.map(({ kind, term }) => `${kind} ${term}`));
  await deleteTerms(
    tx,
    before.filter(({ kind, term }) => !kept.has(`${kind} ${term}`)),
  );
}
