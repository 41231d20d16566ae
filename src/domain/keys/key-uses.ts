// Walks the working keys of a project with what is known of their use, in pieces, so that a large workspace blocks no other
// request.
import { keyUses, type KeysOf, type KeyUse } from "../../store/queries/idle-keys.ts";
import { rangeEnd } from "../../store/queries/key-bulk.ts";
import type { PageKey } from "../../store/queries/page.ts";
import type { Reader } from "../../store/engine/statement.ts";
import { EXAMINED_MAX } from "./bulk.ts";

export async function* walkKeyUses(on: Reader, of: KeysOf): AsyncGenerator<KeyUse[]> {
  for (let after: PageKey | null = null; ; ) {
    const upTo: PageKey | null = (await rangeEnd(on, of, after, EXAMINED_MAX)) ?? null;
    yield await keyUses(on, of, { after, upTo });
    if (!upTo) return;
    after = upTo;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** When it was last used; for an unused key, when its life or its being enabled began. */
export function lastUseOf({ created_at, last_used_at, enabled_at }: KeyUse): number {
  return Math.max(created_at, last_used_at ?? 0, enabled_at ?? 0);
}

/** Not a key whose disuse has another reason, or that ends anyway. */
export function mayBeIdle({ suspended_at, quarantined_at, successor_id }: KeyUse): boolean {
  return suspended_at === null && quarantined_at === null && successor_id === null;
}
