// Walks the keys of a project with what is known of their use, in pieces, so that a large project blocks no
// other request.
import { LAST_ID } from "../../kernel/ids.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { keyBehind, keyUses, type KeysOf, type KeyUse } from "../../store/queries/idle-keys.ts";
import type { Reader } from "../../store/engine/tx.ts";

/** Takes about 2 ms. */
const PIECE_KEYS = 200;

export async function* walkKeyUses(on: Reader, of: KeysOf): AsyncGenerator<KeyUse[]> {
  for (let after = ""; ; ) {
    const end = await keyBehind.first(on, { project_id: of.project_id, after, skipped: PIECE_KEYS - 1 });
    yield await keyUses(on, of, { after, upTo: end?.id ?? LAST_ID });
    if (!end) return;
    after = end.id;
    await yieldToEventLoop();
  }
}

/**
 * When it was last used; for an unused key, when its life or its being enabled began. The resumption of its tenant
 * counts too: keys of one that was suspended for long would be revoked at once.
 */
export function lastUseOf({ created_at, last_used_at, enabled_at, tenant_resumed_at }: KeyUse): number {
  return Math.max(created_at, last_used_at ?? 0, enabled_at ?? 0, tenant_resumed_at ?? 0);
}

/** Not a key whose disuse has another reason, or that ends anyway. */
export function mayBeIdle({ disabled_at, suspended_at, quarantined_at, successor_id }: KeyUse): boolean {
  return disabled_at === null && suspended_at === null && quarantined_at === null && successor_id === null;
}
