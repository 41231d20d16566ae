// No idle key is revoked before owners were notified of it, also when nodes did not report or the job did not run for
// a while.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { lastMail } from "../../../harness/instances/people.ts";
import { testInstance, type Json, type TestInstance } from "../../../harness/instances/test-instance.ts";
import { applyKeyPolicies } from "../../../src/domain/key-policy/job.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`an idle key on ${backend}`, () => {
    let instance: TestInstance;
    beforeAll(async () => {
      instance = await testInstance(backend, { flags: { key_policy_every: "off" }, leads: false }); // the tests say when
    });
    afterAll(() => instance[Symbol.asyncDispose]());

    /** A used and an idle key under a policy, and what happens to them day by day. */
    const project = async (key_policy: Json) => {
      const workspace = await instance.workspace();
      const billing_email = `billing-${workspace.slug}@example.com`;
      await workspace.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const [used, idle] = [await workspace.mint(), await workspace.mint()];
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_policy });
      const report = async () => {
        const now = instance.clock.now();
        const row = `'${workspace.project_id}', 'live', ${Math.floor(now / DAY_MS)}, ${now}, 0`;
        await instance.sql(`insert into telemetry_days (project_id, env, day, last_at, sampled) values (${row})`);
        await instance.sql(`update api_keys set last_used_at = ${now} where id = '${used.id}'`);
      };
      const pass = async (days: number, ...daily: (() => Promise<void>)[]) => {
        for (let day = 0; day < days; day++) {
          instance.clock.advance(DAY_MS);
          for (const each of daily) await each();
        }
      };
      return {
        pass,
        /** Nodes report the used key. */
        report,
        block: async () =>
          (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}/key_policy/report`)).body.idle
            .blocked_by.live,
        /** Whether the idle key is announced, and whether it is revoked. */
        state: async () => {
          const mails = await instance.sql(`select id from outbox where recipient = '${billing_email}'`);
          const text = mails.length === 0 ? "" : (await lastMail(instance, billing_email)).text;
          const { body } = await workspace.call("sk_owner", `GET /v1/keys/${idle.id}`);
          return [text.includes(String(idle.display_prefix)), body.revoked_at !== null];
        },
      };
    };
    const job = (): Promise<void> => applyKeyPolicies(instance.app.services);

    it("is announced when nodes report again after its date has passed, and revoked only then", async () => {
      const p = await project({ idle_revoke_days: 10, notice_days: [5] });
      await p.pass(20, job);
      expect([await p.block(), await p.state()]).toEqual(["no_telemetry", [false, false]]);
      await p.pass(4, p.report, job);
      expect([await p.block(), await p.state()]).toEqual(["no_telemetry", [false, false]]);
      await p.pass(1, p.report, job);
      expect([await p.block(), await p.state()]).toEqual([null, [true, false]]);
      await p.pass(4, p.report, job);
      expect(await p.state()).toEqual([true, false]);
      await p.pass(1, p.report, job);
      expect(await p.state()).toEqual([true, true]);
    });

    it("is revoked on its date although reports paused after the notice", async () => {
      const p = await project({ idle_revoke_days: 10, notice_days: [5] });
      await p.pass(5, p.report, job);
      expect(await p.state()).toEqual([true, false]);
      await p.pass(3, job);
      expect(await p.block()).toBe("no_telemetry");
      await p.pass(2, p.report, job);
      expect(await p.state()).toEqual([true, false]);
      await p.pass(1, p.report, job);
      expect(await p.state()).toEqual([true, true]);
    });

    it("is announced first where the job did not run in time", async () => {
      const p = await project({ idle_revoke_days: 10, notice_days: [2] });
      await p.pass(7, p.report, job);
      await p.pass(4, p.report);
      await job();
      expect(await p.state()).toEqual([true, false]);
      await p.pass(1, p.report, job);
      expect(await p.state()).toEqual([true, false]);
      await p.pass(1, p.report, job);
      expect(await p.state()).toEqual([true, true]);
    });

    it("is announced on its date where every threshold is longer than the idle period, which then passes again", async () => {
      const p = await project({ idle_revoke_days: 7, notice_days: [9] });
      await p.pass(8, p.report); // no job announces it before its date
      await p.pass(1, p.report, job);
      expect(await p.state()).toEqual([true, false]);
      await p.pass(6, p.report, job);
      expect(await p.state()).toEqual([true, false]);
      await p.pass(1, p.report, job);
      expect(await p.state()).toEqual([true, true]);
    });

    it("is revoked on its date without a notice where the policy has none", async () => {
      const p = await project({ idle_revoke_days: 7 });
      await p.pass(8, p.report, job);
      expect(await p.state()).toEqual([false, true]);
    });
  });
}
