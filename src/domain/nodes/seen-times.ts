// Times at which nodes were seen that are in the future: a clock was ahead. By them a node would count as live until
// then, so that no receipt is complete, and no other node gets its place.
import { latestCredible } from "../../kernel/durations.ts";
import { correctNodes, correctUnregistered } from "../../store/queries/nodes.ts";
import type { Services } from "../core/context.ts";
import { inPieces } from "../core/record.ts";

/**
 * Sets them to now: each of these nodes has as long to report as any other. On PostgreSQL the database's clock must
 * agree, or a process whose own clock is behind would silence the nodes of all others.
 */
export async function correctSeenTimes(services: Pick<Services, "store" | "clock" | "claimNow">): Promise<number> {
  let corrected = 0;
  for (const statement of [correctNodes, correctUnregistered])
    corrected += await inPieces(services, async (tx, limit) => {
      const now = services.clock.now();
      const latest = latestCredible(Math.max(now, await services.claimNow(tx)));
      return statement.run(tx, { now, latest, limit });
    });
  return corrected;
}
