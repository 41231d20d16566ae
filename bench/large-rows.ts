// The rows of a large workspace, written by the store itself in large transactions: the chain is a real one, and the
// search index is complete.
import { randomBytes } from "node:crypto";
import { openRaw, type Raw } from "../harness/databases/raw-sql.ts";
import type { SecretKeyActor } from "../src/domain/core/actor.ts";
import { createRecordIdGenerator } from "../src/domain/core/record-ids.ts";
import { ENVS } from "../src/kernel/credentials.ts";
import { QUARANTINE_MS } from "../src/domain/leaks/quarantine.ts";
import { keyTerms } from "../src/domain/search/terms.ts";
import { sha256Hex } from "../src/platform/crypto.ts";
import { openStore } from "../src/store/database.ts";
import { insertKey } from "../src/store/queries/keys.ts";
import { saveProgress } from "../src/store/queries/search-terms.ts";
import type { SearchTermRow } from "../src/store/schema/tables.ts";
import type { Store } from "../src/store/store.ts";
import type { DatabaseTarget } from "../src/store/target.ts";
import { DAY_MS } from "../src/kernel/durations.ts";

const PIECE = 10_000;
/** The keys were made evenly over this time. */
const DAYS = 400;
const NAMES = ["billing", "search", "mobile", "partner", "import", "export", "reports", "backup"];

/** Whose keys they are. */
export type Owner = { actor: SecretKeyActor; project_id: string; tenant_ids: readonly string[] };
type Span = { readonly keys: number; readonly now: number };

/** Keys in every state, each with its audit row. */
export async function writeRows(target: DatabaseTarget, owner: Owner, span: Span): Promise<void> {
  const newId = createRecordIdGenerator({ now: () => span.now });
  const fatal = (error: unknown): void => {
    throw error;
  };
  const store = await openStore(target, { now: () => span.now, fatal });
  const raw = await openRaw(target);
  try {
    const createIndexes = await dropIndexes(raw, target);
    const terms = await Terms.open(raw, target);
    for (let done = 0; done < span.keys; done += PIECE) {
      const length = Math.min(PIECE, span.keys - done);
      const rows = Array.from({ length }, (_, n) => rowOf(owner, done + n, span, newId()));
      await writePiece(store, owner, rows, newId);
      await terms.add(rows.flatMap((row) => keyTerms(row.workspace_id, { ...row, last_used_at: null })));
    }
    await terms.write();
    await setStates(raw, span);
    await createIndexes();
    await raw.all(target.kind === "sqlite" ? "analyze" : "vacuum analyze"); // autovacuum would do it
    if (target.kind === "postgres") await raw.all("checkpoint"); // not while requests are measured
  } finally {
    await raw.close();
    await store.close();
  }
}

/** An index is built faster than it is kept up. Returns a function that builds them. */
async function dropIndexes(raw: Raw, { kind }: DatabaseTarget): Promise<() => Promise<void>> {
  const tables = "('api_keys', 'audit_log')";
  const indexes = await raw.all(
    kind === "sqlite"
      ? `select name, sql from sqlite_schema where type = 'index' and tbl_name in ${tables} and sql like 'create index%'`
      : `select indexname as name, indexdef as sql from pg_indexes where tablename in ${tables} and indexdef like 'CREATE INDEX%'`,
  );
  for (const { name } of indexes) await raw.all(`drop index ${String(name)}`);
  return async () => {
    for (const { sql } of indexes) await raw.all(String(sql));
  };
}

/** Search terms, collected first and written in their order: anywhere else each would change a page of its own. */
class Terms {
  readonly #raw: Raw;
  readonly #insert: string;

  private constructor(raw: Raw, kind: DatabaseTarget["kind"]) {
    this.#raw = raw;
    const cells = [0, 1, 2, 3, 4].map((n) => `value ->> ${n}`);
    const from = kind === "sqlite" ? "json_each($1)" : "json_array_elements($1::json)";
    this.#insert = `insert into bench_terms select ${cells.join(", ")} from ${from}`;
  }

  static async open(raw: Raw, { kind }: DatabaseTarget): Promise<Terms> {
    await raw.all("create table bench_terms (workspace_id text, kind text, term text, newest text, id text)");
    return new Terms(raw, kind);
  }

  async add(terms: readonly SearchTermRow[]): Promise<void> {
    const rows = terms.map(({ workspace_id, kind, term, newest, id }) => [workspace_id, kind, term, newest, id]);
    await this.#raw.all(this.#insert, [JSON.stringify(rows)]);
  }

  async write(): Promise<void> {
    const cells = "workspace_id, kind, term, cast(newest as bigint) as newest, id";
    const sorted = `select distinct ${cells} from bench_terms order by 1, 2, 3, 4, 5`;
    await this.#raw.all(`insert into search_terms (workspace_id, kind, term, newest, id) ${sorted}`);
    await this.#raw.all("drop table bench_terms");
  }
}

async function writePiece(store: Store, owner: Owner, rows: readonly NewKey[], newId: () => string): Promise<void> {
  const { actor, project_id } = owner;
  const { workspace_id } = actor;
  await store.write({
    chains: [workspace_id],
    work: async (tx) => {
      await insertKey.insertMany(tx, rows);
      for (const env of ENVS) await saveProgress.run(tx, { id: `${project_id}/${env}`, version: 1, last_id: "~" });
      const entries = rows.map(({ id, env, tenant_id }) => ({
        workspace_id,
        id: newId(),
        actor_type: "secret_key" as const,
        actor_id: actor.id,
        action: "api_key.created",
        target_type: "api_key",
        target_id: id,
        payload: { env, project_id, tenant_id },
      }));
      return { value: null, entries };
    },
  });
}

type NewKey = ReturnType<typeof rowOf>;

/** A tenth expires within a month. */
function rowOf({ actor, project_id, tenant_ids }: Owner, n: number, { keys, now }: Span, id: string) {
  const expires_at = n % 10 === 0 ? now + ((n % 30) + 1) * DAY_MS : null;
  const random = randomBytes(20).toString("hex");
  return {
    id,
    workspace_id: actor.workspace_id,
    project_id,
    tenant_id: tenant_ids[n % tenant_ids.length]!,
    env: "live" as const,
    lookup_hash: sha256Hex(random),
    display_prefix: `kr_live_${random.slice(0, 6)}`,
    name: `service ${NAMES[n % NAMES.length]} ${n}`,
    scopes: JSON.stringify(["orders:read"]),
    meta: "{}",
    rate_limits: null,
    expires_at,
    requested_expires_at: expires_at,
    rotated_from: null,
    created_at: now - DAYS * DAY_MS + Math.floor((n / keys) * DAYS * DAY_MS),
    policy_version: 1,
    allowed_cidrs: null,
    ip_mode: "enforce" as const,
  };
}

/** Some are revoked, disabled or quarantined, as a scanner's report leaves them. */
async function setStates(raw: Raw, { now }: Span): Promise<void> {
  for (const [set, ending] of [
    [`revoked_at = ${now}, revoked_cause = 'revoked'`, "0"],
    [`disabled_at = ${now}`, "1"],
    [`quarantined_at = ${now}, expires_at = ${now + QUARANTINE_MS}`, "2"],
  ])
    await raw.all(`update api_keys set ${set} where lookup_hash like '%${ending}'`);
}
