// ratelimit/check over HTTP (one rule, in-process counters, validation on) beside bare node:http that parses the same
// body and answers one of the same size.
import { startServer } from "../prove/server.ts";
import { load } from "./client.ts";
import { interleave, startPeer, type Row } from "./report.ts";

const ECHO = new URL("./servers/echo.ts", import.meta.url).pathname;
const ROUNDS = 5;
/** A server that has just started is not what a vendor runs: both get the same time to get warm. */
const TIMES = { warmMs: 6_000, forMs: 3_000 };

export function bodyOf(project_id: string, tenant_id: string): string {
  const limits = [{ id: "per-minute", limit: 1e9, window_ms: 60_000, algorithm: "sliding", scope: "key" }];
  return JSON.stringify({ project_id, env: "live", key_id: project_id, tenant_id, cost: 1, limits });
}

async function perSecond(url: string, bearer: string, body: string): Promise<number> {
  const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
  const result = await load({ url, method: "POST", headers, body, ...TIMES });
  if (Object.keys(result.statuses).join() !== "200") throw new Error(`answers were ${JSON.stringify(result.statuses)}`);
  return result.perSecond;
}

/** A fresh process a sample: long-lived ones differ by a fifth for the same handler. */
async function ours(): Promise<number> {
  const server = await startServer(["--ephemeral", "--seed"]);
  try {
    const { url, secret_key, project_id, tenant_id } = server.ready as Record<string, string>;
    return await perSecond(`${url}/v1/ratelimit/check`, secret_key ?? "", bodyOf(project_id ?? "", tenant_id ?? ""));
  } finally {
    await server.end("SIGTERM");
  }
}

async function echo(): Promise<number> {
  const server = await startPeer(ECHO);
  const id = "01890a5d-ac96-774b-bcce-b302099a8057";
  try {
    return await perSecond(`${server.url}/v1/ratelimit/check`, "x".repeat(50), bodyOf(id, id));
  } finally {
    await server.end();
  }
}

export async function ratelimit(): Promise<Row[]> {
  const seen = await interleave(ROUNDS, { ours, echo });
  const ratio = seen.ours / seen.echo;
  return [
    {
      name: "ratelimit/check vs bare node:http",
      ours: seen.ours,
      peer: seen.echo,
      ratio,
      target: ">= 0.75",
      unit: "/s",
    },
  ];
}
