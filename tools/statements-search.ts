// The part of statements.ts about finding keys and tenants.
import { countPiece, reachesMax, type CountedState } from "../src/store/queries/key-counts.ts";
import { KEY_STATES, keyTexts, walkTexts, type KeyWalk } from "../src/store/queries/key-search.ts";
import {
  countTermMatches,
  deleteTerms,
  keysToIndex,
  walkTerms,
  writeTerms,
} from "../src/store/queries/search-terms.ts";
import { tenantsByIds, walkTenants } from "../src/store/queries/tenant-search.ts";
import { successorsIn } from "../src/store/queries/keys.ts";
import type { Tx } from "../src/store/engine/tx.ts";

const workspace_id = "w";
const after = { created_at: 1, id: "i" };
const terms = { workspace_id, kinds: ["live.word", "test.word"], from: "a", below: "b", limit: 2 };
const term = { workspace_id, kind: "live.word", term: "t", newest: -1, id: "i" };
const sets: KeyWalk["set"][] = [...KEY_STATES, "unrevoked", "dated", "allDated", "all"];
const walks = sets.flatMap((set) =>
  [true, false].map((byTenant): KeyWalk => {
    const scope = { workspace_id, projects: ["p"], project_id: "p", tenant_id: "t", isDeleting: true, byTenant };
    return { ...scope, set, now: 1, until: 2, limit: 1, after: { at: 1, id: "i" } };
  }),
);
const counted: CountedState[] = ["active", "expiring", "idle", "quarantined"];
const counts = counted.flatMap((state) =>
  [true, false].map((hasSuspended) => {
    const scope = { workspace_id, env: "live", projects: ["p"], isDeleting: true, hasSuspended } as const;
    return { ...scope, state, now: 1, until: 2, usedBefore: 1, after: { at: 1, id: "i" }, examined: 1, max: 1 };
  }),
);

export const builtForSearch: Record<string, (on: Tx) => Promise<unknown>[]> = {
  successorsIn: (on) =>
    (["api_keys", "secret_keys"] as const).map((table) =>
      successorsIn(on, table, { workspace_id, ids: ["k"], now: 1 }),
    ),
  countPiece: (on) => counts.map((count) => countPiece(on, count)),
  reachesMax: (on) =>
    counts.map((count) => reachesMax(on, { ...count, projects: null, isDeleting: false, hasSuspended: false })),
  keysToIndex: (on) => [keysToIndex(on, "p", ["i"])],
  keyTexts: (on) => walks.map((walk) => keyTexts(on, walk, ["i"])),
  walkTerms: (on) => [
    walkTerms(on, { ...terms, direction: "asc", after: { term: "t", newest: -1, id: "i" } }),
    walkTerms(on, { ...terms, direction: "desc", after: { term: "t", newest: -1, id: "i" } }),
  ],
  countTermMatches: (on) => [countTermMatches(on, { ...terms, tenantKind: "tenant.word" }, 2)],
  writeTerms: (on) => [writeTerms(on, [term])],
  deleteTerms: (on) => [deleteTerms(on, [term])],
  tenantsByIds: (on) => [tenantsByIds(on, workspace_id, ["i"])],
  walkTenants: (on) =>
    ([{ by: "created" }, { by: "suspended" }, { by: "plan", plan_id: "p" }] as const).map((order) =>
      walkTenants(on, { workspace_id, order, after, limit: 1 }),
    ),
  walkTexts: (on) => walks.map((walk) => walkTexts(on, walk)),
};
