// Revoking idle keys: only what is certainly idle, only if nodes report, and only a few a day. And the report about
// it.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  expectRefusal,
  testInstance,
  type Json,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { expectNoScan } from "../../../harness/databases/plans.ts";
import { keyBehind, keyUses } from "../../../src/store/queries/idle-keys.ts";
import { applyKeyPolicies, runKeyPolicies } from "../../../src/domain/key-policy/job.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";

const IDLE_DAYS = 7;
const REQUEST = { method: "GET", path: "/", route: null, status: 200, duration_ms: 1, degraded: false };

for (const backend of runBackends) {
  describe(`idle keys on ${backend}`, () => {
    let instance: TestInstance;
    beforeAll(async () => {
      instance = await testInstance(backend, { flags: { key_policy_every: "off" } }); // the tests say when
    });
    afterAll(() => instance[Symbol.asyncDispose]());

    const setPolicy = (w: Workspace, key_policy: Json) =>
      w.call("sk_owner", `PATCH /v1/projects/${w.project_id}`, { key_policy });
    let requests = 0;
    /** A node reports one request with each of these keys, now. */
    const report = async (
      w: Workspace,
      keys: readonly string[],
      more: Json = { key_first_daily: true },
      of: Json = {},
    ) => {
      const events = keys.map((key_id) => ({
        ts: new Date(instance.clock.now()).toISOString(),
        project_id: w.project_id,
        env: "live",
        tenant_id: w.tenant_id,
        key_id,
        ...REQUEST,
        request_id: `r${++requests}`,
        ...of,
      }));
      const head = { object: "ingest_batch", protocol_version: 1, node_id: "n", sdk: { name: "s", version: "1" } };
      const reply = await w.call("sk_owner", "POST /v1/ingest/batch", { ...head, ...more, events });
      expect([reply.status, reply.body.accepted], reply.text).toEqual([202, keys.length]);
    };
    /** Days on which one key is used and reported. */
    const pass = async (w: Workspace, days: number, used: readonly string[], more?: Json, of?: Json) => {
      for (let day = 0; day < days; day++) {
        instance.clock.advance(DAY_MS);
        await report(w, used, more, of);
      }
    };
    const run = (): Promise<void> => applyKeyPolicies(instance.app.services);
    const show = async (w: Workspace, id: string): Promise<Json> =>
      (await w.call("sk_owner", `GET /v1/keys/${id}`)).body;
    const isRevoked = async (w: Workspace, id: string): Promise<boolean> => (await show(w, id)).revoked_at !== null;
    const reportOf = async (w: Workspace, query = "") =>
      (await w.call("sk_owner", `GET /v1/projects/${w.project_id}/key_policy/report?${query}`)).body;

    it("are revoked when nodes report and the rule is old enough, with reason, audit row and a version", async () => {
      const w = await instance.workspace();
      const [used, idle] = [await w.mint(), await w.mint({ name: "idle" })];
      await setPolicy(w, { idle_revoke_days: IDLE_DAYS });
      await pass(w, 6, [used.id]);
      expect((await reportOf(w)).idle.blocked_by).toEqual({ live: "too_recent", test: "too_recent" });
      await pass(w, 2, [used.id]);
      const shown = await reportOf(w);
      expect(shown).toMatchObject({
        object: "key_policy_report",
        active_keys: 2,
        affected_tenants: 1,
        policy: { idle_revoke_days: IDLE_DAYS },
        idle: { count: 1, blocked_by: { live: null, test: "no_telemetry" }, keys: [{ id: idle.id, name: "idle" }] },
      });
      expect(await isRevoked(w, idle.id)).toBe(false);
      await run();
      expect(await show(w, idle.id)).toMatchObject({ revoked_reason: "unused for 7 days" });
      expect(await isRevoked(w, used.id)).toBe(false);
      const { data } = (await w.call("sk_owner", "GET /v1/audit_logs?action=api_key.revoked&limit=200")).body;
      expect(data).toMatchObject([
        {
          actor_type: "system",
          target_id: idle.id,
          payload: { env: "live", reason: "unused for 7 days", policy: "idle_revoke" },
        },
      ]);
      expect(data).toHaveLength(1);
    });

    it("stay while nodes do not report, stopped reporting, or after the clock has jumped", async () => {
      const w = await instance.workspace();
      const [used, idle] = [await w.mint(), await w.mint()];
      await setPolicy(w, { idle_revoke_days: IDLE_DAYS });
      instance.clock.advance(20 * DAY_MS);
      await run();
      expect([(await reportOf(w)).idle.blocked_by.live, await isRevoked(w, idle.id)]).toEqual(["no_telemetry", false]);
      await pass(w, 3, [used.id]);
      await run();
      expect(await isRevoked(w, idle.id)).toBe(false);
      await pass(w, 2, [used.id]);
      expect((await reportOf(w)).idle.blocked_by.live).toBeNull();
      instance.clock.advance(3 * DAY_MS);
      await run();
      expect([(await reportOf(w)).idle.blocked_by.live, await isRevoked(w, used.id)]).toEqual(["no_telemetry", false]);
      instance.clock.advance(60 * DAY_MS);
      await run();
      expect([await isRevoked(w, idle.id), await isRevoked(w, used.id)]).toEqual([false, false]);
    });

    it("stay while a node samples without keeping each key's first request of a day", async () => {
      const w = await instance.workspace();
      const [used, idle] = [await w.mint(), await w.mint()];
      await setPolicy(w, { idle_revoke_days: IDLE_DAYS });
      await pass(w, 5, [used.id]);
      await pass(w, 1, [used.id], { sample_rate: 0.1 });
      await pass(w, 2, [used.id], { sample_rate: 0.1, key_first_daily: true });
      await run();
      expect([(await reportOf(w)).idle.blocked_by.live, await isRevoked(w, idle.id)]).toEqual([
        "sampled_telemetry",
        false,
      ]);
      await pass(w, 5, [used.id]);
      await run();
      expect(await isRevoked(w, idle.id)).toBe(false); // sampled seven days ago: within the window
      await pass(w, 1, [used.id]);
      await run();
      expect(await isRevoked(w, idle.id)).toBe(true);
    });

    it("stay if they are disabled, quarantined, replaced, lately enabled or of a suspended tenant", async () => {
      const w = await instance.workspace();
      const tenant = (await w.call("sk_owner", "POST /v1/tenants", { external_id: "suspended" })).body.id;
      const used = await w.mint();
      const [disabled, leaked, enabled, suspended] = [
        await w.mint(),
        await w.mint(),
        await w.mint(),
        await w.mint({ tenant_id: tenant }),
      ];
      await setPolicy(w, { idle_revoke_days: IDLE_DAYS });
      for (const { id } of [disabled, enabled]) await w.call("sk_owner", `POST /v1/keys/${id}/disable`, {});
      await w.call("sk_owner", `POST /v1/tenants/${tenant}/suspend`, {});
      await pass(w, 6, [used.id]);
      await instance.sql(`update api_keys set quarantined_at = ${instance.clock.now()} where id = '${leaked.id}'`);
      await w.call("sk_owner", `POST /v1/keys/${enabled.id}/enable`, {});
      const replaced = await w.mint();
      await instance.sql(
        `update api_keys set created_at = ${instance.clock.now() - 30 * DAY_MS} where id = '${replaced.id}'`,
      );
      await w.call("sk_owner", `POST /v1/keys/${replaced.id}/rotate`, { overlap_hours: 168 });
      await pass(w, 2, [used.id]);
      await run();
      for (const { id } of [used, disabled, leaked, enabled, suspended, replaced])
        expect(await isRevoked(w, id)).toBe(false);
      await w.call("sk_owner", `POST /v1/tenants/${tenant}/resume`, {});
      await run();
      expect(await isRevoked(w, suspended.id)).toBe(false);
      await pass(w, IDLE_DAYS + 1, [used.id]);
      await w.call("sk_owner", `PATCH /v1/tenants/${tenant}`, { meta: { changed: "lately" } });
      await run();
      expect(await isRevoked(w, suspended.id)).toBe(true);
    });

    it("stay while events are sampled one by one", async () => {
      const w = await instance.workspace();
      const [used, idle] = [await w.mint(), await w.mint()];
      await setPolicy(w, { idle_revoke_days: IDLE_DAYS });
      await pass(w, 7, [used.id]);
      await pass(w, 1, [used.id], {}, { sample_rate: 0.1 });
      await run();
      expect([(await reportOf(w)).idle.blocked_by.live, await isRevoked(w, idle.id)]).toEqual([
        "sampled_telemetry",
        false,
      ]);
    });

    it("are revoked although another project's job fails", async () => {
      const [broken, w] = [await instance.workspace(), await instance.workspace()];
      const [used, idle] = [await w.mint(), await w.mint()];
      for (const each of [broken, w]) await setPolicy(each, { idle_revoke_days: IDLE_DAYS, notice_days: [3] });
      await pass(w, IDLE_DAYS - 1, [used.id]);
      await run();
      await pass(w, 2, [used.id]);
      await instance.sql(`update projects set key_policy = '{"notice_days":1}' where id = '${broken.project_id}'`);
      await run();
      expect(await isRevoked(w, idle.id)).toBe(true);
      expect(instance.logs.some((line) => line.includes("key policy failed") && line.includes(broken.project_id))).toBe(
        true,
      );
      await instance.sql(`update projects set key_policy = null where id = '${broken.project_id}'`);
    });

    it("are revoked at most ten, or a twentieth, within a day, the longest idle first", async () => {
      const w = await instance.workspace();
      const ids: string[] = [];
      for (let i = 0; i < 13; i++) {
        ids.push((await w.mint()).id);
        instance.clock.advance(1);
      }
      const used = await w.mint();
      await setPolicy(w, { idle_revoke_days: IDLE_DAYS });
      await pass(w, IDLE_DAYS + 1, [used.id]);
      const revoked = async (): Promise<boolean[]> => Promise.all(ids.map((id) => isRevoked(w, id)));
      await run();
      await run();
      expect(await revoked()).toEqual(ids.map((_, i) => i < 10));
      await pass(w, 1, [used.id]);
      await run();
      expect(await revoked()).toEqual(ids.map(() => true));
    });

    it("are searched once an interval, however many processes lead, and not where a project changed its mind", async () => {
      const w = await instance.workspace();
      const [used, idle] = [await w.mint(), await w.mint()];
      await setPolicy(w, { idle_revoke_days: IDLE_DAYS });
      await pass(w, IDLE_DAYS + 1, [used.id]);
      await runKeyPolicies(instance.app.services);
      expect(await isRevoked(w, idle.id)).toBe(false);
      const services = {
        ...instance.app.services,
        settings: { ...instance.app.services.settings, key_policy_every: HOUR_MS },
      };
      await runKeyPolicies(services);
      expect(await isRevoked(w, idle.id)).toBe(true);
      const aged = async (): Promise<string> => {
        const { id } = await w.mint();
        await instance.sql(`update api_keys set created_at = ${instance.clock.now() - 30 * DAY_MS} where id = '${id}'`);
        return id;
      };
      const next = await aged();
      instance.clock.advance(HOUR_MS - 1);
      await runKeyPolicies(services);
      expect(await isRevoked(w, next)).toBe(false);
      instance.clock.advance(1);
      await runKeyPolicies(services);
      expect(await isRevoked(w, next)).toBe(true);
      const last = await aged();
      await setPolicy(w, { idle_revoke_days: null });
      await run();
      expect(await isRevoked(w, last)).toBe(false);
    });

    it("are searched among the keys of their project only, through its index", async () => {
      const of = { workspace_id: "w", project_id: "p", now: 1 };
      const plan = await expectNoScan(instance.target, async (on) => {
        await keyBehind.first(on, { ...of, after: "i", skipped: 5 });
        await keyUses(on, of, { after: "i", upTo: "j" });
      });
      if (backend === "sqlite") expect(plan.match(/api_keys_feed/g)).toHaveLength(2); // PostgreSQL's depends on the rows
    });

    it("are reported for another policy without storing it, and within the caller's environment", async () => {
      const w = await instance.workspace();
      await w.mint({ name: "forever" });
      await w.mint({ name: "tested", env: "test" });
      const shown = await reportOf(w, "max_ttl_days=30&idle_revoke_days=off");
      expect(shown).toMatchObject({
        active_keys: 2,
        policy: { max_ttl_days: 30, idle_revoke_days: null },
        over_max_ttl: { count: 2, keys: [{ name: "forever" }, { name: "tested" }] },
        idle: { count: 0, blocked_by: { live: null, test: null } },
      });
      const test = await w.call("sk_test", `GET /v1/projects/${w.project_id}/key_policy/report?max_ttl_days=30`);
      expect(test.body.over_max_ttl.keys.map(({ name }: Json) => name)).toEqual(["tested"]);
      const blocked = await w.call("sk_test", `GET /v1/projects/${w.project_id}/key_policy/report?idle_revoke_days=7`);
      expect(blocked.body.idle.blocked_by).toEqual({ live: null, test: "too_recent" });
      const project = (await w.call("sk_owner", `GET /v1/projects/${w.project_id}`)).body;
      expect(project.key_policy.max_ttl_days).toBeNull();
      await setPolicy(w, { idle_revoke_days: 30 });
      instance.clock.advance(IDLE_DAYS * DAY_MS);
      const blocks = async (query: string) => (await reportOf(w, query)).idle.blocked_by.live;
      // The stored rule is old enough; another one would begin now.
      expect([await blocks(""), await blocks("idle_revoke_days=30"), await blocks("idle_revoke_days=60")]).toEqual([
        "no_telemetry",
        "no_telemetry",
        "too_recent",
      ]);
      const stranger = await instance.workspace();
      const route = `GET /v1/projects/${w.project_id}/key_policy/report`;
      expectRefusal(await stranger.call("sk_owner", route), 404, "not_found");
      const refused = ["max_ttl_days=0", "max_ttl_days=3651", "idle_revoke_days=6"];
      // What a PATCH would refuse.
      await setPolicy(w, { default_ttl_days: 20, max_ttl_days: 30 });
      for (const query of [...refused, "default_ttl_days=31", "max_ttl_days=19", "default_ttl_days=9&max_ttl_days=8"])
        expectRefusal(await w.call("sk_owner", `${route}?${query}`), 400, "invalid_request", query.split("=")[0] ?? "");
    });
  });
}
