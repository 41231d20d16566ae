// Where requests from outside a key's networks come from: summed per batch, bounded per key and day, and reported, so
// that a list of networks can be tried before it is enforced.
import { chunked } from "../../kernel/chunks.ts";
import { utcDay } from "../../kernel/durations.ts";
import { isShownNetwork } from "../../kernel/network/cidr.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import type { KnownKey } from "../../store/queries/ingest.ts";
import {
  addKeyNetworks,
  networksOfKey,
  reapKeyNetworks as reapRows,
  seenNetworks,
} from "../../store/queries/key-networks.ts";
import { keyById } from "../../store/queries/keys.ts";
import { anyTenantById } from "../../store/queries/tenants.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { KeyNetworkRow } from "../../store/schema/tables.ts";
import type { Vendor } from "../core/actor.ts";
import { addressRuleOf } from "../keys/address-rules.ts";
import type { Ctx, Services } from "../core/context.ts";
import { requireReadable } from "../core/env-access.ts";
import { deleteInPieces } from "../core/record.ts";

const DAYS_KEPT = 30;
/** Maximum per key and day. */
const NETWORKS_MAX = 100;
const ROWS_MAX = 100;
/** Keys whose networks are read at once. */
const KEYS_READ = 100;
const OTHER = "other";
const UNKNOWN = "unknown";
const REFUSED = "ip_not_allowed";

/** The fields of an event. A malformed one is ignored: it never refuses a batch. */
type NetworkEvent = { denial_reason?: string | null; would_deny?: unknown; network?: unknown };

export function isFromOutside({ denial_reason, would_deny }: NetworkEvent): boolean {
  return denial_reason === REFUSED || would_deny === REFUSED;
}

/** The sums of one batch. */
export class NetworkSums {
  readonly #rows = new Map<string, KeyNetworkRow>();

  add(workspace_id: string, { id: key_id }: KnownKey, event: NetworkEvent, at: number, weight: number): void {
    const network = typeof event.network === "string" && isShownNetwork(event.network) ? event.network : UNKNOWN;
    const outcome = event.denial_reason === REFUSED ? "refused" : "would_refuse";
    const day = utcDay(at);
    const sum = { key_id, day, network, outcome, workspace_id, requests: weight } as const;
    addTo(this.#rows, { ...sum, first_seen_at: at, last_seen_at: at });
  }

  get rows(): KeyNetworkRow[] {
    return [...this.#rows.values()];
  }
}

function addTo(rows: Map<string, KeyNetworkRow>, row: KeyNetworkRow): void {
  const id = `${row.key_id} ${row.day} ${row.network} ${row.outcome}`;
  const before = rows.get(id);
  if (!before) return void rows.set(id, row);
  before.requests += row.requests;
  before.first_seen_at = Math.min(before.first_seen_at, row.first_seen_at);
  before.last_seen_at = Math.max(before.last_seen_at, row.last_seen_at);
}

/**
 * Adds the sums of a batch. Networks above the bound of a key and day count as `other`. Caution: the bound is exact
 * only if no other transaction saves networks of this workspace meanwhile; the lock on its ingest budget prevents that.
 */
export async function saveNetworks(tx: Tx, rows: readonly KeyNetworkRow[]): Promise<void> {
  if (rows.length === 0) return;
  const seen = await readSeen(tx, rows);
  const bounded = new Map<string, KeyNetworkRow>();
  for (const row of rows) {
    const networks = seen.get(`${row.key_id} ${row.day}`) ?? new Set<string>();
    seen.set(`${row.key_id} ${row.day}`, networks);
    const fits = row.network === UNKNOWN || networks.has(row.network) || networks.size < NETWORKS_MAX;
    if (fits && row.network !== UNKNOWN) networks.add(row.network);
    addTo(bounded, { ...row, network: fits ? row.network : OTHER });
  }
  // In key order, so that two processes with the same rows cannot deadlock.
  const inOrder = [...bounded.keys()].toSorted().map((id) => bounded.get(id) as KeyNetworkRow);
  await addKeyNetworks(tx, inOrder);
}

/** The networks that count against the bound, by key and day. */
async function readSeen(tx: Tx, rows: readonly KeyNetworkRow[]): Promise<Map<string, Set<string>>> {
  const keys = [...new Set(rows.map(({ key_id }) => key_id))];
  const days = rows.map(({ day }) => day);
  const range = { from: Math.min(...days), to: Math.max(...days) };
  const seen = new Map<string, Set<string>>();
  for (const some of chunked(keys, KEYS_READ)) {
    for (const { key_id, day, network } of await seenNetworks(tx, { keys: some, ...range })) {
      if (network === OTHER || network === UNKNOWN) continue;
      const id = `${key_id} ${day}`;
      seen.set(id, (seen.get(id) ?? new Set()).add(network));
    }
  }
  return seen;
}

/** `mode`: of the list that applies to the key; null if none does. */
export async function showIpReport({ services, actor }: Ctx<Vendor>, key_id: string, days: number) {
  const { read } = services.store;
  const { workspace_id } = actor;
  const key = requireReadable(actor, await keyById.first(read, { workspace_id, id: key_id }), "key_not_found");
  const tenant = await anyTenantById.first(read, { workspace_id, id: key.tenant_id });
  const to = utcDay(services.clock.now());
  const rows = await networksOfKey.all(read, { workspace_id, key_id, from: to - days + 1, to, limit: ROWS_MAX });
  const data = rows.map((row) => ({
    network: row.network,
    outcome: row.outcome,
    requests: Math.round(row.requests),
    first_seen_at: formatTimestamp(row.first_seen_at),
    last_seen_at: formatTimestamp(row.last_seen_at),
  }));
  const mode = addressRuleOf(key, tenant ?? { allowed_cidrs: null, ip_mode: "enforce" })?.mode ?? null;
  return { object: "ip_report" as const, key_id, days, mode, data };
}

/** Scheduled job. */
export function reapKeyNetworks(services: Services): Promise<number> {
  const before = utcDay(services.clock.now()) - DAYS_KEPT + 1;
  return deleteInPieces(services, (tx, limit) => reapRows.run(tx, { before, limit }));
}
