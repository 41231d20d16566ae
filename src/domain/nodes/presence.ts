// When the service was there for nodes to report to. After it was away (a stop, a database out of reach, a restore, a clock that was
// set forward) nodes have had no chance to report, so their silence means nothing until it has been back for as long as a node
// counts as live. Until then those that were live when it went away still count.
import { SECOND_MS } from "../../kernel/durations.ts";
import type { Reader } from "../../store/engine/statement.ts";
import { readFact, writeFact } from "../../store/queries/deployment.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";

export const PRESENCE_EVERY_MS = 10 * SECOND_MS;
/** Without a sign of life for so long, the service was away. */
const AWAY_MS = 3 * PRESENCE_EVERY_MS;

/** `alive_at`: its last sign of life. It was away from `away_from` until `back_at`; both are 0 if it never was. */
type Presence = { alive_at: number; away_from: number; back_at: number };

/** By any process, while nodes may still count as live: an idle service writes nothing. */
export async function recordPresence(services: Services): Promise<void> {
  const { clock, nodes, settings } = services;
  if (performance.now() - nodes.reportedAt > settings.node_live_ms + 2 * PRESENCE_EVERY_MS) return;
  await record(
    services,
    async (tx) => {
      const now = clock.now();
      const before = await readPresence(tx);
      const presence = before ? at(before, now, settings.node_live_ms) : { alive_at: now, away_from: 0, back_at: 0 };
      // Never earlier: the clocks of processes differ.
      const value = JSON.stringify({ ...presence, alive_at: Math.max(now, presence.alive_at) });
      await writeFact.run(tx, { name: "presence", value });
    },
    { locks: ["presence"] },
  );
}

/** Nodes that were seen after the returned time count as live; it moves with the clock. */
export async function seenSince({
  store,
  clock,
  settings,
}: Pick<Services, "store" | "clock" | "settings">): Promise<() => number> {
  const stored = await readPresence(store.read);
  const { node_live_ms: liveMs } = settings;
  if (!stored) return () => clock.now() - liveMs;
  const presence = at(stored, clock.now(), liveMs);
  return () => {
    const now = clock.now();
    return (now < presence.back_at + liveMs ? presence.away_from : now) - liveMs;
  };
}

async function readPresence(on: Reader): Promise<Presence | undefined> {
  const stored = await readFact.first(on, { name: "presence" });
  return stored && JSON.parse(stored.value);
}

/** With an absence that ends now. One that begins before all nodes could come back belongs to the absence before it. */
function at(presence: Presence, now: number, liveMs: number): Presence {
  const { alive_at, away_from, back_at } = presence;
  if (now - alive_at <= AWAY_MS) return presence;
  return { alive_at, away_from: alive_at < back_at + liveMs ? away_from : alive_at, back_at: now };
}
