// A batch of which the control plane rejects some events: only those are lost, and the resends are bounded.

import { randomUUID } from "node:crypto";
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedInstance } from "../../../harness/instances/test-instance.ts";
import { startTestKeyrack, type LogLine, type TestKeyrack } from "../../../harness/sdk/test-keyrack.ts";
import { patientPorts } from "../../../harness/sdk/ports.ts";
import type { Context } from "../../../src/sdk/context.ts";
import type { Keyrack, KeyrackOptions } from "../../../src/sdk/index.ts";
import { createKeyrackWith } from "../../../src/sdk/keyrack.ts";
import { withoutRejected } from "../../../src/sdk/telemetry/rejected-events.ts";
import { until } from "../../../harness/waiting.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

const request = { method: "GET", path: "/", route: "/", status: 200, durationMs: 1 };

/** Sent without waiting for the next interval. */
const FULL_BATCH = 1_000;

function contextOf(keyrack: Keyrack, key: string): Context {
  const verdict = keyrack.verify(key);
  if (!verdict.ok) throw new Error(verdict.code);
  return verdict.context;
}

for (const backend of runBackends) {
  describe(`events of keys that a real server with ${backend} does not know`, () => {
    const instance = sharedInstance(backend);

    it("are lost alone: all others of the batch count", async () => {
      const workspace = await instance.workspace();
      const { id, key } = await workspace.mint();
      const lines: LogLine[] = [];
      const options: KeyrackOptions = {
        url: instance.url,
        secretKey: workspace.keys.sk_owner,
        projectId: workspace.project_id,
        log: (level, message, fields) => void lines.push({ level, message, fields }),
      };
      const { clock } = instance; // it does not move: events after midnight would be of a day that it has not reached
      const keyrack = createKeyrackWith(options, { ...patientPorts(), now: () => clock.now() }) as Keyrack;
      await keyrack.ready();
      const context = contextOf(keyrack, key);
      // More keys than one response names, among them one that is busy.
      const keyIds = [...Array.from({ length: 45 }, () => randomUUID()), ...Array<string>(100).fill(randomUUID())];
      const known = FULL_BATCH - keyIds.length;
      for (let i = 0; i < known; i++) {
        keyrack.report({ ...request, context });
        const keyId = keyIds[i];
        if (keyId) keyrack.report({ ...request, context: { ...context, keyId } });
      }
      const usage = async () => (await workspace.call("sk_owner", `GET /v1/keys/${id}/usage?days=1`)).body.data[0];
      await until(async () => (await usage())?.requests > 0);
      await keyrack.close();
      expect(await usage()).toMatchObject({ requests: known, errors: 0 });
      const rejected = lines.filter(({ message }) => message === "events were rejected");
      expect(rejected.map(({ fields }) => fields)).toEqual([{ status: 400, events: keyIds.length }]);
      expect(lines.filter(({ message }) => message.includes("did not count"))).toEqual([]);
    });

    it("events of a machine whose clock is a week behind are not counted, and one warning says so", async () => {
      const workspace = await instance.workspace();
      const { id, key } = await workspace.mint();
      const lines: LogLine[] = [];
      const options: KeyrackOptions = {
        url: instance.url,
        secretKey: workspace.keys.sk_owner,
        projectId: workspace.project_id,
        log: (level, message, fields) => void lines.push({ level, message, fields }),
      };
      const { clock } = instance;
      const keyrack = createKeyrackWith(options, { ...patientPorts(), now: () => clock.now() - 8 * DAY_MS }) as Keyrack;
      await keyrack.ready();
      const context = contextOf(keyrack, key);
      const uncounted = () => lines.filter(({ message }) => message.includes("did not count events"));
      for (let i = 0; i < 3; i++) keyrack.report({ ...request, context });
      await until(() => uncounted().length === 1);
      keyrack.report({ ...request, context });
      await keyrack.close();
      expect(uncounted()).toEqual([{ level: "warn", message: expect.any(String), fields: { sent: 3, accepted: 0 } }]);
      const { body } = await workspace.call("sk_owner", `GET /v1/keys/${id}/usage?days=30`);
      expect(body.data.reduce((sum: number, day: { requests: number }) => sum + day.requests, 0)).toBe(0);
    });
  });
}

describe("a control plane that names events", () => {
  /** Reports events of one key; `problems` of a batch, if any, reject it. */
  const send = async (instance: TestKeyrack, problems: (batch: number) => string[] | undefined, events = 3) => {
    const { key } = instance.plane.mint();
    await until(() => instance.keyrack.verify(key).ok);
    const context = contextOf(instance.keyrack, key);
    let batches = 0;
    instance.plane.injectFault = ({ path }) => {
      const paths = path === "/v1/ingest/batch" ? problems(batches++) : undefined;
      return (
        paths && { status: 400, json: { error: { details: paths.map((path) => ({ path, message: "is wrong" })) } } }
      );
    };
    for (let i = 0; i < events; i++) instance.keyrack.report({ ...request, path: `/${i}`, context });
    if (events === FULL_BATCH) await until(() => batches === 61); // longer than `close` waits
    await instance.keyrack.close();
    return batches;
  };

  it("for a field other than an id loses no other event of their key, and learns how many were lost", async () => {
    await using instance = await startTestKeyrack();
    expect(await send(instance, (batch) => (batch === 0 ? ["events[1].status", "events[1].ts"] : undefined))).toBe(2);
    expect([instance.plane.ingest.events.map(({ path }) => path), instance.plane.ingest.dropped]).toEqual([
      ["/0", "/2"],
      1,
    ]);
  });

  it("one at a time, without end, gets a bounded number of requests, and the remaining events are counted", async () => {
    await using instance = await startTestKeyrack();
    const batches = await send(instance, () => ["events[0].status"], FULL_BATCH);
    expect(batches).toBe(61);
    const dropped = instance.lines.filter(({ message }) => message === "events were rejected");
    expect(dropped.map(({ fields }) => fields)).toEqual([{ status: 400, events: FULL_BATCH }]);
  });

  it.each([[["events"]], [["sample_rate"]], [["events[9].status"]], [["events[x].status", "undefined", ""]], [[]]])(
    "as %j names none of them: the batch is lost, and not sent again",
    (problems) => {
      expect(withoutRejected(["{}", "{}"], problems)).toEqual([]);
    },
  );
});
