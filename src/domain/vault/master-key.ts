// Changes the master key: reseals everything in one transaction, together with the fingerprint by which the database
// recognises its key. After a crash everything is sealed by the old key or everything by the new one.
import { FACTS_OF_MASTER_KEY } from "../../store/master-key-facts.ts";
import { dropFact, writeFact } from "../../store/queries/deployment.ts";
import { sealedTables, type SealedTable } from "../../store/queries/sealed-values.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { Services } from "../core/context.ts";
import { getJsonFact } from "../core/facts.ts";
import { record } from "../core/record.ts";
import type { Vault } from "./vault.ts";

const PAGE = 500;

export type Resealed = Record<SealedTable["table"], number>;

/** `beforeCommit` may throw: then nothing is resealed. */
export function reseal(
  services: Pick<Services, "store" | "vault">,
  next: Vault,
  beforeCommit: () => Promise<void>,
): Promise<Resealed> {
  return record(services, async (tx) => {
    const done: Resealed = { signing_keys: 0, outbox: 0, idempotency_records: 0 };
    for (const table of sealedTables) done[table.table] = await resealTable(tx, table, services.vault, next);
    for (const name of FACTS_OF_MASTER_KEY) await dropFact.run(tx, { name });
    await writeFact.run(tx, { name: "master_key_fingerprint", value: next.fingerprint });
    const lastBackup = await getJsonFact<object>(tx, "last_backup");
    const value = JSON.stringify({ ...lastBackup, has_old_key: true }); // so that the next one is due
    if (lastBackup) await writeFact.run(tx, { name: "last_backup", value });
    await beforeCommit();
    return done;
  });
}

async function resealTable(tx: Tx, { table, page, put }: SealedTable, old: Vault, next: Vault): Promise<number> {
  let done = 0;
  for (let after = ""; ; ) {
    const rows = await page(tx, after, PAGE);
    for (const { id, sealed } of rows) {
      await put(tx, { id, sealed: next.seal(table, id, old.open(table, id, sealed)) });
      done++;
    }
    after = rows.at(-1)?.id ?? "";
    if (rows.length < PAGE) return done;
  }
}
