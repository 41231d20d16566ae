// What an audit chain proves about ended credentials: no row of a secret key follows its revocation, none of a person
// their removal, no owner's row their demotion, and none of an embed token the revocation of its epoch.
import { endpoints } from "../../src/api/index.ts";
import type { Action } from "../../src/domain/core/events.ts";
import { access } from "../../src/http/access.ts";

export type ChainRow = {
  action: string;
  actor_type: string;
  actor_id: string | null;
  target_id: string | null;
  payload: unknown;
};

type Payload = { embed_epoch?: number; epoch?: number; overlap_hours?: number; role?: { old: string; new: string } };

/** Actions of endpoints that admit an owner's session but not an admin's. */
const ownerOnly: ReadonlySet<string> = (() => {
  const emitted = (admin: boolean): Action[] =>
    endpoints
      .filter(
        ({ access: name }) => access[name].rules.ses_owner === "Y" && (access[name].rules.ses_admin === "Y") === admin,
      )
      .flatMap(({ emits }) => emits);
  const open = new Set(emitted(true));
  return new Set(emitted(false).filter((action) => !open.has(action)));
})();

/** The rows that should not be there, oldest first, each as a sentence. `rows` are those of one workspace, in order. */
export function actsAfterEnd(rows: readonly ChainRow[]): string[] {
  const found: string[] = [];
  const endedKeys = new Set<string | null>();
  const removed = new Set<string | null>();
  const demoted = new Set<string | null>();
  const epochs = new Map<string | null, number>();
  for (const { action, actor_type, actor_id, target_id, payload } of rows) {
    const { embed_epoch = 1, epoch = 0, overlap_hours, role } = payload as Payload;
    const report = (how: string): void => void found.push(`${action} by ${actor_type} ${actor_id}, ${how}`);
    if (action === "workspace_member.joined") removed.delete(target_id);
    if (actor_type === "secret_key" && endedKeys.has(actor_id)) report("which had ended");
    if (actor_type === "user" && removed.has(actor_id)) report("who had been removed");
    if (actor_type === "user" && demoted.has(actor_id) && ownerOnly.has(action)) report("who was no longer an owner");
    if (actor_type === "embed_token" && epoch < (epochs.get(actor_id) ?? 0)) report(`whose epoch ${epoch} had ended`);

    if (action === "secret_key.revoked" || (action === "secret_key.rotated" && overlap_hours === 0))
      endedKeys.add(target_id);
    if (action === "workspace_member.removed") removed.add(target_id);
    if (action === "workspace_member.joined" || role?.new === "owner") demoted.delete(target_id);
    if (action === "workspace_member.role_changed" && role?.old === "owner") demoted.add(target_id);
    if (action === "tenant.embed_tokens_revoked") epochs.set(target_id, embed_epoch);
    if (action === "tenant.deleted") epochs.set(target_id, Number.POSITIVE_INFINITY);
  }
  return found;
}
