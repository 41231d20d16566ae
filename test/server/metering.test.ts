// kill -9 between the request of a push and its settlement.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { send, type Call } from "../../harness/processes/send.ts";
import { meterReceiver } from "../../harness/meter-receiver.ts";
import { makeWorld, must } from "../../harness/instances/world.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { startServer, type Running } from "../../harness/processes/server.ts";
import { telemetryBatch, telemetryEvent } from "../../harness/telemetry.ts";
import { until } from "../../harness/waiting.ts";
import { HOUR_MS } from "../../src/kernel/durations.ts";

describe("a push that is killed", () => {
  it("sends the same events again after kill -9, so each unit counts once", async () => {
    using folder = tempDir();
    await using receiver = await meterReceiver();
    const env = {
      KEYRACK_METER_URL: receiver.url,
      KEYRACK_METER_SETTLE: "1s",
      KEYRACK_PUBLIC_URL: "https://keys.example.com",
    };
    const start = (): Promise<Running> => startServer(["--data-dir", folder.dir], env);
    let server = await start();
    try {
      const call: Call = (bearer, route, body, options) => send(server.ready.url, bearer, route, body, options);
      const bootstrap = readFileSync(join(folder.dir, "bootstrap.token"), "utf8").trim();
      const { key, project_id, tenant_id } = await makeWorld(call, bootstrap, "metering");
      const ts = new Date(Date.now() - 3 * HOUR_MS).toISOString();
      const events = [1, 2, 3].map((n) => telemetryEvent({ ts, request_id: `r${n}`, project_id, tenant_id, cost: n }));
      await must(call(key, "POST /v1/ingest/batch", telemetryBatch(events)));
      const sentAt = Date.now();
      await until(async () => Date.parse((await must(call(key, "GET /v1/usage/series"))).as_of) > sentAt);
      let asked = Promise.withResolvers<void>();
      receiver.answer = () => () => asked.resolve(); // taken, and never answered
      await server.end("SIGKILL");
      server = await start();
      await asked.promise;
      await server.end("SIGKILL");
      receiver.answer = () => {
        asked.resolve();
        return { status: 204 };
      };
      asked = Promise.withResolvers<void>();
      server = await start();
      await asked.promise;
      await server.end("SIGTERM");
      const bodies = receiver.requests.map(({ events: sent }) => JSON.stringify(sent));
      expect(bodies.length).toBeGreaterThan(1);
      expect(new Set(bodies).size).toBe(1);
      expect(receiver.total()).toEqual({ value: 6, requests: 3, errors: 0 });
    } finally {
      await server.end("SIGKILL");
    }
  });
});
