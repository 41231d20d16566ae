// Two servers measured in alternating slices of one second: noise affects both, and the ratio compares neighbouring
// slices.
import { load, type LoadOptions } from "./client.ts";
import { median } from "./report.ts";

/** A running server and how to measure it. */
export type Side = { measure(times: Times): Promise<number>; end(): Promise<unknown> };
type Times = { warmMs: number; forMs: number };

export type Pair = { ours: number; peer: number; ratio: number };

/** New processes each round: two processes differ by up to a fifth for the same handler. */
const ROUNDS = 3;
const TURNS = 8;
/** Both servers get the same warm-up. */
const WARM: Times = { warmMs: 0, forMs: 5_000 };
/** The client is a new process each time and is warmed up too. */
const TURN: Times = { warmMs: 500, forMs: 1_000 };

export async function inTurns(start: Record<"ours" | "peer", () => Promise<Side>>): Promise<Pair> {
  const pairs: Pair[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const sides = [await start.ours(), await start.peer()] as const;
    try {
      for (const side of sides) await side.measure(WARM);
      for (let turn = 0; turn < TURNS; turn++) {
        const [ours, peer] = [await sides[0].measure(TURN), await sides[1].measure(TURN)];
        pairs.push({ ours, peer, ratio: ours / peer });
      }
    } finally {
      for (const side of sides) await side.end();
    }
  }
  const of = (name: keyof Pair): number => median(pairs.map((pair) => pair[name]));
  return { ours: of("ours"), peer: of("peer"), ratio: of("ratio") };
}

/** For a server that is measured alone. */
const ALONE: Times = { warmMs: 6_000, forMs: 3_000 };

/** Responses per second; each must have this status. */
export async function perSecond(options: LoadOptions, status: string): Promise<number> {
  const result = await load({ ...ALONE, ...options });
  if (Object.keys(result.statuses).join() !== status)
    throw new Error(`the statuses were ${JSON.stringify(result.statuses)}`);
  return result.perSecond;
}
