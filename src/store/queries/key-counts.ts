// Counts of keys by state. The columns that a count of expiring or quarantined keys compares are all in the index of
// their order, so that no key is read, unless only some projects count (bench: insight/overview).
import { sql, type Expression, type ExpressionBuilder, type SqlBool } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { countRows, selectRow, statement, type Builder } from "../engine/statement.ts";
import type { Dialect, Reader } from "../engine/tx.ts";
import type { Tables } from "../schema/tables.ts";
import { isIn } from "./id-lists.ts";
import { isActive, isUnexpired, notRevoked } from "./keys.ts";
import type { WalkPosition } from "./page.ts";

export type CountedState = "active" | "expiring" | "idle" | "quarantined";

export type KeyCount = {
  workspace_id: string;
  env: Env;
  state: CountedState;
  now: number;
  /** The latest expiry of `expiring`. */
  until: number;
  /** `idle` keys were made and last used before. */
  usedBefore: number;
  /** The only projects to count; null: all. */
  projects: readonly string[] | null;
  /** Whether a deletion is in progress, so that revoked keys may be among rows that do not say so yet. */
  isDeleting: boolean;
  hasSuspended: boolean;
};

/** The next `examined` keys of the order; `after`: the last one that was examined before. */
type Piece = KeyCount & { after: WalkPosition | null; examined: number };

function orderOf(state: CountedState): "created_at" | "expires_at" | "quarantined_at" {
  if (state === "expiring") return "expires_at";
  return state === "quarantined" ? "quarantined_at" : "created_at";
}

/** Oldest first, where unused keys are; but active ones newest first, because expired ones are never removed. */
function range(db: Builder, { state, after, examined, ...count }: Piece) {
  const column = orderOf(state);
  const direction = state === "active" ? "desc" : "asc";
  const [place, from] = [sql`(${sql.ref(column)}, id)`, after && sql`(${after.at}, ${after.id})`];
  let keys = db
    .selectFrom("api_keys")
    .where("workspace_id", "=", count.workspace_id)
    .where("env", "=", count.env)
    .where("revoked_at", "is", null)
    .orderBy(column, direction)
    .orderBy("id", direction)
    .limit(examined);
  if (from) keys = keys.where(state === "active" ? sql<SqlBool>`${place} < ${from}` : sql<SqlBool>`${place} > ${from}`);
  if (state === "quarantined") return keys.where("quarantined_at", "is not", null);
  if (state === "idle") return keys.where("created_at", "<", count.usedBefore);
  if (state === "active") return keys;
  return keys.where("expires_at", ">", count.now).where("expires_at", "<=", count.until);
}

/** What the range does not say already. */
function isCounted(eb: ExpressionBuilder<Tables, "api_keys">, count: KeyCount, dialect: Dialect): Expression<SqlBool> {
  const all: Expression<SqlBool>[] = [];
  if (count.state === "idle")
    all.push(eb.or([eb("last_used_at", "is", null), eb("last_used_at", "<", count.usedBefore)]));
  if (count.projects) all.push(isIn("api_keys.project_id", count.projects, dialect));
  if (count.isDeleting) all.push(notRevoked(eb));
  if (count.state === "quarantined") return eb.and(all);
  if (count.hasSuspended) return eb.and([...all, isActive(count.now)(eb)]);
  all.push(eb("disabled_at", "is", null));
  if (count.state !== "expiring") all.push(isUnexpired("expires_at", count.now));
  return eb.and(all);
}

/** What `isCounted` compares where every project counts, no tenant is suspended and nothing is being deleted. */
const COMPARED = {
  active: ["disabled_at", "expires_at"],
  expiring: ["disabled_at"],
  idle: ["last_used_at", "disabled_at", "expires_at"],
  quarantined: ["id"],
} as const satisfies Record<CountedState, readonly (keyof Tables["api_keys"])[]>;

/**
 * Whether the piece has `max` keys that count. Skipping keys takes two thirds of the time of counting them. bench:
 * insight/overview
 */
export async function reachesMax(on: Reader, piece: Piece & { max: number }): Promise<boolean> {
  const found = await selectRow(on, (db, dialect) =>
    db
      .selectFrom(range(db, piece).select(COMPARED[piece.state]).as("walked"))
      .select((eb) => eb.lit(1).as("one"))
      .where((eb) => isCounted(eb as unknown as ExpressionBuilder<Tables, "api_keys">, piece, dialect))
      .limit(1)
      .offset(piece.max - 1),
  );
  return found !== undefined;
}

/** `end`: the last key of the piece, if more of them may be behind it. */
export type CountedPiece = { n: number; end: WalkPosition | undefined };

/** Counts keys of a piece, up to `max`. */
export async function countPiece(on: Reader, piece: Piece & { max: number }): Promise<CountedPiece> {
  const found = await selectRow(on, (db, dialect) => {
    const keys = range(db, piece).select((eb) =>
      sql<0 | 1>`case when ${isCounted(eb, piece, dialect)} then 1 else 0 end`.as("counts"),
    );
    return db.selectFrom(keys.as("walked")).select([countRows, sql<number>`coalesce(sum(counts), 0)`.as("counted")]);
  });
  const { n: examined = 0, counted = 0 } = found ?? {};
  const isLast = examined < piece.examined || counted >= piece.max;
  return { n: Math.min(counted, piece.max), end: isLast ? undefined : await endOf(on, piece) };
}

function endOf(on: Reader, piece: Piece): Promise<WalkPosition | undefined> {
  const column = sql<number>`${sql.ref(orderOf(piece.state))}`;
  return selectRow(on, (db) =>
    range(db, piece)
      .select([column.as("at"), "id"])
      .offset(piece.examined - 1),
  );
}

export const suspendedTenant = statement<{ workspace_id: string }>()((db, p) =>
  db
    .selectFrom("tenants")
    .select("id")
    .where("workspace_id", "=", p.workspace_id)
    .where("suspended_at", "is not", null)
    .limit(1),
);
