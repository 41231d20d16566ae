// The newest use of each key that named its client.
import { bulkInsert } from "../engine/bulk-insert.ts";
import { deleteBy } from "../engine/rows.ts";
import { selectRows, statement } from "../engine/statement.ts";
import type { AdditiveUpsert, Reader } from "../engine/tx.ts";
import type { KeyLastUseRow } from "../schema/tables.ts";
import { isIn } from "./id-lists.ts";

/** An older use changes nothing: nodes report late and in any order. */
const writeLastUses = bulkInsert<KeyLastUseRow>(
  ["key_id", "workspace_id", "at", "network", "user_agent", "node_id"],
  (db, rows) =>
    db
      .insertInto("key_last_uses")
      .values(rows)
      .onConflict((oc) =>
        oc
          .column("key_id")
          .doUpdateSet((eb) => ({
            at: eb.ref("excluded.at"),
            network: eb.ref("excluded.network"),
            user_agent: eb.ref("excluded.user_agent"),
            node_id: eb.ref("excluded.node_id"),
          }))
          .whereRef("excluded.at", ">=", "key_last_uses.at"),
      ),
);

/** Not sums, but merged alike: the newest use of each key. */
export const lastUseUpsert: AdditiveUpsert<KeyLastUseRow> = {
  keyOf: ({ key_id }) => key_id,
  plus: (a, b) => (b.at >= a.at ? b : a),
  write: writeLastUses,
};

export function lastUsesOf(on: Reader, workspace_id: string, keys: readonly string[]): Promise<KeyLastUseRow[]> {
  return selectRows(on, (db, dialect) =>
    db
      .selectFrom("key_last_uses")
      .selectAll()
      .where("workspace_id", "=", workspace_id)
      .where(isIn("key_last_uses.key_id", keys, dialect)),
  );
}

type Range = { after: string; upTo: string };

/** The row behind `skipped` others, in the order of keys. */
export const lastUseBehind = statement<{ after: string; skipped: number }>()((db, p) =>
  db
    .selectFrom("key_last_uses")
    .select("key_id")
    .where("key_id", ">", p.after)
    .orderBy("key_id")
    .limit(1)
    .offset(p.skipped),
);

/** Finds last uses of keys that were revoked or had expired by `before`. */
export const endedLastUses = statement<Range & { before: number }>()((db, p) =>
  db
    .selectFrom("key_last_uses")
    .innerJoin("api_keys", "api_keys.id", "key_last_uses.key_id")
    .select("key_id")
    .where("key_id", ">", p.after)
    .where("key_id", "<=", p.upTo)
    .where((eb) => eb.or([eb("revoked_at", "<=", p.before), eb("expires_at", "<=", p.before)])),
);

export const deleteLastUse = deleteBy("key_last_uses", ["key_id"]);

export const deleteLastUses = statement<Range>()((db, p) =>
  db.deleteFrom("key_last_uses").where("key_id", ">", p.after).where("key_id", "<=", p.upTo),
);
