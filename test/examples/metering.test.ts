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

type Reply = { status: number; text: string };

async function receiver(
  reply: (body: string) => Reply = () => ({ status: 200, text: "{}" }),
): Promise<{ url: string; taken: Taken[] } & AsyncDisposable> {
  const taken: Taken[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString("utf8")));
    request.on("end", () => {
      taken.push({ url: request.url, headers: request.headers, body });
      const { status, text } = reply(body);
      response.writeHead(status).end(text);
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

type Ended = { code: number; stderr: string };

async function run(file: string, cwd: string, env: Record<string, string>, input: string): Promise<Ended> {
  const child = spawn(process.execPath, [file], { cwd, env, stdio: ["pipe", "ignore", "pipe"] });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString("utf8")));
  child.stdin.end(input);
  const [code] = (await once(child, "close")) as [number];
  return { code, stderr };
}

/** Lines of two tenants, final and not. */
async function exportLines(): Promise<{ text: string; ids: string[] }> {
  await using instance = await testInstance("sqlite", { clock: testClock(NOON) });
  const workspace = await instance.workspace();
  const other = await workspace.call("sk_owner", "POST /v1/tenants", { external_id: "unknown" });
  const send = async (request_id: string, tenant_id: string, cost: number): Promise<void> => {
    const ts = new Date(instance.clock.now()).toISOString();
    const event = telemetryEvent({ ts, request_id, project_id: workspace.project_id, tenant_id, cost });
    await workspace.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch([event]));
  };
  await send("a", workspace.tenant_id, 42);
  await send("b", other.body.id as string, 2);
  instance.clock.advance(9 * DAY_MS);
  await send("c", workspace.tenant_id, 5);
  await foldJournal(instance.app.services);
  const range = "from=2026-10-20T00:00Z&to=2026-10-30T00:00Z";
  const { text } = await workspace.call("sk_owner", `GET /v1/usage/export?${range}`);
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
    const ended = await Promise.all([
      run("lago.mjs", folder.dir, lagoEnv, text),
      run("stripe.mjs", folder.dir, stripeEnv, text),
    ]);
    expect(ended).toEqual([
      { code: 0, stderr: "" },
      { code: 1, stderr: "Not billed, because customers.json does not name them: unknown\n" },
    ]);
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

  it("runs again after a failure: lines that Lago has are left out, the others are sent", async () => {
    const line = (id: number) =>
      JSON.stringify({
        id: `u${id}`,
        final: true,
        units: 1,
        external_id: "c",
        bucket_start: "2026-10-20T00:00:00.000Z",
      });
    const lines = Array.from({ length: 120 }, (_, i) => line(i)).join("\n");
    const stored = new Set<string>(["u3"]);
    let isDown = true;
    // As Lago: a batch with an event that it has is refused as a whole.
    await using lago = await receiver((body) => {
      const ids = (JSON.parse(body) as { events: { transaction_id: string }[] }).events.map((e) => e.transaction_id);
      if (isDown && ids.includes("u110")) return { status: 500, text: "down" };
      const known = ids.flatMap((id, i) => (stored.has(id) ? [[i, { transaction_id: ["value_already_exist"] }]] : []));
      if (known.length > 0)
        return { status: 422, text: JSON.stringify({ error_details: Object.fromEntries(known) as object }) };
      for (const id of ids) stored.add(id);
      return { status: 200, text: "{}" };
    });
    using folder = tempDir();
    writeFileSync(join(folder.dir, "lago.mjs"), script("lago.mjs"));
    const env = { LAGO_URL: lago.url, LAGO_API_KEY: "lago-key" };
    const failed = await run("lago.mjs", folder.dir, env, lines);
    expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining("Lago responded 500: down") as string });
    expect(stored.size).toBe(100);
    isDown = false;
    expect(await run("lago.mjs", folder.dir, env, lines)).toEqual({ code: 0, stderr: "" });
    expect(stored.size).toBe(120);
  });
});
