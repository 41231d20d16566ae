// What a flood costs a neighbour: times of a client that sends one request at a time, beside another owner that
// pipelines on many connections, compared with the same client alone. Quiet and busy slices alternate on one server.
// Then what the isolation itself costs, and what long work of another owner does.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { send } from "../harness/processes/send.ts";
import { makeWorld, type World } from "../harness/instances/world.ts";
import { startServer } from "../harness/processes/server.ts";
import { hostileBodies } from "../harness/hostile-bodies.ts";
import { besideDeletion, chainCalls } from "./long-work.ts";
import { isolationCosts } from "./isolation-costs.ts";
import { sendBursts, type Request } from "./pipelined.ts";
import { median, p99, type Row } from "./report.ts";
import type { RowName } from "./rows.ts";
import { bodyOf } from "./ratelimit.ts";

const ROUNDS = 5;
const WARM_MS = 300;
const SLICE_MS = 1_500;
/** By then every connection of the flood has sent. */
const LEAD_MS = 700;
const FLOOD = { connections: 32, pipelined: 50 };
/** One for each body: more would measure how fast this machine writes megabytes. */
const BODIES = { connections: 9, pipelined: 1 };
const ONE = { connections: 1, pipelined: 1 };

const check = ({ key, project_id, tenant_id }: World): Request => ({
  path: "/v1/ratelimit/check",
  key,
  body: bodyOf(project_id, tenant_id),
});
const claim = ({ key }: World): Request => ({
  path: "/v1/idempotency/claim",
  key,
  body: `{"env":"live","scope_hash":"{n}","fingerprint":"${"a".repeat(64)}"}`,
});
const mint = ({ key, project_id, tenant_id }: World): Request => ({
  path: "/v1/keys",
  key,
  body: JSON.stringify({ project_id, tenant_id, env: "live" }),
});
const anonymous = (): Request => ({ path: "/v1/keys" });
const bodies = (world: World): Request[] => hostileBodies(world).map((one) => ({ ...one, key: world.key }));

type Flood = { connections: number; pipelined: number };
type Case = {
  name: RowName;
  victim: (world: World) => Request;
  flood: (world: World) => Request | Request[];
  size?: Flood;
};

const CASES: readonly Case[] = [
  { name: "neighbours/check", victim: check, flood: check },
  { name: "neighbours/check-beside-claims", victim: check, flood: claim },
  { name: "neighbours/claim", victim: claim, flood: claim },
  { name: "neighbours/mint", victim: mint, flood: claim },
  { name: "neighbours/mint-beside-anonymous", victim: mint, flood: anonymous },
  { name: "neighbours/check-beside-bodies", victim: check, flood: bodies, size: BODIES },
];

export async function neighbours(): Promise<Row[]> {
  return [...(await floods()), ...(await isolationCosts()), await besideDeletion(), await chainCalls()];
}

async function floods(): Promise<Row[]> {
  return (await eachFlood()).map(({ name, quiet, beside }) => rowOf(name, beside, quiet));
}

type Slice = "quiet" | "beside";
type Times = { name: RowName } & Record<Slice, number[]>;

/** `labelOf` labels the requests of the client that is measured. */
export async function eachFlood(
  env: Record<string, string> = {},
  labelOf: (name: RowName, slice: Slice) => string | undefined = () => undefined,
): Promise<Times[]> {
  const server = await startServer(["--ephemeral"], env);
  try {
    const { url, bootstrap_token_file } = server.ready;
    const bootstrap = readFileSync(String(bootstrap_token_file), "utf8").trim();
    const worldOf = (slug: string): Promise<World> => makeWorld((...call) => send(url, ...call), bootstrap, slug);
    const [victim, attacker] = [await worldOf("victim"), await worldOf("attacker")];
    const timesOf = (request: Request): Promise<number[]> =>
      sendBursts({ url, ...ONE, requests: [request], warmMs: WARM_MS, forMs: SLICE_MS });
    const seen = CASES.map(({ name }): Times => ({ name, quiet: [], beside: [] }));
    for (let round = 0; round < ROUNDS; round++) {
      for (const [i, { name, victim: request, flood, size = FLOOD }] of CASES.entries()) {
        const measure = async (slice: Slice): Promise<void> => {
          seen[i]?.[slice].push(...(await timesOf({ ...request(victim), label: labelOf(name, slice) })));
        };
        await measure("quiet");
        const requests = [flood(attacker)].flat();
        const flooding = sendBursts({ url, ...size, requests, warmMs: LEAD_MS, forMs: WARM_MS + SLICE_MS });
        await sleep(LEAD_MS);
        await measure("beside");
        await flooding;
      }
    }
    return seen;
  } finally {
    await server.end("SIGTERM");
  }
}

function rowOf(name: RowName, beside: number[], quiet: number[]): Row {
  console.error(`${name}: medians ${median(beside).toFixed(2)} ms beside, ${median(quiet).toFixed(2)} ms quiet`);
  const [ours, peer] = [p99(beside), p99(quiet)];
  return { name, ours, peer, ratio: ours / peer, target: "<= 3", unit: "ms" };
}
