// The nodes of the demonstration: two are current, one is behind, one has fallen silent. No process polls, so the
// live ones are reported again as long as the instance runs, as often as a node polls: a change shows that they
// have it.
import type { Services } from "../../domain/core/context.ts";
import { forgetAbsence } from "../../domain/nodes/presence.ts";
import { CAPABILITIES, maskOf } from "../../kernel/policy/capabilities.ts";
import { SDK } from "./traffic.ts";

const AGAIN_MS = 1_000;
const BEHIND = 3;

/** A node of this version with a secret key that may only verify. */
const node = (node_id: string) =>
  ({
    node_id,
    env_scope: "live",
    caps: maskOf(CAPABILITIES),
    full_power: false,
    sdk: `${SDK.name}/${SDK.version}`,
  }) as const;

/** To be called some minutes in the past. */
export async function addSilentNode(services: Services, workspace_id: string, project_id: string): Promise<void> {
  const head = await services.feed.head(workspace_id, project_id);
  services.nodes.acknowledge(head, node("orders-4"), head.version);
  await services.nodes.flushed();
}

/** To be called at the present time. */
export async function keepNodes(services: Services, workspace_id: string, project_id: string): Promise<void> {
  const { feed, nodes } = services;
  await forgetAbsence(services);
  const report = async (): Promise<void> => {
    const head = await feed.head(workspace_id, project_id);
    nodes.acknowledge(head, node("orders-1"), head.version);
    nodes.acknowledge(head, node("orders-2"), head.version);
    nodes.acknowledge(head, node("orders-3"), Math.max(0, head.version - BEHIND));
  };
  await report();
  await nodes.flushed();
  setInterval(() => void report().catch(() => {}), AGAIN_MS).unref();
}
