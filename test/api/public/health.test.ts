// Probes: liveness touches nothing, readiness fails without a database connection.
import { describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { openRaw } from "../../../harness/databases/raw-sql.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";

const redis = { configured: false, ready: false, error: null };

for (const backend of runBackends) {
  describe(`probes on ${backend}`, () => {
    it("return the contract's fields, whatever the query", async () => {
      await using instance = await testInstance(backend, { flags: { region: "eu-1" } });
      expect((await instance.call(null, "GET /healthz?x=1&x=2")).body).toEqual({ status: "ok", region: "eu-1", redis });
      const ready = await instance.call(null, "GET /readyz");
      expect(ready.body).toEqual({ status: "ok", region: "eu-1", database: "ok", redis });
    });

    it("are degraded while the disk is almost full", async () => {
      await using instance = await testInstance(backend);
      const low = vi.spyOn(instance.app.services.writtenBytes, "isDiskLow", "get").mockReturnValue(true);
      const ready = await instance.call(null, "GET /readyz");
      expect([ready.status, ready.body.status, ready.body.database]).toEqual([200, "degraded", "ok"]);
      const { body } = await instance.call(null, "GET /status");
      expect(body).toMatchObject({ status: "degraded", components: { database: "degraded", worker: "ok" } });
      low.mockRestore();
      expect((await instance.call(null, "GET /readyz")).body.status).toBe("ok");
    });
  });
}

it.runIf(runBackends.includes("postgres"))(
  "responds 503 to /readyz within about three seconds when every connection is taken",
  async () => {
    await using instance = await testInstance("postgres", { flags: { database_pool: "1" } });
    const other = await openRaw(instance.target);
    await other.all("select pg_advisory_lock(7)");
    const { read } = instance.app.services.store;
    const noLimits = "select set_config('lock_timeout', '0', false), set_config('statement_timeout', '0', false)";
    await read.all({ sql: noLimits, values: [] });
    const held = read.all({ sql: "select pg_advisory_lock(7)", values: [] });
    const reply = await instance.call(null, "GET /readyz");
    expect(reply.status).toBe(503);
    expect(reply.headers.get("retry-after")).toBe("1");
    expect(reply.body).toEqual({ status: "unavailable", region: "local", database: "timeout", redis });
    expect((await instance.call(null, "GET /healthz")).status).toBe(200);
    await other.close(); // which releases its lock
    await held;
    expect((await instance.call(null, "GET /readyz")).status).toBe(200);
  },
);
