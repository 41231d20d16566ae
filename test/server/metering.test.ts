// kill -9 between the request of a push and its settlement.
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { meterReceiver } from "../../harness/meter-receiver.ts";
import { startLocalInstance } from "../../harness/instances/local-instance.ts";
import { testClock } from "../../harness/instances/services.ts";
import { makeWorld, must } from "../../harness/instances/world.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { startServer, type Running } from "../../harness/processes/server.ts";
import { telemetryBatch, telemetryEvent } from "../../harness/telemetry.ts";
import { foldJournal } from "../../src/domain/series/fold.ts";
import { HOUR_MS, MINUTE_MS } from "../../src/kernel/durations.ts";

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
    // The usage is reported to an instance that pushes nothing, and long enough ago to be settled: a server that starts
    // within the second would push ten seconds later.
    const target = { kind: "sqlite", file: join(folder.dir, "keyrack.db") } as const;
    const clock = testClock(Date.now() - MINUTE_MS);
    const { app, call } = await startLocalInstance({ target, dir: folder.dir, clock });
    const { key, project_id, tenant_id } = await makeWorld(call, String(app.bootstrap.token), "metering");
    const ts = new Date(Date.now() - 3 * HOUR_MS).toISOString();
    const events = [1, 2, 3].map((n) => telemetryEvent({ ts, request_id: `r${n}`, project_id, tenant_id, cost: n }));
    await must(call(key, "POST /v1/ingest/batch", telemetryBatch(events)));
    await foldJournal(app.services);
    await app.stop();
    let asked = Promise.withResolvers<void>();
    receiver.answer = () => () => asked.resolve(); // taken, and never answered
    let server = await start();
    try {
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
