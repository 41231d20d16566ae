// Finishes a restore inside the restored database: raises every policy version so that none is used for two contents,
// ends all sessions, one-time tokens and open invitations, and records the restore in the deployment's audit chain. The
// fact `restore_pending` in the database itself asks for this, so that the next start finishes a restore that was
// interrupted.
import { claimFact, dropFact, writeFact } from "../store/queries/deployment.ts";
import { getFact, getJsonFact } from "../domain/core/facts.ts";
import { dropMarks } from "../store/queries/audit-marks.ts";
import { dropMailCounts } from "../store/queries/mail-counts.ts";
import {
  dropSealedResponses,
  dropUnsentMail,
  endAllInvites,
  endAllSessions,
  endAllSetupTokens,
  endAllTokens,
  logVersions,
  projectVersions,
  raiseVersion,
  VERSION_JUMP,
} from "../store/queries/restore.ts";
import { insertSigningKey, removeSigningKey, signingKeyById } from "../store/queries/signing-keys.ts";
import type { Tx } from "../store/engine/tx.ts";
import { SYSTEM } from "../domain/core/actor.ts";
import { runCheckpoints } from "../domain/audit/checkpoints.ts";
import type { Ctx, Services } from "../domain/core/context.ts";
import { recreateEmbedKeys } from "../domain/embed/signing-keys.ts";
import { mutate } from "../domain/core/mutate.ts";
import { record } from "../domain/core/record.ts";
import { newSigningKeyRow } from "../domain/vault/signing-keys.ts";

/** The value of the fact `restore_pending`. */
export type PendingRestore = {
  backup_id: string;
  new_master_key: boolean;
  /** The id of the replaced database, which keeps it, or a new one: the backup may be one of another deployment. */
  deployment_id?: string | null;
  /** The source of metering events that the replaced database had sent: for a backup from before the first. */
  meter_source?: string | null;
  /** Where the replaced database is kept. What it had and the backup has not is reported by the command only. */
  replaced?: string | null;
  /** Versions of the replaced database that are above VERSION_JUMP: the raised version must exceed these too. */
  reached: { id: string; policy_version: number }[];
};

export type FinishedRestore = {
  backup_id: string;
  sessions_ended: number;
  tokens_ended: number;
  invites_ended: number;
  mail_dropped: number;
};

const NO_KEY = "restored without the master key that sealed it";

/** Returns null when no restore is pending. */
export async function finishRestore(services: Services): Promise<FinishedRestore | null> {
  const pending = await getJsonFact<PendingRestore>(services.store.read, "restore_pending");
  if (!pending) return null;
  const ctx: Ctx = { services, actor: SYSTEM };
  // Keys first: after an interruption they are replaced again, harmlessly. Versions are raised with the fact's removal.
  if (pending.new_master_key) {
    await recreateEmbedKeys(ctx);
    await replaceCheckpointKey(services);
  }
  const finished = await applyPending(ctx, pending);
  await services.writtenBytes.reset();
  // Stored checkpoints do not verify under the new key, so every chain gets a new one.
  if (pending.new_master_key) await runCheckpoints(services, { rows: 0 });
  services.log.warn("a backup was restored", { ...finished, replaced: pending.replaced ?? null });
  return finished;
}

function applyPending(ctx: Ctx, pending: PendingRestore): Promise<FinishedRestore> {
  const { clock } = ctx.services;
  const { backup_id, new_master_key, deployment_id, meter_source, reached } = pending;
  return mutate(ctx, { workspace_id: null }, async (tx) => {
    const now = clock.now();
    await raiseVersions(tx, reached, now);
    await logVersions.run(tx, { now });
    await dropMarks.run(tx, {}); // what they say was verified in another file
    await dropMailCounts.run(tx, {}); // they limit what this deployment sends in a day
    const sessions_ended = await endAllSessions.run(tx, { now });
    const tokens_ended = (await endAllTokens.run(tx, { now })) + (await endAllSetupTokens.run(tx, { now }));
    const invites_ended = await endAllInvites.run(tx, { now }); // one of them may have been revoked after the backup
    const mail_dropped = new_master_key ? await dropUnsentMail.run(tx, { now, why: NO_KEY }) : 0;
    if (new_master_key) await dropSealedResponses.run(tx, { body_stored: 0 });
    if (deployment_id) await writeFact.run(tx, { name: "deployment_id", value: deployment_id });
    if (meter_source) await claimFact.run(tx, { name: "meter_source", value: meter_source });
    await dropFact.run(tx, { name: "restore_pending" });
    const value = { backup_id, sessions_ended, tokens_ended, invites_ended, mail_dropped };
    return {
      value,
      events: [{ action: "backup.restored", target_id: null, payload: { ...value, new_master_key } }],
    };
  });
}

/** Adds VERSION_JUMP to the backup's version, or to the replaced database's version if that is higher. */
async function raiseVersions(tx: Tx, reached: PendingRestore["reached"], now: number): Promise<void> {
  const old = new Map(reached.map(({ id, policy_version }) => [id, policy_version]));
  for (const { id, workspace_id, policy_version } of await projectVersions.all(tx, { from: 0 })) {
    const raised = policy_version + VERSION_JUMP;
    const replaced = old.get(id) ?? 0;
    const version = raised > replaced ? raised : replaced + VERSION_JUMP;
    await raiseVersion.run(tx, { id, workspace_id, version, now });
  }
}

async function replaceCheckpointKey(services: Services): Promise<void> {
  const row = newSigningKeyRow(services, "checkpoint", services.clock.now());
  const now = services.clock.now();
  await record(services, async (tx) => {
    const id = await getFact(tx, "checkpoint_key_id");
    const old = id === undefined ? undefined : await signingKeyById.first(tx, { id });
    if (old) await removeSigningKey.run(tx, { ...old, retired_at: now, removed_at: now, sealed_private_key: null });
    await insertSigningKey.run(tx, row);
    await writeFact.run(tx, { name: "checkpoint_key_id", value: row.id });
  });
}
