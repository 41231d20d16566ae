// A wrong clock on the machine that verifies: it is logged, and what only looks like one is not.

import { describe, expect, it } from "vitest";
import { FakeControlPlane } from "../../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../../harness/sdk/ports.ts";
import { startTestKeyrack } from "../../../harness/sdk/test-keyrack.ts";
import { HOUR_MS, MINUTE_MS } from "../../../src/kernel/durations.ts";
import type { Reply } from "../../../src/sdk/client.ts";
import { ClockCheck } from "../../../src/sdk/feed/clock-check.ts";

function setup() {
  const ports = new ManualPorts();
  const lines: unknown[] = [];
  const check = new ClockCheck(ports, (level, message, fields) => lines.push([level, message, fields]));
  /** A call of `waitMs` to a server whose clock is `differenceMs` ahead of this one's. */
  const call = async (differenceMs: number, waitMs = 0) => {
    const { promise, resolve } = Promise.withResolvers<Reply>();
    const checked = check.check(promise);
    ports.advance(waitMs);
    resolve({ status: 304, etag: null, json: null, date: ports.now() + differenceMs });
    await checked;
  };
  return { ports, lines, call };
}

describe("the clock of the machine", () => {
  it.each([
    [HOUR_MS, "this machine's clock is behind the server's: keys expire too late", 3600],
    [-HOUR_MS, "this machine's clock is ahead of the server's: keys expire too early", 3600],
    [MINUTE_MS + 1000, "this machine's clock is behind the server's: keys expire too late", 61],
  ])("is warned of where the server's is %i ms ahead, once an hour", async (differenceMs, message, seconds) => {
    const { ports, lines, call } = setup();
    for (let i = 0; i < 60; i++, ports.advance(MINUTE_MS)) await call(differenceMs);
    expect(lines).toEqual([["warn", message, { seconds }]]);
    await call(differenceMs);
    expect(lines).toHaveLength(2);
  });

  it("is right within a minute, and where the response waited, was delayed or has no date", async () => {
    const { lines, call } = setup();
    for (const differenceMs of [0, MINUTE_MS, -MINUTE_MS]) await call(differenceMs);
    await call(0, 25_000);
    await call(-HOUR_MS, HOUR_MS); // read an hour after it was sent
    await call(Number.NaN);
    expect(lines).toEqual([]);
  });

  it.each([
    ["of the server", {}, 1],
    ["of a cache", { age: "7200" }, 0],
  ])("is compared with the date of a response of the feed: %s", async (_, headers, warnings) => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const date = new Date(ports.wall - 2 * HOUR_MS).toUTCString();
    const head = { object: "policy_snapshot", workspace_id: plane.workspaceId, project_id: plane.projectId };
    const json = { ...head, env: null, version: 1, project_deleted: false, keys: [], next_cursor: null };
    const response = { status: 200, json, headers: { date, ...headers } };
    plane.injectFault = ({ path }) => (path === "/v1/policy/snapshot" ? response : undefined);
    await using instance = await startTestKeyrack({ plane, ports });
    const warned = instance.lines.filter(({ message }) => message.includes("clock is ahead"));
    expect(warned).toHaveLength(warnings);
  });
});
