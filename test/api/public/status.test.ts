// /status: one state per component and the worst overall, always 200, and cached.
import { describe, expect, it, vi } from "vitest";
import type { BackupState } from "../../../src/domain/health/state.ts";
import { VERSION } from "../../../src/platform/version.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedInstance, testInstance } from "../../../harness/instances/test-instance.ts";
import { until } from "../../../harness/waiting.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

/** The default schedule; nothing is due before a minute has passed. */
const SCHEDULED = { flags: { backup_every: "24h", restore_test_every: "7d" } } as const;
const FINE = { api: "ok", database: "ok", redis: "disabled", worker: "ok", backup: "unknown" };
const NEVER = { lastRunAt: null, pass: null, backupId: null };

for (const backend of runBackends) {
  describe(`/status on ${backend}`, () => {
    const instance = sharedInstance(backend, SCHEDULED);
    const ask = async () => {
      instance.clock.advance(5_000);
      const reply = await instance.call(null, "GET /status?whatever=1");
      expect(reply.status).toBe(200);
      return reply.body;
    };

    it("is ok from the start, and reports no backups where none are scheduled", async () => {
      expect(await ask()).toEqual({ status: "ok", components: FINE, restoreTest: NEVER, versions: [VERSION] });
    });

    it("reads the database at most once in five seconds", async () => {
      const ping = vi.spyOn(instance.app.services.store, "ping");
      await ask();
      await Promise.all(Array.from({ length: 20 }, () => instance.call(null, "GET /status")));
      expect(ping).toHaveBeenCalledTimes(1);
      instance.clock.advance(5_000);
      await Promise.all(Array.from({ length: 20 }, () => instance.call(null, "GET /status")));
      expect(ping).toHaveBeenCalledTimes(2);
      ping.mockRestore();
    });

    it("reports down without a database, with 200", async () => {
      const ping = vi.spyOn(instance.app.services.store, "ping").mockRejectedValue(new Error("gone"));
      const { status, components } = await ask();
      expect([status, components]).toEqual(["down", { ...FINE, database: "down", worker: "unknown" }]);
      ping.mockRestore();
      expect((await ask()).status).toBe("ok");
    });

    it("reports degraded while a job fails or a message is undeliverable", async () => {
      const { failing } = instance.app.services.worker;
      failing.add("delta log");
      expect(await ask()).toMatchObject({ status: "degraded", components: { worker: "degraded" } });
      failing.clear();
      expect((await ask()).status).toBe("ok");
      const columns = "(id, kind, recipient, message_id, state, attempts, created_at, next_at, give_up_at, settled_at)";
      const now = instance.clock.now();
      await instance.sql(
        `insert into outbox ${columns} values ('m', 'x', 'a@b.c', '<m>', 'dead', 1, ${now}, ${now}, ${now}, ${now})`,
      );
      expect(await ask()).toMatchObject({ status: "degraded", components: { worker: "degraded" } });
      await instance.sql("delete from outbox where id = 'm'");
    });

    it("reports degraded once no process is known to have led for a while, until one does", async () => {
      const { store, worker } = instance.app.services;
      const asked = vi.spyOn(store, "tryBecomeLeader").mockRejectedValue(new Error("not connected"));
      await until(() => asked.mock.calls.length > 0);
      worker.leaderSeenAt = performance.now() - 15_001;
      expect(await ask()).toMatchObject({ status: "degraded", components: { worker: "degraded" } });
      asked.mockRestore();
      await until(async () => (await ask()).status === "ok");
    });

    for (const [why, health, state] of [
      ["never made", "unknown", { lastSuccessAt: null }],
      ["fresh and never tested", "ok", { lastSuccessAt: -DAY_MS }],
      ["fresh and tested", "ok", { lastSuccessAt: -DAY_MS, lastRunAt: -7 * DAY_MS, pass: true }],
      ["two days old", "ok", { lastSuccessAt: -2 * DAY_MS }],
      ["from the future", "degraded", { lastSuccessAt: DAY_MS }],
      ["older than two days", "degraded", { lastSuccessAt: -2 * DAY_MS - 1 }],
      ["fresh, but its test failed", "degraded", { lastSuccessAt: -DAY_MS, lastRunAt: -DAY_MS, pass: false }],
      ["fresh, but tested long ago", "degraded", { lastSuccessAt: -DAY_MS, lastRunAt: -8 * DAY_MS - 1, pass: true }],
    ] as const) {
      it(`reports ${health} for a backup that is ${why}`, async () => {
        const at = (ms: number | null | undefined) =>
          ms === null || ms === undefined ? null : instance.clock.now() + ms;
        const { lastSuccessAt, lastRunAt, pass } = { lastRunAt: null, pass: null, ...state };
        instance.app.services.backups = async (): Promise<BackupState> => ({
          lastSuccessAt: at(lastSuccessAt),
          restoreTest: { lastRunAt: at(lastRunAt), pass, backupId: lastRunAt === null ? null : "b" },
        });
        const body = await ask();
        expect([body.components.backup, body.status]).toEqual([health, health === "degraded" ? "degraded" : "ok"]);
        const when = lastRunAt === null ? null : new Date(instance.clock.now() + lastRunAt).toISOString();
        expect(body.restoreTest).toEqual({ lastRunAt: when, pass, backupId: when && "b" });
        delete instance.app.services.backups;
      });
    }
  });
}

describe("/status", () => {
  for (const [on, health] of [
    ["local", "degraded"],
    ["error", "down"],
  ] as const) {
    it(`reports ${health} while Redis is down where its failure means ${on}`, async () => {
      const flags = { redis_url: "redis://127.0.0.1:1", ratelimit_on_redis_failure: on, backup_every: "off" };
      await using instance = await testInstance("sqlite", { flags });
      const { status, components } = (await instance.call(null, "GET /status")).body;
      expect([status, components]).toEqual([health, { ...FINE, redis: health, backup: "disabled" }]);
    });
  }
});
