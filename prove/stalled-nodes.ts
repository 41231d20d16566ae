// New nodes of a project while no row of a node can be written: a receipt of another process knows only rows, so none
// may be complete while a node holds the key that got its first policy meanwhile. A node that starts with the policy of
// its cache file is not counted without its row; what its polls bring is checked like that of every node.
import { setTimeout as sleep } from "node:timers/promises";
import { openRaw } from "../harness/databases/raw-sql.ts";
import { send } from "../harness/processes/send.ts";
import { must, mustOnceAvailable, type World } from "../harness/instances/world.ts";
import type { Random } from "../harness/random.ts";
import { until } from "../harness/waiting.ts";
import type { DatabaseTarget } from "../src/store/target.ts";
import type { Tally } from "./campaign.ts";
import { PollingNode, type Report, type Revoked } from "./polling-node.ts";

/** Longer than the first response to a node waits for its row. */
const STALL_MAX_MS = 2_500;
/** So long that a node still holds the key when the receipt comes. */
const INTERVAL_MS = 1_000;

/** `revoking`: the process that makes the receipt; `polled`: the other one, which the nodes poll. */
type Urls = { revoking: string; polled: string };

export async function startNodesDuringStall(
  urls: Urls,
  world: World,
  target: DatabaseTarget,
  random: Random,
  { tally, report }: { tally: Tally; report: Report },
): Promise<void> {
  const call = (route: string, body: object = {}) => must(send(urls.revoking, world.key, route, body));
  const { id: project_id } = await call("POST /v1/projects", { name: "P", slug: `stall-${Date.now()}` });
  const { id } = await call("POST /v1/keys", { project_id, tenant_id: world.tenant_id, env: "live" });
  const { policy_version } = await must(send(urls.revoking, world.key, `GET /v1/projects/${project_id}`));
  const revoked: Revoked = new Map();
  const newNode = (name: string) =>
    new PollingNode(
      urls.polled,
      { ...world, project_id },
      { name, waitMs: 0, intervalMs: INTERVAL_MS },
      revoked,
      report,
    );
  const [empty, cached] = [newNode("empty"), newNode("cached")];
  const nodes = [empty, cached];
  cached.version = policy_version;
  cached.keys.add(id);
  const stop = new AbortController();
  const database = await openRaw(target);
  let polling: Promise<unknown> = Promise.resolve();
  try {
    await database.all("begin");
    await database.all("lock table policy_nodes in share mode");
    polling = Promise.all(nodes.map((node) => node.run(stop.signal)));
    await sleep(random.int(0, STALL_MAX_MS));
    const endsFirst = random.int(0, 1) === 1;
    if (endsFirst) await database.all("commit");
    const route = `POST /v1/keys/${id}/revoke?wait=true`;
    const { propagation } = await mustOnceAvailable(() => send(urls.revoking, world.key, route, {}));
    if (propagation.complete && empty.keys.has(id))
      report("a receipt is complete while a node holds the key that got it before its row was written");
    revoked.set(id, performance.now());
    if (!endsFirst) await database.all("commit");
    await until(() => nodes.every(({ isAnswered, keys }) => isAnswered && !keys.has(id)));
    tally.count("revocations while nodes start");
  } finally {
    stop.abort();
    await polling.catch((error: unknown) => report(`a node failed: ${String(error)}`));
    await database.close();
  }
}
