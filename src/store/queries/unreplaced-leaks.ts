// Leaked keys that still work and have no successor: what is left to do after a scanner's report.
import { sql, type SqlBool } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { countRows, selectRow, statement, type Builder } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import { isIn, notLookedUp } from "./id-lists.ts";
import { hasNoSuccessor, notDeleted } from "./keys.ts";
import type { WalkPosition } from "./page.ts";

export type LeakScope = { workspace_id: string; env: Env; now: number };

export type LeakedKeys = LeakScope & {
  /** The only projects to count; null: all. */
  projects: readonly string[] | null;
  /** The last key that was examined before, in the order of the reports. */
  after: WalkPosition;
  examined: number;
  /** No more than these are looked for. */
  max: number;
};

/** `stops_at`: when the first of them does. `end`: the last key of the piece, if more of them may be behind it. */
type LeakedPiece = { unreplaced: number; stops_at: number | null; end: WalkPosition | undefined };

function range(db: Builder, { after, ...p }: LeakedKeys) {
  return db
    .selectFrom("api_keys")
    .where("workspace_id", "=", p.workspace_id)
    .where("env", "=", p.env)
    .where("quarantined_at", "is not", null)
    .where("revoked_at", "is", null)
    .where(sql<SqlBool>`(api_keys.quarantined_at, api_keys.id) > (${after.at}, ${after.id})`)
    .orderBy("quarantined_at")
    .orderBy("id")
    .limit(p.examined);
}

/**
 * Of the next leaked keys, oldest reports first, those that still work and are unreplaced. All columns are in the index
 * of their order, so that no key is read. bench: insight/overview
 */
export async function countLeakedKeys(on: Reader, p: LeakedKeys): Promise<LeakedPiece> {
  const found = await selectRow(on, (db, dialect) => {
    const keys = range(db, p).select((eb) => {
      const isUnreplaced = eb.and([
        notDeleted(eb),
        eb("api_keys.expires_at", ">", p.now),
        eb("api_keys.disabled_at", "is", null),
        hasNoSuccessor("api_keys", p.now),
        ...(p.projects ? [isIn(notLookedUp("api_keys.project_id"), p.projects, dialect)] : []),
      ]);
      return sql<number | null>`case when ${isUnreplaced} then expires_at end`.as("ends_at");
    });
    return db
      .selectFrom(keys.as("walked"))
      .select(countRows)
      .select((eb) => [eb.fn.count<number>("ends_at").as("unreplaced"), eb.fn.min("ends_at").as("stops_at")]);
  });
  const { n = 0, unreplaced = 0, stops_at = null } = found ?? {};
  const isLast = n < p.examined || unreplaced >= p.max;
  return { unreplaced, stops_at, end: isLast ? undefined : await endOf(on, p) };
}

function endOf(on: Reader, p: LeakedKeys): Promise<WalkPosition | undefined> {
  return selectRow(on, (db) =>
    range(db, p)
      .select(["quarantined_at as at", "id"])
      .$narrowType<{ at: number }>()
      .offset(p.examined - 1),
  );
}

export const unreplacedSecretKeys = statement<LeakScope & { max: number }>()((db, p) =>
  db
    .selectFrom(
      db
        .selectFrom("secret_keys")
        .select("secret_keys.expires_at")
        .where("workspace_id", "=", p.workspace_id)
        .where("env", "=", p.env)
        .where("revoked_at", "is", null)
        .where("expires_at", ">", p.now)
        .where("quarantined_at", "is not", null)
        .where(hasNoSuccessor("secret_keys", p.now))
        .orderBy("expires_at")
        .limit(p.max)
        .as("found"),
    )
    .select(countRows)
    .select((eb) => eb.fn.min("found.expires_at").as("stops_at")),
);
