// The parts of a request: CPU time of the server for requests that each do a little more than the one before.
import { bodyOf } from "./ratelimit.ts";
import { microsEach } from "./micros.ts";
import { interleave, startPeer, type Row } from "./report.ts";
import type { RowName } from "./rows.ts";
import { mintLoad, onKeyrack, readLoad, type World } from "./vendor.ts";
import type { LoadOptions } from "./client.ts";

const BARE = new URL("./servers/bare.ts", import.meta.url).pathname;
const ROUNDS = 3;

type Case = { status: string; request: (world: World) => LoadOptions | Promise<LoadOptions> };

const bearer = (world: World) => ({ authorization: `Bearer ${world.bearer}` });

/** The request that each row sends, and the status it expects. */
export const CASES = {
  "parts/healthz": { status: "200", request: ({ url }) => ({ url: `${url}/healthz` }) },
  "parts/refused": { status: "401", request: ({ url }) => ({ url: `${url}/v1/keys` }) },
  "parts/unchanged-poll": {
    status: "304",
    request: (world) => ({
      url: `${world.url}/v1/policy/delta?project_id=${world.project_id}&since=1&node=bench`,
      headers: bearer(world),
    }),
  },
  "parts/get-by-id": { status: "200", request: readLoad },
  "parts/check": {
    status: "200",
    request: (world) => ({
      url: `${world.url}/v1/ratelimit/check`,
      method: "POST",
      headers: { ...bearer(world), "content-type": "application/json" },
      body: bodyOf(world.project_id, world.tenant_id),
    }),
  },
  "parts/mint": { status: "201", request: mintLoad },
} satisfies Partial<Record<RowName, Case>>;

const ours =
  ({ status, request }: Case) =>
  () =>
    onKeyrack([], async (world) => microsEach(world.pid, await request(world), status));

async function bare(method: "GET" | "POST"): Promise<number> {
  const server = await startPeer(BARE);
  const { origin, hash } = new URL(server.url);
  const body = method === "POST" ? { body: bodyOf("x".repeat(36), "x".repeat(36)) } : {};
  const headers = { authorization: `Bearer ${"x".repeat(50)}`, "content-type": "application/json" };
  try {
    return await microsEach(
      Number(hash.slice(1)),
      { url: `${origin}/`, method, headers, ...body },
      method === "GET" ? "304" : "200",
    );
  } finally {
    await server.end();
  }
}

export async function parts(): Promise<Row[]> {
  const seen = await interleave(ROUNDS, {
    bareGet: () => bare("GET"),
    probe: ours(CASES["parts/healthz"]),
    refused: ours(CASES["parts/refused"]),
    delta: ours(CASES["parts/unchanged-poll"]),
    read: ours(CASES["parts/get-by-id"]),
    barePost: () => bare("POST"),
    check: ours(CASES["parts/check"]),
    mint: ours(CASES["parts/mint"]),
  });
  const row = (name: RowName, mine: number, peer: number): Row => ({
    name,
    ours: mine,
    peer,
    ratio: peer / mine,
    target: "",
    unit: "µs",
  });
  return [
    row("parts/healthz", seen.probe, seen.bareGet),
    row("parts/refused", seen.refused, seen.bareGet),
    row("parts/unchanged-poll", seen.delta, seen.bareGet),
    row("parts/get-by-id", seen.read, seen.bareGet),
    row("parts/check", seen.check, seen.barePost),
    row("parts/mint", seen.mint, seen.barePost),
  ];
}
