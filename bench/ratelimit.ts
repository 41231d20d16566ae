// ratelimit/check over HTTP (one rule, in-process counters, validation) compared with bare node:http that parses the
// same body and sends a response of the same size.
import { startServer } from "../harness/processes/server.ts";
import { startPeer, type Row } from "./report.ts";
import { inTurns, perSecond, type Side } from "./turns.ts";

const ECHO = new URL("./servers/echo.ts", import.meta.url).pathname;

export function bodyOf(project_id: string, tenant_id: string): string {
  const limits = [{ id: "per-minute", limit: 1e9, window_ms: 60_000, algorithm: "sliding", scope: "key" }];
  return JSON.stringify({ project_id, env: "live", key_id: project_id, tenant_id, cost: 1, limits });
}

function checksOf(url: string, bearer: string, body: string, end: Side["end"]): Side {
  const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
  const options = { url: `${url}/v1/ratelimit/check`, method: "POST", headers, body };
  return { measure: (times) => perSecond({ ...options, ...times }, "200"), end };
}

async function ours(): Promise<Side> {
  const server = await startServer(["--ephemeral", "--seed"]);
  const { url, secret_key, project_id, tenant_id } = server.ready as Record<string, string>;
  const body = bodyOf(project_id ?? "", tenant_id ?? "");
  return checksOf(url ?? "", secret_key ?? "", body, () => server.end("SIGTERM"));
}

async function peer(): Promise<Side> {
  const server = await startPeer(ECHO);
  const id = "01890a5d-ac96-774b-bcce-b302099a8057";
  return checksOf(server.url, "x".repeat(50), bodyOf(id, id), () => server.end());
}

export async function ratelimit(): Promise<Row[]> {
  const pair = await inTurns({ ours, peer });
  return [{ name: "ratelimit/check", ...pair, target: ">= 0.78", unit: "/s" }];
}
