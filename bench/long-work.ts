// Long work of another owner: writes while a project with very many keys is deleted, and the verification of a long
// chain.
import { setTimeout as sleep } from "node:timers/promises";
import { send } from "../harness/processes/send.ts";
import { must } from "../harness/instances/world.ts";
import { vendorOf } from "../harness/instances/services.ts";
import { createSecretKey } from "../src/domain/keys/secret-keys.ts";
import { withLarge, type Large } from "./large.ts";
import { KEYS } from "./million.ts";
import { sendBursts } from "./pipelined.ts";
import { median, p99, type Row } from "./report.ts";

const DELETED = { keys: 100_000, tenants: 1_000 };
const FEW_ROWS = { keys: 10_000, tenants: 10 };
const WARM_MS = 500;
const QUIET_MS = 3_000;
const LEAD_MS = 1_000;
const BESIDE_MS = 8_000;
const CALLS = 15;
const POLL_MS = 500;

/** Claims of another workspace: the longest one beside the deletion, compared with the p99 before it. */
export function besideDeletion(): Promise<Row> {
  return withLarge("sqlite", DELETED, async ({ app, bearer, project_id }) => {
    const { key } = await createSecretKey(await vendorOf(app.services, "live", "neighbour"), { env: "live" });
    const body = `{"env":"live","scope_hash":"{n}","fingerprint":"${"a".repeat(64)}"}`;
    const one = {
      url: app.url,
      requests: [{ path: "/v1/idempotency/claim", key, body }],
      connections: 1,
      pipelined: 1,
    };
    const peer = p99(await sendBursts({ ...one, warmMs: WARM_MS, forMs: QUIET_MS }));
    const writing = sendBursts({ ...one, warmMs: WARM_MS, forMs: BESIDE_MS });
    await sleep(LEAD_MS);
    await must(send(app.url, bearer, `DELETE /v1/projects/${project_id}`));
    const ours = Math.max(...(await writing));
    return { name: "neighbours/write-beside-deletion", ours, peer, ratio: ours / peer, target: "<= 3", unit: "ms" };
  });
}

/** Milliseconds of a call, once the whole chain has been verified. */
async function chainMs({ app, bearer }: Large): Promise<number> {
  const call = (query = "") => send(app.url, bearer, `GET /v1/audit_logs/chain${query}`);
  await call("?full=true");
  for (;;) {
    const { status, body } = await call();
    if (status === 200 && (body.full === undefined || (body.full.at !== null && !body.full.running))) break;
    await sleep(POLL_MS);
  }
  const times: number[] = [];
  for (let i = 0; i < CALLS; i++) {
    const start = performance.now();
    const { verified } = await must(call());
    if (!verified) throw new Error("the chain is broken");
    times.push(performance.now() - start);
  }
  return median(times);
}

export async function chainCalls(): Promise<Row> {
  const peer = await withLarge("sqlite", FEW_ROWS, chainMs);
  const ours = await withLarge("sqlite", { keys: KEYS, tenants: FEW_ROWS.tenants }, chainMs);
  return { name: "neighbours/chain", ours, peer, ratio: ours / peer, target: "<= 5", unit: "ms" };
}
