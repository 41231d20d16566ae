// The nodes in one sentence.
import type { RouteOutput } from "../../../client.ts";
import { formatNumber, plural } from "../../shared/format.ts";

type Counts = NonNullable<RouteOutput<"GET /v1/nodes">["counts"]>;

/** "2 of 3 live nodes are current. 1 is late. 1 other node is silent." */
export function FleetSummary({ counts }: { counts: Counts }) {
  const { live, current, late, degraded, silent, unregistered } = counts;
  const are = (count: number): string => `${formatNumber(count)} ${count === 1 ? "is" : "are"}`;
  const parts = [
    live === 0
      ? "No node is live."
      : `${formatNumber(current)} of ${plural(live, "live node")} ${live === 1 ? "is" : "are"} current.`,
    late > 0 && `${are(late)} late.`,
    degraded > 0 && `${are(degraded)} degraded.`,
    silent > 0 && `${plural(silent, live > 0 ? "other node" : "node")} ${silent === 1 ? "is" : "are"} silent.`,
    unregistered > 0 && `At least ${formatNumber(unregistered)} more poll, but are not registered (KEYRACK_NODES_MAX).`,
  ];
  return <p class="fleet-summary">{parts.filter(Boolean).join(" ")}</p>;
}
