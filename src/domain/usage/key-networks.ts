// Where requests from outside a key's networks come from: summed per batch, bounded per key and day, and reported, so
// that a list of networks can be tried before it is enforced.
import { utcDay } from "../../kernel/durations.ts";
import { isShownNetwork } from "../../kernel/network/cidr.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { forPieces, LoopShare } from "../../platform/event-loop.ts";
import { SummedRows } from "../../store/engine/additive-upsert.ts";
import type { KnownKey } from "../../store/queries/ingest.ts";
import {
  countNetworks,
  keyNetworkUpsert,
  networksOfKey,
  reapKeyNetworks as reapRows,
  storedNetworks,
  type KeyDay,
  type NetworkName,
} from "../../store/queries/key-networks.ts";
import { keyById } from "../../store/queries/keys.ts";
import { anyTenantById } from "../../store/queries/tenants.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { KeyNetworkRow } from "../../store/schema/tables.ts";
import type { Vendor } from "../core/actor.ts";
import { addressRuleOf } from "../keys/address-rules.ts";
import type { Ctx, Services } from "../core/context.ts";
import { requireReadable } from "../core/env-access.ts";
import { reap } from "../core/record.ts";

const DAYS_KEPT = 30;
/** Maximum per key and day. */
const NETWORKS_MAX = 100;
const ROWS_MAX = 100;
/** Networks that one statement looks up, and days of keys whose networks one statement counts. */
const NAMES_READ = 250;
const DAYS_READ = 50;
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
  readonly #sums = new SummedRows(keyNetworkUpsert);

  add(workspace_id: string, { id: key_id }: KnownKey, event: NetworkEvent, at: number, weight: number): void {
    const network = typeof event.network === "string" && isShownNetwork(event.network) ? event.network : UNKNOWN;
    const outcome = event.denial_reason === REFUSED ? "refused" : "would_refuse";
    const day = utcDay(at);
    const sum = { key_id, day, network, outcome, workspace_id, requests: weight } as const;
    this.#sums.add([{ ...sum, first_seen_at: at, last_seen_at: at }]);
  }

  get rows(): KeyNetworkRow[] {
    return this.#sums.rows;
  }
}

/**
 * Adds the sums of a batch. Networks above the bound of a key and day count as `other`. Caution: the bound is exact
 * only if no other transaction saves networks of this workspace meanwhile; the lock on its ingest budget prevents that.
 */
export async function saveNetworks(tx: Tx, rows: readonly KeyNetworkRow[]): Promise<void> {
  if (rows.length === 0) return;
  const named = new Map(rows.filter(({ network }) => network !== UNKNOWN).map((row) => [nameOf(row), row]));
  const known = await readStored(tx, [...named.values()]);
  const added = [...named].filter(([name]) => !known.has(name)).map(([, row]) => row);
  const room = await readRoom(tx, added);
  const bounded = new SummedRows(keyNetworkUpsert);
  const loop = new LoopShare();
  for (const row of rows) {
    const [name, day] = [nameOf(row), dayOf(row)];
    const left = room.get(day) ?? 0;
    const isKnown = row.network === UNKNOWN || known.has(name);
    if (!isKnown && left > 0) {
      known.add(name);
      room.set(day, left - 1);
    }
    bounded.add([{ ...row, network: isKnown || left > 0 ? row.network : OTHER }]);
    await loop.yieldIfDue();
  }
  await bounded.write(tx);
}

const dayOf = ({ key_id, day }: KeyDay): string => `${key_id} ${day}`;
const nameOf = (name: NetworkName): string => `${dayOf(name)} ${name.network}`;

/** The names of those that are stored. Looked up one by one: a key may have 100 on each of eight days. */
async function readStored(tx: Tx, rows: readonly NetworkName[]): Promise<Set<string>> {
  const known = new Set<string>();
  await forPieces(rows, NAMES_READ, async (some) => {
    for (const stored of await storedNetworks(tx, some)) known.add(nameOf(stored));
  });
  return known;
}

/** How many networks each key may still get on each day. */
async function readRoom(tx: Tx, rows: readonly KeyDay[]): Promise<Map<string, number>> {
  const room = new Map<string, number>();
  const days = [...new Map(rows.map((row) => [dayOf(row), row])).values()];
  await forPieces(days, DAYS_READ, async (some) => {
    const counted = await countNetworks(tx, some, { unnamed: [OTHER, UNKNOWN], limit: NETWORKS_MAX });
    for (const { n, ...day } of counted) room.set(dayOf(day), NETWORKS_MAX - n);
  });
  return room;
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
  return reap(services, reapRows, { before });
}
