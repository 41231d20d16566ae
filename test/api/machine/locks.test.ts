// Rows that several processes write at once, outside an audit chain: their jobs name them, so that groups of two
// processes lock them in one order (store/engine/group-locks.ts).
import { expect, it, vi } from "vitest";
import { testInstance } from "../../../harness/instances/test-instance.ts";
import { telemetryBatch } from "../../../harness/telemetry.ts";

it("jobs of the machine plane name what other processes write too", async () => {
  await using instance = await testInstance("sqlite");
  const workspace = await instance.workspace();
  const { project_id } = workspace;
  const key = await workspace.mint({ quotas: [{ id: "q", amount: 10, refill: "none" }] });
  const write = vi.spyOn(instance.app.services.store, "write");
  const named = async (call: string, body?: unknown) => {
    write.mockClear();
    expect((await workspace.call("sk_owner", call, body)).status).toBeLessThan(300);
    return write.mock.calls.flatMap(([{ locks }]) => (locks ?? []).map((name) => name.split("/")[0]));
  };
  const subject = { project_id, env: "live", key_id: key.id, limits: [], quotas: true, cost: 1 };
  expect(await named("POST /v1/ratelimit/check", subject)).toContain("quota");
  const claim = { scope_hash: "a".repeat(64), fingerprint: "b".repeat(64), env: "live" };
  expect(await named("POST /v1/idempotency/claim", claim)).toEqual(["claims"]);
  const event = {
    ts: new Date(instance.clock.now()).toISOString(),
    project_id,
    env: "live",
    tenant_id: workspace.tenant_id,
  };
  const request = { method: "GET", path: "/", route: "/", status: 200, duration_ms: 1, denial_reason: null };
  const sent = {
    ...event,
    ...request,
    key_id: key.id,
    display_prefix: "kr_live_abcdef",
    degraded: false,
    request_id: "r",
  };
  expect(await named("POST /v1/ingest/batch", telemetryBatch([sent]))).toContain("ingest");
});
