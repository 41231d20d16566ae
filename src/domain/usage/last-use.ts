// Where a key was last used from, as far as nodes report it: a network, a product name and the node. Personal data at
// most by accident, so it is cut by the node, optional (KEYRACK_LAST_USED_DETAIL) and deleted after the key's end.
import { DAY_MS } from "../../kernel/durations.ts";
import { LAST_ID } from "../../kernel/ids.ts";
import { isShownNetwork } from "../../kernel/network/cidr.ts";
import { isClientNetwork, isProduct } from "../../kernel/network/client-network.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import type { KnownKey } from "../../store/queries/ingest.ts";
import {
  deleteLastUse,
  deleteLastUses,
  endedLastUses,
  lastUseBehind,
  lastUsesOf,
} from "../../store/queries/last-uses.ts";
import type { KeyLastUseRow } from "../../store/schema/tables.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { record } from "../core/record.ts";

const KEPT_MS = 90 * DAY_MS;
const PIECE_ROWS = 500;

/** The fields of an event. A malformed one is ignored: it never refuses a batch. */
type ClientEvent = { network?: unknown; user_agent?: unknown };

/** The newest use of each key in one batch. */
export class LastUses {
  readonly ignored = { network: 0, user_agent: 0 };
  readonly #rows = new Map<string, KeyLastUseRow>();

  /** Only for events with one of the fields. */
  add(event: ClientEvent, { id: key_id }: KnownKey, at: number, from: { workspace_id: string; node_id: string }): void {
    const shown = this.#read(event, "network", isShownNetwork);
    const user_agent = this.#read(event, "user_agent", isProduct);
    const before = this.#rows.get(key_id);
    if (before && before.at > at) return;
    const network = shown !== null && isClientNetwork(shown) ? shown : null; // refused requests name local ones too
    if (network === null && user_agent === null) return;
    const { workspace_id, node_id } = from;
    this.#rows.set(key_id, { key_id, workspace_id, at, network, user_agent, node_id });
  }

  get rows(): KeyLastUseRow[] {
    return [...this.#rows.values()];
  }

  #read(event: ClientEvent, field: keyof ClientEvent, isValid: (text: string) => boolean): string | null {
    const value = event[field] ?? null;
    if (value === null) return null;
    if (typeof value === "string" && isValid(value)) return value;
    this.ignored[field]++;
    return null;
  }
}

type LastUse = { at: string; network: string | null; user_agent: string | null; node_id: string };

/** The keys must be readable by the actor. */
export async function lastUsesByKey(
  { services, actor }: Ctx<Vendor>,
  keys: readonly { id: string }[],
): Promise<Map<string, LastUse>> {
  const { store, settings } = services;
  const ids = keys.map(({ id }) => id);
  const rows = settings.last_used_detail ? await lastUsesOf(store.read, actor.workspace_id, ids) : [];
  return new Map(rows.map((row) => [row.key_id, viewLastUse(row)]));
}

function viewLastUse({ at, network, user_agent, node_id }: KeyLastUseRow): LastUse {
  return { at: formatTimestamp(at), network, user_agent, node_id };
}

/** Scheduled job. Deletes what is of keys that ended long ago; everything where the setting is off. */
export async function reapLastUses(services: Services): Promise<void> {
  const { store, settings, clock } = services;
  const before = clock.now() - KEPT_MS;
  for (let after = ""; ; ) {
    const end = await lastUseBehind.first(store.read, { after, skipped: PIECE_ROWS - 1 });
    const range = { after, upTo: end?.key_id ?? LAST_ID };
    if (!settings.last_used_detail) await record(services, (tx) => deleteLastUses.run(tx, range));
    else await deleteEnded(services, { ...range, before });
    if (!end) return;
    after = end.key_id;
  }
}

async function deleteEnded(services: Services, ended: { after: string; upTo: string; before: number }): Promise<void> {
  const rows = await endedLastUses.all(services.store.read, ended);
  if (rows.length === 0) return;
  await record(services, async (tx) => {
    for (const row of rows) await deleteLastUse.run(tx, row);
  });
}
