// Key policies and the two environments of a project: test keys neither hide live ones from a digest nor raise the number
// of live keys that are revoked as idle within a day, and both together stay within the project's.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { auditRows, lastMail } from "../../../harness/instances/people.ts";
import { testInstance, type TestInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { applyKeyPolicies } from "../../../src/domain/key-policy/job.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`key policies and environments on ${backend}`, () => {
    let instance: TestInstance;
    beforeAll(async () => {
      instance = await testInstance(backend, { flags: { key_policy_every: "off" } }); // the tests say when
    });
    afterAll(() => instance[Symbol.asyncDispose]());

    const inDays = (days: number): string => new Date(instance.clock.now() + days * DAY_MS).toISOString();
    const setPolicy = (workspace: Workspace, key_policy: object) =>
      workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_policy });

    /** Adds copies of a key, whose ids come before all others. */
    async function copy(id: string, count: number): Promise<void> {
      const [row] = await instance.sql("select * from api_keys where id = $1", [id]);
      const own = { id: `'0' || n.i || '-' || api_keys.id`, lookup_hash: `n.i || '-' || api_keys.id` };
      const values = Object.keys(row ?? {}).map((name) => own[name as keyof typeof own] ?? name);
      await instance.sql(
        `insert into api_keys (${Object.keys(row ?? {}).join()})
          with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})
          select ${values.join()} from api_keys, n where api_keys.id = $1`,
        [id],
      );
    }

    it("report a live key beside more test keys than a digest holds, and name it first", async () => {
      const workspace = await instance.workspace();
      const billing_email = `billing-${workspace.slug}@example.com`;
      await workspace.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      await setPolicy(workspace, { notice_days: [3] });
      const test = await workspace.mint({ env: "test", expires_at: inDays(1) });
      await copy(test.id, 5_200);
      const live = await workspace.mint({ expires_at: inDays(2) });
      await applyKeyPolicies(instance.app.services);
      const lines = (await lastMail(instance, billing_email)).text.split("\n").filter((line) => line.includes("…"));
      expect(lines.length).toBeGreaterThan(1);
      expect(lines[0]).toContain(String(live.display_prefix));
      expect(await instance.sql("select kind from key_notices where key_id = $1", [live.id])).toEqual([
        { kind: "expiry" },
      ]);
    });

    /** Nodes report requests of both environments on each of the last days, today included. */
    const reportDays = async (project_id: string, days: number) => {
      const today = Math.floor(instance.clock.now() / DAY_MS);
      for (const env of ["live", "test"])
        for (let day = today - days + 1; day <= today; day++)
          await instance.sql(
            `insert into telemetry_days (project_id, env, day, last_at, sampled)
              values ('${project_id}', '${env}', ${day}, ${instance.clock.now()}, 0)`,
          );
    };
    const revoked = async (workspace: Workspace) => {
      const rows = (await auditRows(instance, workspace.id)).filter(({ action }) => action === "api_key.revoked");
      return ["live", "test"].map(
        (env) => rows.filter(({ payload }) => (payload as { env: string }).env === env).length,
      );
    };
    const run = () => applyKeyPolicies(instance.app.services);

    it("revoke idle keys of both within the project's number of a day, live first", async () => {
      const workspace = await instance.workspace();
      for (let i = 0; i < 12; i++) await workspace.mint({ env: "test" });
      instance.clock.advance(1_000);
      for (let i = 0; i < 12; i++) await workspace.mint();
      await setPolicy(workspace, { idle_revoke_days: 7 });
      instance.clock.advance(8 * DAY_MS);
      await reportDays(workspace.project_id, 7);
      await run();
      await run();
      expect(await revoked(workspace)).toEqual([10, 0]);
      instance.clock.advance(DAY_MS);
      await reportDays(workspace.project_id, 1);
      await run();
      expect(await revoked(workspace)).toEqual([12, 8]);
      instance.clock.advance(DAY_MS);
      await reportDays(workspace.project_id, 1);
      await run();
      expect(await revoked(workspace)).toEqual([12, 12]);
    });

    it("revoke no more live keys a day because there are many test keys", async () => {
      const workspace = await instance.workspace();
      const test = await workspace.mint({ env: "test" });
      await copy(test.id, 299);
      instance.clock.advance(1_000);
      for (let i = 0; i < 12; i++) await workspace.mint();
      await setPolicy(workspace, { idle_revoke_days: 7 });
      instance.clock.advance(8 * DAY_MS);
      await reportDays(workspace.project_id, 7);
      await run();
      await run();
      // A twentieth of 312 keys: ten of the 12 live ones, then test.
      expect(await revoked(workspace)).toEqual([10, 5]);
    });
  });
}
