// Another master key: everything sealed under the old one is sealed anew, in one transaction with the fingerprint that
// the database knows its key by (decision 192). Cut short, all of it is under the one key or under the other.
import { writeFact } from "../../store/queries/deployment.ts";
import { sealedTables, type SealedTable } from "../../store/queries/sealed-values.ts";
import type { Tx } from "../../store/engine/statement.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import type { Vault } from "./vault.ts";

const PAGE = 500;

export type Resealed = Record<SealedTable["table"], number>;

export function reseal(services: Pick<Services, "store" | "vault">, fresh: Vault): Promise<Resealed> {
  return record(services, async (tx) => {
    const done: Resealed = { signing_keys: 0, outbox: 0, idempotency_records: 0 };
    for (const table of sealedTables) done[table.table] = await resealTable(tx, table, services.vault, fresh);
    await writeFact.run(tx, { name: "master_key_fingerprint", value: fresh.fingerprint });
    return done;
  });
}

async function resealTable(tx: Tx, { table, page, put }: SealedTable, old: Vault, fresh: Vault): Promise<number> {
  let done = 0;
  for (let after = ""; ; ) {
    const rows = await page(tx, after, PAGE);
    for (const { id, sealed } of rows) {
      await put(tx, { id, sealed: fresh.seal(table, id, old.open(table, id, sealed)) });
      done++;
    }
    after = rows.at(-1)?.id ?? "";
    if (rows.length < PAGE) return done;
  }
}
