// What a flood costs a neighbour: times of a client that sends one request at a time, beside another owner that pipelines
// on many connections, compared with the same client alone. Quiet and busy slices alternate on one server.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { send } from "../harness/instances/local-instance.ts";
import { makeWorld, type World } from "../harness/instances/world.ts";
import { startServer } from "../harness/processes/server.ts";
import { sendBursts, type Burst } from "./pipelined.ts";
import { median, type Row } from "./report.ts";
import type { RowName } from "./rows.ts";
import { bodyOf } from "./ratelimit.ts";

const ROUNDS = 5;
const WARM_MS = 300;
const SLICE_MS = 1_500;
/** By then every connection of the flood has sent. */
const LEAD_MS = 700;
const FLOOD = { connections: 32, pipelined: 50 };
const ONE = { connections: 1, pipelined: 1 };

type Request = Pick<Burst, "path" | "key" | "body">;

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

type Case = { name: RowName; victim: (world: World) => Request; flood: (world: World) => Request };

const CASES: readonly Case[] = [
  { name: "neighbours/check", victim: check, flood: check },
  { name: "neighbours/check-beside-claims", victim: check, flood: claim },
  { name: "neighbours/claim", victim: claim, flood: claim },
  { name: "neighbours/mint", victim: mint, flood: claim },
  { name: "neighbours/mint-beside-anonymous", victim: mint, flood: anonymous },
];

function p99(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN;
}

export async function neighbours(): Promise<Row[]> {
  const server = await startServer(["--ephemeral"]);
  try {
    const { url, bootstrap_token_file } = server.ready;
    const bootstrap = readFileSync(String(bootstrap_token_file), "utf8").trim();
    const worldOf = (slug: string): Promise<World> => makeWorld((...call) => send(url, ...call), bootstrap, slug);
    const [victim, attacker] = [await worldOf("victim"), await worldOf("attacker")];
    const timesOf = (request: Request): Promise<number[]> =>
      sendBursts({ url, ...ONE, ...request, warmMs: WARM_MS, forMs: SLICE_MS });
    const seen = CASES.map(() => ({ quiet: [] as number[], beside: [] as number[] }));
    for (let round = 0; round < ROUNDS; round++) {
      for (const [i, { victim: request, flood }] of CASES.entries()) {
        seen[i]?.quiet.push(...(await timesOf(request(victim))));
        const flooding = sendBursts({ url, ...FLOOD, ...flood(attacker), warmMs: LEAD_MS, forMs: WARM_MS + SLICE_MS });
        await sleep(LEAD_MS);
        seen[i]?.beside.push(...(await timesOf(request(victim))));
        await flooding;
      }
    }
    return CASES.map(({ name }, i) => rowOf(name, seen[i]?.beside ?? [], seen[i]?.quiet ?? []));
  } finally {
    await server.end("SIGTERM");
  }
}

function rowOf(name: RowName, beside: number[], quiet: number[]): Row {
  console.error(`${name}: medians ${median(beside).toFixed(2)} ms beside, ${median(quiet).toFixed(2)} ms quiet`);
  const [ours, peer] = [p99(beside), p99(quiet)];
  return { name, ours, peer, ratio: ours / peer, target: "<= 3", unit: "ms" };
}
