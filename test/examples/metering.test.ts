// The scripts of docs/metering.md, on a real export against receivers on loopback.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { foldJournal } from "../../src/domain/series/fold.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { testClock } from "../../harness/instances/test-services.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { telemetryBatch, telemetryEvent } from "../../harness/telemetry.ts";
import { DAY_MS } from "../../src/kernel/durations.ts";

const DOC = readFileSync(join(import.meta.dirname, "../../docs/metering.md"), "utf8");
const NOON = Date.UTC(2026, 9, 20, 12);

const script = (name: string): string => new RegExp(`\`\`\`js\n(// ${name}\n[^]*?)\`\`\``).exec(DOC)?.[1] ?? "";

type Taken = { url: string | undefined; headers: IncomingHttpHeaders; body: string };

async function receiver(): Promise<{ url: string; taken: Taken[] } & AsyncDisposable> {
  const taken: Taken[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString("utf8")));
    request.on("end", () => {
      taken.push({ url: request.url, headers: request.headers, body });
      response.end("{}");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    taken,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function run(file: string, cwd: string, env: Record<string, string>, input: string): Promise<number> {
  const child = spawn(process.execPath, [file], { cwd, env, stdio: ["pipe", "ignore", "inherit"] });
  child.stdin.end(input);
  const [code] = (await once(child, "exit")) as [number];
  return code;
}

/** Lines of two tenants, final and not. */
async function exportLines(): Promise<{ text: string; ids: string[] }> {
  await using r = await testInstance("sqlite", { clock: testClock(NOON) });
  const w = await r.workspace();
  const other = await w.call("sk_owner", "POST /v1/tenants", { external_id: "unknown" });
  const send = async (request_id: string, tenant_id: string, cost: number): Promise<void> => {
    const ts = new Date(r.clock.now()).toISOString();
    const event = telemetryEvent({ ts, request_id, project_id: w.project_id, tenant_id, cost });
    await w.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch([event]));
  };
  await send("a", w.tenant_id, 42);
  await send("b", other.body.id as string, 2);
  r.clock.advance(9 * DAY_MS);
  await send("c", w.tenant_id, 5);
  await foldJournal(r.app.services);
  const range = "from=2026-10-20T00:00Z&to=2026-10-30T00:00Z";
  const { text } = await w.call("sk_owner", `GET /v1/usage/export?${range}`);
  const rows = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { id: string; external_id: string });
  return { text, ids: ["customer", "unknown"].map((name) => rows.find((row) => row.external_id === name)?.id ?? "") };
}

describe("docs/metering.md", () => {
  it("imports final lines into Lago and Stripe, under the ids of the export", async () => {
    const { text, ids } = await exportLines();
    await using lago = await receiver();
    await using stripe = await receiver();
    using folder = tempDir();
    for (const name of ["lago.mjs", "stripe.mjs"]) writeFileSync(join(folder.dir, name), script(name));
    writeFileSync(join(folder.dir, "customers.json"), JSON.stringify({ customer: "cus_1" }));
    const lagoEnv = { LAGO_URL: lago.url, LAGO_API_KEY: "lago-key" };
    const stripeEnv = { STRIPE_URL: stripe.url, STRIPE_API_KEY: "stripe-key" };
    const codes = await Promise.all([
      run("lago.mjs", folder.dir, lagoEnv, text),
      run("stripe.mjs", folder.dir, stripeEnv, text),
    ]);
    expect(codes).toEqual([0, 0]);
    expect(lago.taken).toHaveLength(1);
    expect(lago.taken[0]).toMatchObject({ url: "/api/v1/events/batch", headers: { authorization: "Bearer lago-key" } });
    const { events } = JSON.parse(lago.taken[0]?.body ?? "") as { events: { external_subscription_id: string }[] };
    const timestamp = Date.UTC(2026, 9, 20) / 1000;
    expect(events.toSorted((a, b) => (a.external_subscription_id < b.external_subscription_id ? -1 : 1))).toEqual([
      {
        transaction_id: ids[0],
        external_subscription_id: "customer",
        code: "api_units",
        timestamp,
        properties: { units: 42 },
      },
      {
        transaction_id: ids[1],
        external_subscription_id: "unknown",
        code: "api_units",
        timestamp,
        properties: { units: 2 },
      },
    ]);
    expect(stripe.taken.map(({ url }) => url)).toEqual(["/v1/billing/meter_events"]);
    expect(Object.fromEntries(new URLSearchParams(stripe.taken[0]?.body))).toEqual({
      event_name: "api_units",
      identifier: ids[0],
      timestamp: String(timestamp),
      "payload[stripe_customer_id]": "cus_1",
      "payload[value]": "42",
    });
  });
});
