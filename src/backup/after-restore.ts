// The first thing that happens in a restored database (decisions 116, 195): no policy version may name two contents, no
// session or one-time token of then may open anything, and the deployment's chain says that there was a restore.
// It is asked for by a fact that lies in the database itself, so a restore that was cut short is finished at the next start.
import { dropFact, readFact, writeFact } from "../store/queries/deployment.ts";
import {
  dropSealedAnswers,
  dropUnsentMail,
  endAllSessions,
  endAllTokens,
  logVersions,
  projectVersions,
  raiseVersion,
  VERSION_JUMP,
} from "../store/queries/restore.ts";
import { insertSigningKey, moveSigningKey, signingKeyById, wipeSigningKey } from "../store/queries/signing-keys.ts";
import type { Tx } from "../store/engine/statement.ts";
import { SYSTEM } from "../domain/core/actor.ts";
import { runCheckpoints } from "../domain/audit/checkpoints.ts";
import type { Ctx, Services } from "../domain/core/context.ts";
import { recreateEmbedKeys } from "../domain/embed/signing-keys.ts";
import { mutate } from "../domain/core/mutate.ts";
import { record } from "../domain/core/record.ts";
import { newSigningKeyRow } from "../domain/vault/signing-keys.ts";

/** What the restore leaves in the database as the fact `restore_pending`. */
export type PendingRestore = {
  backup_id: string;
  new_master_key: boolean;
  /** Versions that the replaced database had reached, where the jump alone might not pass them. */
  reached: { id: string; policy_version: number }[];
};

export type Settled = { backup_id: string; sessions_ended: number; tokens_ended: number; mail_dropped: number };

const NO_KEY = "restored without the master key that sealed it";

/** Finishes a restore; null when there is none to finish. */
export async function settleRestored(services: Services): Promise<Settled | null> {
  const fact = await readFact.first(services.store.read, { name: "restore_pending" });
  if (!fact) return null;
  const pending = JSON.parse(fact.value) as PendingRestore;
  const ctx: Ctx = { services, actor: SYSTEM };
  // Keys first: they may be made twice when this is cut short, while versions jump once, with the fact that goes.
  if (pending.new_master_key) {
    await recreateEmbedKeys(ctx);
    await remakeCheckpointKey(services);
  }
  const settled = await settle(ctx, pending);
  // Every chain gets a note of the new key, or its stored ones would be met by none.
  if (pending.new_master_key) await runCheckpoints(services, { rows: 0 });
  services.log.warn("a backup was restored", settled);
  return settled;
}

function settle(ctx: Ctx, { backup_id, new_master_key, reached }: PendingRestore): Promise<Settled> {
  const { clock } = ctx.services;
  return mutate(ctx, { workspace_id: null }, async (tx) => {
    const now = clock.now();
    await raiseVersions(tx, reached);
    await logVersions.run(tx, { now });
    const sessions_ended = await endAllSessions.run(tx, { now });
    const tokens_ended = await endAllTokens.run(tx, { now });
    const mail_dropped = new_master_key ? await dropUnsentMail.run(tx, { now, why: NO_KEY }) : 0;
    if (new_master_key) await dropSealedAnswers.run(tx, { body_stored: 0 });
    await dropFact.run(tx, { name: "restore_pending" });
    const value = { backup_id, sessions_ended, tokens_ended, mail_dropped };
    return {
      value,
      events: [{ action: "backup.restored", target_id: null, payload: { ...value, new_master_key } }],
    };
  });
}

/** By a million; further where the replaced database had come as far by itself. */
async function raiseVersions(tx: Tx, reached: PendingRestore["reached"]): Promise<void> {
  const old = new Map(reached.map(({ id, policy_version }) => [id, policy_version]));
  for (const { id, workspace_id, policy_version } of await projectVersions.all(tx, { from: 0 })) {
    const jumped = policy_version + VERSION_JUMP;
    const passed = old.get(id) ?? 0;
    await raiseVersion.run(tx, { id, workspace_id, version: jumped > passed ? jumped : passed + VERSION_JUMP });
  }
}

async function remakeCheckpointKey(services: Services): Promise<void> {
  const row = newSigningKeyRow(services, "checkpoint", services.clock.now());
  const now = services.clock.now();
  await record(services, async (tx) => {
    const fact = await readFact.first(tx, { name: "checkpoint_key_id" });
    const old = fact && (await signingKeyById.first(tx, { id: fact.value }));
    if (old) {
      await moveSigningKey.run(tx, { ...old, retired_at: now, removed_at: now });
      await wipeSigningKey.run(tx, { id: old.id });
    }
    await insertSigningKey.run(tx, row);
    await writeFact.run(tx, { name: "checkpoint_key_id", value: row.id });
  });
}
