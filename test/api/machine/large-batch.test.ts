// A batch that is parsed in pieces is answered as a small one is.
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  expectRefusal,
  testInstance,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";

let r: TestInstance;
let w: Workspace;
beforeAll(async () => {
  r = await testInstance("sqlite", { flags: { ingest_events_per_minute: "3000" } });
  w = await r.workspace();
});
afterAll(() => r[Symbol.asyncDispose]());

const send = (events: unknown[]) => w.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch(events));
const manyEvents = (tag: string) =>
  Array.from({ length: 1_000 }, (_, i) =>
    telemetryEvent({ ts: new Date(r.clock.now()).toISOString(), project_id: w.project_id, request_id: `é${tag}${i}` }),
  );

it("a large batch is accepted as a whole, and charged for its events", async () => {
  const reply = await send(manyEvents("a"));
  expect([reply.status, reply.body.accepted]).toEqual([202, 1_000]);
  expect(reply.headers.get("ratelimit")).toMatch(/r=2000;/);
});

it("a problem in a large batch is named by its path", async () => {
  const [first = {}] = manyEvents("first");
  const withStatus = manyEvents("b").with(777, { ...first, status: 5 });
  expectRefusal(await send(withStatus), 400, "invalid_request", "events[777].status");
  const withUnclean = manyEvents("c").with(777, { novel: "\ud800" });
  expectRefusal(await send(withUnclean), 400, "invalid_request", "events[777].novel");
});
