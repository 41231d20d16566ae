// Rotation of API keys: a successor with a new credential, and an end for its predecessor.
import { fail } from "../../kernel/errors.ts";
import { customersRotation } from "../../store/queries/audit.ts";
import { endKey, insertMeteredKey, keyById, shortenKey } from "../../store/queries/keys.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
import { mintKey, onHashConflict, retryOnHashCollision, type NewCredential } from "../auth/new-credentials.ts";
import type { Ctx } from "../core/context.ts";
import { successorExpiry, type KeyPolicy } from "../key-policy/key-policy.ts";
import { mutate } from "../core/mutate.ts";
import { viewKey, withKey, type ApiKey, type Rotated } from "../core/views.ts";
import { isCustomer, requireRotatable } from "../embed/rules.ts";
import { planOfKey } from "../plans/plans.ts";
import { keyPolicyOf } from "../plans/resolution.ts";
import { liveProject } from "../workspaces/projects.ts";
import { requireManagedKey, type KeyHolder } from "./keys.ts";
import { overlapEnd, requireNoQuarantine, successorColumns } from "./rotation.ts";

export function rotateKey(ctx: KeyHolder, id: string, overlap_hours: number): Promise<Rotated<ApiKey>> {
  const { workspace_id } = ctx.actor;
  return retryOnHashCollision(() =>
    mutate(ctx, { workspace_id, onConflict: onHashConflict }, async (tx) => {
      if (ctx.actor.kind === "api_key" && ctx.actor.refused) throw fail(ctx.actor.refused);
      const row = requireManagedKey(ctx, await keyById.first(tx, { workspace_id, id }));
      if (row.revoked_at !== null) throw fail("revoked_not_rotatable");
      if (row.disabled_at !== null) throw fail("disabled_not_rotatable"); // or rotating would undo it
      requireNoQuarantine(ctx.actor, row);
      const now = ctx.services.clock.now();
      await requireRotatable(tx, ctx.actor, row, now);
      const project = await liveProject(tx, workspace_id, row.project_id);
      const minted = mintKey(project.key_prefix, row.env);
      const policy = keyPolicyOf(project, await planOfKey(tx, row));
      const policy_version = await tx.bump(row.project_id);
      const { previous, successor } = rotatedRows(ctx, row, minted, { overlap_hours, policy_version, policy });
      await shortenKey.run(tx, previous);
      await insertMeteredKey.run(tx, successor);
      const ended = isCustomer(ctx.actor) ? await endPredecessor(tx, row, { now, policy_version }) : {};
      return {
        value: { ...withKey(viewKey(successor), minted.text), previous_key: viewKey(previous) },
        events: [keyRotated(row, successor, overlap_hours, ended)],
      };
    }),
  );
}

/**
 * Ends the overlap of the predecessor, if a customer's rotation made it: rotating in a chain would multiply keys, and
 * with them the limits of each key. An overlap that the vendor granted is kept. Returns what the audit log shows of it.
 */
async function endPredecessor(
  tx: Tx,
  { workspace_id, id, rotated_from }: ApiKeyRow,
  end: { now: number; policy_version: number },
): Promise<{ ended_id?: string }> {
  if (rotated_from === null) return {};
  if (!(await customersRotation.first(tx, { workspace_id, id: rotated_from, successor_id: id }))) return {};
  const ended = await endKey.first(tx, { workspace_id, id: rotated_from, ...end });
  return ended ? { ended_id: ended.id } : {};
}

export function rotatedRows(
  { services }: Ctx,
  row: ApiKeyRow,
  { stored }: NewCredential,
  { overlap_hours, policy_version, policy }: { overlap_hours: number; policy_version: number; policy: KeyPolicy },
): { previous: ApiKeyRow & { expires_at: number }; successor: ApiKeyRow } {
  const now = services.clock.now();
  const fresh = successorColumns(row, services.newId(), now);
  const expires_at = successorExpiry(policy, now, fresh.expires_at);
  return {
    previous: { ...row, expires_at: overlapEnd(row, now, overlap_hours), policy_version },
    successor: { ...row, ...fresh, ...stored, expires_at, policy_version, lineage_id: row.lineage_id ?? row.id },
  };
}

export function keyRotated(
  { id, env }: ApiKeyRow,
  successor: ApiKeyRow,
  overlap_hours: number,
  ended: { ended_id?: string } = {},
) {
  const payload = { env, successor_id: successor.id, overlap_hours, ...ended };
  return { action: "api_key.rotated" as const, target_id: id, payload };
}
