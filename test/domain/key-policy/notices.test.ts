// The digest of keys that are about to end: to whom, once for each threshold, at most once a day.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { lastMail, memberOf, team } from "../../../harness/instances/people.ts";
import { testInstance, type Json, type TestInstance } from "../../../harness/instances/test-instance.ts";
import { forgetNotices } from "../../../src/domain/key-policy/notices.ts";
import { applyKeyPolicies } from "../../../src/domain/key-policy/job.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const back of backends) {
  describe(`notices of ending keys on ${back}`, () => {
    let r: TestInstance;
    beforeAll(async () => {
      r = await testInstance(back, { flags: { key_policy_every: "off" } }); // the tests say when
    });
    afterAll(() => r[Symbol.asyncDispose]());

    const inDays = (days: number): string => new Date(r.clock.now() + days * DAY_MS).toISOString();
    /** Nodes report requests on each of the last days, today included. */
    const reportDays = async (project_id: string, days: number) => {
      const today = Math.floor(r.clock.now() / DAY_MS);
      for (let day = today - days + 1; day <= today; day++)
        await r.sql(
          `insert into telemetry_days (project_id, env, day, last_at, sampled) values ('${project_id}', 'live', ${day}, ${r.clock.now()}, 0)`,
        );
    };
    const digests = async (email: string): Promise<string[]> => {
      const mails = await r.sql(`select id from outbox where recipient = '${email}' and kind = 'key_digest'`);
      return mails.map(({ id }) => String(id));
    };

    it("go to owners and admins, once for each threshold and at most once a day", async () => {
      const t = await team(r);
      const [admin, member] = [await memberOf(r, t, "admin"), await memberOf(r, t, "member")];
      const call = async (route: string, body: Json) => (await r.call(t.key, route, body)).body;
      const project = { name: "API", slug: "api", key_policy: { notice_days: [3, 10] } };
      const { id: project_id, key_policy } = await call("POST /v1/projects", project);
      expect(key_policy.notice_days).toEqual([10, 3]);
      const { id: tenant_id } = await call("POST /v1/tenants", { external_id: "customer" });
      const mint = (more: Json) => call("POST /v1/keys", { project_id, tenant_id, env: "live", ...more });
      const key = await mint({ name: "<b>customer's own name</b>", expires_at: inDays(9) });
      await mint({ expires_at: inDays(40) });
      const replaced = await mint({}); // expires after the overlap
      await call(`POST /v1/keys/${replaced.id}/rotate`, { overlap_hours: 168 });
      await applyKeyPolicies(r.app.services);
      await applyKeyPolicies(r.app.services);
      expect([(await digests(t.owner.email)).length, (await digests(admin.email)).length]).toEqual([1, 1]);
      expect(await digests(member.email)).toEqual([]);
      const mail = (await lastMail(r, t.owner.email)).text;
      expect(mail).toContain("Keys that expire soon: 1.");
      expect(mail).toContain(`${inDays(9).slice(0, 10)}  ${String(key.display_prefix)}… expires`);
      expect(mail).toMatch(/^Tenant: customer\r?$/m);
      expect(mail).not.toContain("customer's own name");
      r.clock.advance(DAY_MS);
      await applyKeyPolicies(r.app.services);
      expect(await digests(t.owner.email)).toHaveLength(1);
      r.clock.advance(6 * DAY_MS);
      await Promise.all([applyKeyPolicies(r.app.services), applyKeyPolicies(r.app.services)]);
      expect(await digests(t.owner.email)).toHaveLength(2);
    });

    it("report missed thresholds as one, warn of idle keys before the first is revoked, and of none without a rule", async () => {
      const w = await r.workspace();
      const billing_email = `billing-${w.slug}@example.com`;
      await w.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      await w.mint({ expires_at: inDays(2) });
      await applyKeyPolicies(r.app.services);
      expect(await digests(billing_email)).toEqual([]);
      const key_policy = { notice_days: [20, 10, 5], idle_revoke_days: 7 };
      await w.call("sk_owner", `PATCH /v1/projects/${w.project_id}`, { key_policy });
      await w.mint();
      await applyKeyPolicies(r.app.services);
      expect(await digests(billing_email)).toHaveLength(1);
      const { blocked_by } = (await w.call("sk_owner", `GET /v1/projects/${w.project_id}/key_policy/report`)).body.idle;
      expect(blocked_by.live).toBe("too_recent");
      r.clock.advance(DAY_MS);
      await applyKeyPolicies(r.app.services);
      expect(await digests(billing_email)).toHaveLength(1);
      r.clock.advance(18 * DAY_MS);
      const later = (await w.call("sk_owner", `GET /v1/projects/${w.project_id}/key_policy/report`)).body.idle;
      expect(later.blocked_by.live).toBe("too_recent");
    });

    it("do not report a key in use, however long before its end owners want to know", async () => {
      const w = await r.workspace();
      const billing_email = `billing-${w.slug}@example.com`;
      await w.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const key_policy = { notice_days: [30, 3], idle_revoke_days: 7 };
      await w.call("sk_owner", `PATCH /v1/projects/${w.project_id}`, { key_policy });
      const { id } = await w.mint();
      for (let day = 0; day < 3; day++) {
        r.clock.advance(DAY_MS);
        await r.sql(`update api_keys set last_used_at = ${r.clock.now()} where id = '${id}'`);
        await applyKeyPolicies(r.app.services);
      }
      expect(await digests(billing_email)).toEqual([]);
      r.clock.advance(24.5 * DAY_MS); // three days before the first revocation is possible
      await reportDays(w.project_id, 7);
      await applyKeyPolicies(r.app.services);
      expect(await digests(billing_email)).toHaveLength(1);
    });

    it("are recorded until the key's end, and no longer", async () => {
      const w = await r.workspace();
      await w.call("sk_owner", `PATCH /v1/projects/${w.project_id}`, { key_policy: { notice_days: [3] } });
      const { id } = await w.mint({ expires_at: inDays(2) });
      const recorded = async () => (await r.sql(`select threshold from key_notices where key_id = '${id}'`)).length;
      const run = async () => {
        await applyKeyPolicies(r.app.services);
        await forgetNotices(r.app.services, r.clock.now());
      };
      await run();
      r.clock.advance(DAY_MS);
      await run();
      expect(await recorded()).toBe(1);
      r.clock.advance(DAY_MS + 1);
      await run();
      expect(await recorded()).toBe(0);
    });

    it("say how many idle keys wait because only some are revoked within a day", async () => {
      const w = await r.workspace();
      const billing_email = `billing-${w.slug}@example.com`;
      await w.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      for (let i = 0; i < 12; i++) await w.mint();
      const key_policy = { notice_days: [1], idle_revoke_days: 7 };
      await w.call("sk_owner", `PATCH /v1/projects/${w.project_id}`, { key_policy });
      r.clock.advance(6.5 * DAY_MS);
      await reportDays(w.project_id, 6);
      await applyKeyPolicies(r.app.services);
      expect((await lastMail(r, billing_email)).text).toContain("revoked soon because they are not used: 12.");
      r.clock.advance(1.5 * DAY_MS);
      await w.mint({ expires_at: inDays(0.5) });
      await applyKeyPolicies(r.app.services);
      expect((await lastMail(r, billing_email)).text).toContain(
        "Idle keys that will be revoked later, because of the daily limit: 2.",
      );
      // Their notice holds until they are revoked.
      const ofKeys = `key_id in (select id from api_keys where project_id = '${w.project_id}')`;
      const recorded = async () =>
        (await r.sql(`select key_id from key_notices where kind = 'idle' and ${ofKeys}`)).length;
      await forgetNotices(r.app.services, r.clock.now());
      expect(await recorded()).toBe(2);
      r.clock.advance(DAY_MS);
      await reportDays(w.project_id, 1);
      await applyKeyPolicies(r.app.services);
      await forgetNotices(r.app.services, r.clock.now());
      expect(await recorded()).toBe(0);
    });
  });
}
