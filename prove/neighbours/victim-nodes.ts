// The victim's own nodes: two instances of the library with long polls, as in its applications.
import { setTimeout as sleep } from "node:timers/promises";
import { must, type World } from "../../harness/instances/world.ts";
import { until } from "../../harness/waiting.ts";
import { createKeyrack, type Keyrack } from "../../src/sdk/index.ts";
import { timedCalls, type Traffic } from "./victim.ts";

const NODES = ["node-a", "node-b"];
const PAUSE_MS = 20;

type Node = { name: string; keyrack: Keyrack };

/**
 * A key that stays is always admitted. A new one is admitted by every node, and by none once its revocation is
 * complete.
 */
async function mintAndRevoke(world: World, nodes: readonly Node[], stays: string, traffic: Traffic): Promise<void> {
  const { key, project_id, tenant_id } = world;
  const { report, answers, measured } = traffic;
  const minted = await must(world.call(key, "POST /v1/keys", { project_id, tenant_id, env: "live" }));
  const admits = ({ keyrack }: Node, secret: string): boolean => keyrack.verify(secret).ok;
  const admitted = (): boolean => nodes.every((node) => admits(node, minted.key));
  await until(admitted).catch(() => report("a node does not admit a new key", true));
  const revoke = timedCalls(world.call, answers, "revocations");
  const { propagation } = await must(revoke(key, `POST /v1/keys/${minted.id}/revoke?wait=true`, {}));
  const { complete, acked_nodes } = propagation;
  if (!measured && complete !== true) {
    answers.late++;
    const isGone = (): boolean => nodes.every((node) => !admits(node, minted.key));
    await until(isGone).catch(() => {}); // judged below
  } else report(`revocation: ${JSON.stringify(propagation)}`, complete !== true || acked_nodes !== nodes.length);
  for (const node of nodes) {
    report(`${node.name} admits a revoked key`, admits(node, minted.key));
    report(`${node.name} refuses a key that is valid`, !admits(node, stays));
    if (measured) report(`${node.name} is degraded`, node.keyrack.status().degraded);
  }
}

/** Their ids are the same in each phase, so that no receipt waits for nodes of an earlier one. */
export async function nodeTraffic(url: string, world: World, traffic: Traffic): Promise<void> {
  const { key, project_id, tenant_id } = world;
  const stays = await must(world.call(key, "POST /v1/keys", { project_id, tenant_id, env: "live" }));
  const nodes = NODES.map((name) => {
    const options = { url, secretKey: key, projectId: project_id, nodeId: name, log: () => {} };
    return { name, keyrack: createKeyrack(options) };
  });
  try {
    await Promise.all(nodes.map(({ keyrack }) => keyrack.ready()));
    while (!traffic.end.aborted) {
      await mintAndRevoke(world, nodes, stays.key, traffic);
      await sleep(PAUSE_MS + traffic.pauseMs);
    }
  } finally {
    await Promise.all(nodes.map(({ keyrack }) => keyrack.close()));
  }
}
