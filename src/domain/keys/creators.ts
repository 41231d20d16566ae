// Fills in secret_keys.created_by for keys that were minted before the column existed, from the audit log. Runs until
// it has read the log once without a process of another version beside it, which might still mint keys without a
// creator.
import { NIL_WORKSPACE } from "../../kernel/audit/chain.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { VERSION } from "../../platform/version.ts";
import { secretKeyRowsAfter } from "../../store/queries/audit.ts";
import { getFact, setFact } from "../core/facts.ts";
import { inheritKeyCreator, setKeyCreator } from "../../store/queries/secret-keys.ts";
import type { AuditLogRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";

/** Rows per read: blocks the event loop for a few milliseconds. */
const CHUNK_ROWS = 1_000;

type Row = Pick<AuditLogRow, "workspace_id" | "action" | "actor_type" | "actor_id" | "target_id"> & {
  payload: string | null;
};

export async function fillKeyCreators(services: Services): Promise<void> {
  const { store, shutdown } = services;
  if ((await getFact(store.read, "secret_key_makers")) !== undefined) return;
  const alone = (await store.connectedVersions()).every((version) => version === VERSION);
  let last = { workspace_id: NIL_WORKSPACE, seq: 0 };
  for (let size = CHUNK_ROWS; size === CHUNK_ROWS; ) {
    if (shutdown.signal.aborted) return;
    const rows = await secretKeyRowsAfter.all(store.read, { ...last, limit: CHUNK_ROWS });
    last = rows.at(-1) ?? last;
    size = rows.length;
    await fillFrom(services, rows);
    await yieldToEventLoop();
  }
  const value = String(services.clock.now());
  if (alone) await setFact(services, "secret_key_makers", value);
}

async function fillFrom(services: Services, rows: readonly Row[]): Promise<void> {
  const minted = rows.filter(({ payload }) => payload !== null);
  if (minted.length === 0) return;
  await record(services, async (tx) => {
    for (const { workspace_id, action, actor_type, actor_id, target_id, payload } of minted) {
      const before = target_id ?? "";
      const { successor_id } = JSON.parse(payload ?? "{}") as { successor_id?: string };
      const id = action === "secret_key.rotated" ? (successor_id ?? "") : before;
      if (actor_type === "user" && actor_id) await setKeyCreator.run(tx, { workspace_id, id, user_id: actor_id });
      if (actor_type === "secret_key" && actor_id)
        await inheritKeyCreator.run(tx, { workspace_id, id, from: actor_id });
      if (id !== before) await inheritKeyCreator.run(tx, { workspace_id, id, from: before });
    }
  });
}
