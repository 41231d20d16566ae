// Downtime of the service: a stop, a database out of reach, a restore, a clock that was set forward. Nodes could not
// report during it, so a silent node is not a dead one: until the service has been up for as long as a node counts as
// live, nodes that were live when it went down still count wherever nodes are counted, listed or removed.
import { SECOND_MS } from "../../kernel/durations.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import { writeFact } from "../../store/queries/deployment.ts";
import type { Store } from "../../store/store.ts";
import type { Clock } from "../core/clock.ts";
import { getJsonFact } from "../core/facts.ts";
import { record } from "../core/record.ts";

export const PRESENCE_EVERY_MS = 10 * SECOND_MS;
/** After this long without a heartbeat the service counts as away. */
const AWAY_MS = 3 * PRESENCE_EVERY_MS;

/** `alive_at`: its last sign of life. It was away from `away_from` until `back_at`; both are 0 if it never was. */
type Presence = { alive_at: number; away_from: number; back_at: number };

/** `nodes`: when nodes could report to this process, as the registry of nodes knows it. */
type PresenceServices = {
  readonly store: Store;
  readonly clock: Clock;
  readonly settings: { readonly node_live_ms: number };
  readonly nodes: { readonly reportedAtMonotonic: number; presentAt: number };
};

/**
 * Records a heartbeat of the service, from any process. Written only while nodes may still count as live; this process
 * remembers its own presence.
 */
export async function recordPresence(services: PresenceServices): Promise<void> {
  const { clock, nodes, settings, store } = services;
  const isIdle = performance.now() - nodes.reportedAtMonotonic > settings.node_live_ms + 2 * PRESENCE_EVERY_MS;
  if (isIdle)
    await readPresence(store.read); // nodes can report only while the database is in reach
  else await record(services, (tx) => writePresence(tx, services), { locks: ["presence"] });
  nodes.presentAt = clock.now();
}

async function writePresence(tx: Tx, { clock, nodes, settings }: PresenceServices): Promise<void> {
  const now = clock.now();
  const stored = await readPresence(tx);
  const never = { away_from: 0, back_at: 0 };
  const presence = stored ? presenceAt(stored, nodes.presentAt, now, settings.node_live_ms) : never;
  await writeFact.run(tx, { name: "presence", value: JSON.stringify({ ...presence, alive_at: now }) });
}

/** For a clock that was moved on purpose: nodes that are silent by it are silent, as if the service had been there. */
export async function forgetAbsence(services: PresenceServices): Promise<void> {
  const alive_at = services.clock.now();
  const value = JSON.stringify({ alive_at, away_from: 0, back_at: 0 } satisfies Presence);
  await record(services, (tx) => writeFact.run(tx, { name: "presence", value }), { locks: ["presence"] });
  services.nodes.presentAt = alive_at;
}

/** Nodes that were seen after this time count as live. */
export async function liveSince(services: PresenceServices, on: Reader = services.store.read): Promise<number> {
  return (await seenSince(services, on))();
}

/** Like `liveSince`, for a wait: the returned time moves with the clock. */
export async function seenSince(
  { store, clock, settings, nodes }: PresenceServices,
  on: Reader = store.read,
): Promise<() => number> {
  const stored = await readPresence(on);
  const { node_live_ms: liveMs } = settings;
  if (!stored) return () => clock.now() - liveMs;
  const { away_from, back_at } = presenceAt(stored, nodes.presentAt, clock.now(), liveMs);
  return () => {
    const now = clock.now();
    // A clock that was ahead is no absence.
    const isBack = back_at <= now && now < back_at + liveMs;
    return (isBack ? away_from : now) - liveMs;
  };
}

const readPresence = (on: Reader): Promise<Presence | null> => getJsonFact<Presence>(on, "presence");

/** Adds an absence that ends now, if there was one. If nodes had not had time to return, it extends the one before. */
function presenceAt(stored: Presence, presentAt: number, now: number, liveMs: number): Omit<Presence, "alive_at"> {
  const { away_from, back_at } = stored;
  const alive_at = Math.max(stored.alive_at, presentAt);
  if (now - alive_at <= AWAY_MS) return { away_from, back_at };
  return { away_from: alive_at < back_at + liveMs ? away_from : alive_at, back_at: now };
}
