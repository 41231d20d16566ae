// Revocation over a fleet: SDK nodes in separate processes all admit a key, which is then revoked with wait=true.
// The promise: the response says complete, and no node admits the key after it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Campaign } from "./campaign.ts";
import { startServer } from "../harness/processes/server.ts";

type FleetReport = {
  nodes: number;
  complete: boolean;
  acked: number;
  /** From sending the request to its response. */
  answeredMs: number;
  /** As the server measured it. */
  waitedMs: number;
  /** When any node admitted the key for the last time, counted from sending the request. */
  lastAdmittedMs: number;
  problems: string[];
};

type Seeded = Record<"url" | "secret_key" | "project_id" | "tenant_id", string>;
type Seen = { admits: boolean; lastAdmittedAt: number };
type Propagation = { complete: boolean; acked_nodes: number; total_nodes: number; waited_ms: number };
type FleetNode = { id: string; look(): Promise<Seen>; end(): Promise<void> };

const SCRIPT = fileURLToPath(new URL("./fleet-node.ts", import.meta.url));

async function startNode(id: string, { url, secret_key, project_id }: Seeded, key: string): Promise<FleetNode> {
  const args = { url, secretKey: secret_key, projectId: project_id, nodeId: id, key };
  const child = spawn(process.execPath, [SCRIPT, JSON.stringify(args)], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "exit");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const first = (await lines.next()).value;
  if (first !== "ready") throw new Error(`${id}: ${first ?? "it ended"}`);
  return {
    id,
    look: async () => {
      child.stdin.write("look\n");
      return JSON.parse((await lines.next()).value ?? "null") as Seen;
    },
    end: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

async function post<T>({ url, secret_key }: Seeded, path: string, body: object): Promise<T> {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${secret_key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`POST ${path}: ${response.status}`);
  return (await response.json()) as T;
}

export async function fleet(count: number): Promise<FleetReport> {
  const server = await startServer(["--ephemeral", "--seed"]);
  const nodes: FleetNode[] = [];
  try {
    const seeded = server.ready as unknown as Seeded;
    const { project_id, tenant_id } = seeded;
    const { id, key } = await post<{ id: string; key: string }>(seeded, "/v1/keys", {
      project_id,
      tenant_id,
      env: "live",
    });
    const names = Array.from({ length: count }, (_, i) => `node-${i}`);
    for (const started of await Promise.allSettled(names.map((name) => startNode(name, seeded, key)))) {
      if (started.status === "rejected") throw started.reason;
      nodes.push(started.value);
    }
    const sentAt = Date.now();
    const { propagation } = await post<{ propagation: Propagation }>(seeded, `/v1/keys/${id}/revoke?wait=true`, {});
    const answeredAt = Date.now();
    const seen = await Promise.all(nodes.map(async (node) => ({ id: node.id, ...(await node.look()) })));
    const problems = seen.flatMap((node) => {
      if (node.admits) return [`${node.id} still admits the key`];
      return node.lastAdmittedAt > answeredAt ? [`${node.id} admitted the key after the answer`] : [];
    });
    if (!propagation.complete) problems.push("the answer says that not every node has it");
    if (propagation.total_nodes !== count) problems.push(`the answer knows of ${propagation.total_nodes} nodes`);
    return {
      nodes: propagation.total_nodes,
      complete: propagation.complete,
      acked: propagation.acked_nodes,
      answeredMs: answeredAt - sentAt,
      waitedMs: propagation.waited_ms,
      lastAdmittedMs: Math.max(...seen.map(({ lastAdmittedAt }) => lastAdmittedAt)) - sentAt,
      problems,
    };
  } finally {
    await Promise.all(nodes.map((node) => node.end()));
    await server.end("SIGTERM");
  }
}

const NODES = 20;

export const fleetCampaign: Campaign = {
  name: "fleet",
  promise: "P6",
  claim: `a revocation that waits is complete when each of ${NODES} node processes refuses the key, and not before`,
  rounds: 5,
  round: "revocation over a fresh fleet",
  backends: ["sqlite"],
  async run({ rounds, seed, print }, tally) {
    for (let i = 0; i < rounds; i++) {
      const report = await fleet(NODES);
      for (const problem of report.problems) tally.failed(seed + i, problem);
      tally.rounds++;
      tally.count("nodes", report.nodes);
      tally.count("acknowledged", report.acked);
      tally.most("slowest response, ms", report.answeredMs);
      tally.most("last admitted, ms after the request", report.lastAdmittedMs);
      print(`round ${i + 1}: ${report.acked} of ${report.nodes} nodes in ${report.answeredMs} ms`);
    }
  },
};
