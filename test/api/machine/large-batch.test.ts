// A batch that is parsed in pieces is answered as a small one is.
import { hash } from "node:crypto";
import { beforeAll, expect, it, vi } from "vitest";
import { expectRefusal, sharedInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";
import type { RawBody } from "../../../src/domain/ingest/raw-body.ts";
import { BodyRoom } from "../../../src/http/body/body-room.ts";

const instance = sharedInstance("sqlite", { flags: { ingest_events_per_minute: "3000" } });
let workspace: Workspace;
beforeAll(async () => {
  workspace = await instance.workspace();
});

const send = (events: unknown[]) => workspace.call("sk_owner", "POST /v1/ingest/batch", telemetryBatch(events));
const manyEvents = (tag: string) =>
  Array.from({ length: 1_000 }, (_, i) =>
    telemetryEvent({
      ts: new Date(instance.clock.now()).toISOString(),
      project_id: workspace.project_id,
      request_id: `é${tag}${i}`,
    }),
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

it("a repeated batch of more than 1 MiB, which is hashed on another thread, is counted once", async () => {
  const other = await instance.workspace();
  const path = `/${"x".repeat(1_100)}`;
  const batch = telemetryBatch(manyEvents("e").map((event) => ({ ...event, project_id: other.project_id, path })));
  for (let time = 0; time < 2; time++) {
    const { status, body } = await other.call("sk_owner", "POST /v1/ingest/batch", batch);
    expect([status, body.accepted]).toEqual([202, 1_000]);
  }
  const stored = await instance.sql(`select body_hash from ingest_batches where workspace_id = '${other.id}'`);
  expect(stored).toEqual([{ body_hash: hash("sha256", JSON.stringify(batch)) }]);
  expect(await instance.sql(`select count(*) as n from usage_journal where workspace_id = '${other.id}'`)).toEqual([
    { n: 1 },
  ]);
});

it("a large batch has no effect where its key ends while it is parsed", async () => {
  const other = await instance.workspace();
  const rawBody = Reflect.get(BodyRoom.prototype, "rawBody") as (...given: unknown[]) => RawBody;
  const reading = vi.spyOn(BodyRoom.prototype, "rawBody").mockImplementation(function (this: BodyRoom, bytes, cuts) {
    const { pieces = expect.fail() } = Reflect.apply(rawBody, this, [bytes, cuts]);
    const { runPiece } = pieces;
    const revoked = async <T>(work: (ms: number) => T): Promise<T> => {
      await other.call("sk_owner", `POST /v1/secret_keys/${other.keyIds.sk_admin}/revoke`, {});
      return runPiece(work);
    };
    return { bytes, pieces: { ...pieces, runPiece: revoked } };
  });
  const events = manyEvents("d").map((event) => ({ ...event, project_id: other.project_id }));
  const reply = await other.call("sk_admin", "POST /v1/ingest/batch", telemetryBatch(events));
  reading.mockRestore();
  expectRefusal(reply, 401, "invalid_key");
  expect(await instance.sql(`select * from usage_journal where workspace_id = '${other.id}'`)).toEqual([]);
});
