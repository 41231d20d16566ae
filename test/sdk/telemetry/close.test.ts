// Events that are left when the library closes: sent within three seconds, and again where that fails.

import { describe, expect, it } from "vitest";
import { FakeControlPlane } from "../../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../../harness/sdk/ports.ts";
import { until } from "../../../harness/waiting.ts";
import { Client } from "../../../src/sdk/client.ts";
import { readOptions } from "../../../src/sdk/options.ts";
import { Reporter } from "../../../src/sdk/telemetry/report.ts";

const EVENTS = 900;

async function setup() {
  const plane = await FakeControlPlane.start();
  const ports = new ManualPorts();
  const settings = readOptions(plane.options);
  const lost: unknown[] = [];
  const log = (_level: string, message: string, fields: Record<string, unknown>) => {
    if (message === "events were not delivered before closing") lost.push(fields["events"]);
  };
  const reporter = new Reporter({ client: new Client(settings, ports), settings, ports, log });
  const request = { method: "GET", path: "/", route: null, status: 200, durationMs: 1, degraded: false };
  for (let i = 0; i < EVENTS; i++) reporter.record({ ...request, denial: null, subject: null });
  /** The next attempt is scheduled, and close() waits for it. */
  const waits = (ms: number) => until(() => ports.waiting.filter((each) => each === ms).length === 2);
  return { plane, ports, reporter, lost, waits, [Symbol.asyncDispose]: () => plane[Symbol.asyncDispose]() };
}

describe("close()", () => {
  it.each([
    ["drops the connection", "drop" as const, 750],
    ["responds 503 and asks for a second", { status: 503, text: "{}", headers: { "retry-after": "1" } }, 1000],
  ])("delivers every event where the first attempt fails: the server %s", async (_, fault, waitMs) => {
    await using s = await setup();
    s.plane.injectFault = () => (s.plane.seen.length === 1 ? fault : undefined);
    const closed = s.reporter.close();
    await s.waits(waitMs);
    s.ports.advance(waitMs);
    await closed;
    expect([s.plane.ingest.events.length, s.lost]).toEqual([EVENTS, []]);
    expect(s.plane.seen[0]?.body).toBe(s.plane.seen[1]?.body);
    expect(s.ports.waiting).toEqual([]);
  });

  it("gives up where the next attempt would be after its three seconds", async () => {
    await using s = await setup();
    s.plane.injectFault = () => "drop";
    const closed = s.reporter.close();
    for (const waitMs of [750, 1500]) {
      await s.waits(waitMs);
      s.ports.advance(waitMs);
    }
    await closed;
    expect([s.plane.seen.length, s.lost]).toEqual([3, [EVENTS]]);
  });
});
