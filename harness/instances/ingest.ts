// Batches of telemetry for ingest tests: an instance and a workspace with one key, and a budget of 100 events a minute.
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { Backend } from "../databases/backends.ts";
import { testInstance, type Json, type Reply, type TestInstance, type Workspace } from "./test-instance.ts";
import { telemetryBatch } from "../telemetry.ts";
import { testClock } from "./test-services.ts";

const NOON = Date.UTC(2026, 10, 14, 12);
export const DAY = 86_400_000;
export const iso = (ms: number): string => new Date(ms).toISOString();

export function ingestFixture(backend: Backend) {
  let instance: TestInstance;
  let workspace: Workspace;
  let key: { id: string };
  let serial = 0;

  beforeAll(async () => {
    instance = await testInstance(backend, { clock: testClock(NOON), flags: { ingest_events_per_minute: "100" } });
  });
  afterAll(() => instance[Symbol.asyncDispose]());
  beforeEach(async () => {
    instance.clock.advance(60_000); // a fresh minute
    workspace = await instance.workspace();
    key = await workspace.mint();
  });

  const event = (more: Json = {}): Json => ({
    ts: iso(instance.clock.now()),
    project_id: workspace.project_id,
    env: "live",
    tenant_id: workspace.tenant_id,
    key_id: key.id,
    display_prefix: "kr_live_abcdef",
    method: "GET",
    path: "/v1/things/1",
    route: "/v1/things/:id",
    status: 200,
    duration_ms: 1.5,
    degraded: false,
    denial_reason: null,
    request_id: `r${++serial}`,
    ...more,
  });
  const send = (body: unknown, as: "sk_owner" | "sk_test" = "sk_owner"): Promise<Reply> =>
    workspace.call(as, "POST /v1/ingest/batch", body);
  const left = async (): Promise<string | null> => (await send(telemetryBatch([]))).headers.get("ratelimit");
  const usage = async (id = key.id, days = 2): Promise<Json[]> =>
    (await workspace.call("sk_owner", `GET /v1/keys/${id}/usage?days=${days}`)).body.data as Json[];
  const seconds = (): number => Math.ceil((60_000 - (instance.clock.now() % 60_000)) / 1000);

  return { now: () => ({ instance, workspace, key }), event, send, left, usage, seconds, batch: telemetryBatch };
}
