// The digest of keys that are about to end: to whom, once for each threshold, at most once a day.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { lastMail, memberOf, team } from "../../../harness/instances/people.ts";
import { testInstance, type Json, type TestInstance } from "../../../harness/instances/test-instance.ts";
import { forgetNotices, sendDigest } from "../../../src/domain/key-policy/notices.ts";
import { applyKeyPolicies } from "../../../src/domain/key-policy/job.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`notices of ending keys on ${backend}`, () => {
    let instance: TestInstance;
    beforeAll(async () => {
      instance = await testInstance(backend, { flags: { key_policy_every: "off" }, leads: false }); // the tests say when
    });
    afterAll(() => instance[Symbol.asyncDispose]());

    const inDays = (days: number): string => new Date(instance.clock.now() + days * DAY_MS).toISOString();
    /** Nodes report requests on each of the last days, today included. */
    const reportDays = async (project_id: string, days: number) => {
      const today = Math.floor(instance.clock.now() / DAY_MS);
      for (let day = today - days + 1; day <= today; day++)
        await instance.sql(
          `insert into telemetry_days (project_id, env, day, last_at, sampled) values ('${project_id}', 'live', ${day}, ${instance.clock.now()}, 0)`,
        );
    };
    const digests = async (email: string): Promise<string[]> => {
      const mails = await instance.sql(`select id from outbox where recipient = '${email}' and kind = 'key_digest'`);
      return mails.map(({ id }) => String(id));
    };

    it("go to owners and admins, once for each threshold and at most once a day", async () => {
      const t = await team(instance);
      const [admin, member] = [await memberOf(instance, t, "admin"), await memberOf(instance, t, "member")];
      const call = async (route: string, body: Json) => (await instance.call(t.key, route, body)).body;
      const project = { name: "API", slug: "api", key_policy: { notice_days: [3, 10] } };
      const { id: project_id, key_policy } = await call("POST /v1/projects", project);
      expect(key_policy.notice_days).toEqual([10, 3]);
      const { id: tenant_id } = await call("POST /v1/tenants", { external_id: "customer" });
      const mint = (more: Json) => call("POST /v1/keys", { project_id, tenant_id, env: "live", ...more });
      const key = await mint({ name: "<b>customer's own name</b>", expires_at: inDays(9) });
      await mint({ expires_at: inDays(40) });
      const replaced = await mint({}); // expires after the overlap
      await call(`POST /v1/keys/${replaced.id}/rotate`, { overlap_hours: 168 });
      await applyKeyPolicies(instance.app.services);
      await applyKeyPolicies(instance.app.services);
      expect([(await digests(t.owner.email)).length, (await digests(admin.email)).length]).toEqual([1, 1]);
      expect(await digests(member.email)).toEqual([]);
      const mail = (await lastMail(instance, t.owner.email)).text;
      expect(mail).toContain("1 key expires soon.");
      expect(mail).toContain(`${inDays(9).slice(0, 10)}  ${String(key.display_prefix)}… expires`);
      expect(mail).toMatch(/^Tenant: customer\r?$/m);
      expect(mail).not.toContain("customer's own name");
      instance.clock.advance(DAY_MS);
      await applyKeyPolicies(instance.app.services);
      expect(await digests(t.owner.email)).toHaveLength(1);
      instance.clock.advance(6 * DAY_MS);
      await Promise.all([applyKeyPolicies(instance.app.services), applyKeyPolicies(instance.app.services)]);
      expect(await digests(t.owner.email)).toHaveLength(2);
    });

    it("report missed thresholds as one, warn of idle keys before the first is revoked, and of none without a rule", async () => {
      const workspace = await instance.workspace();
      const billing_email = `billing-${workspace.slug}@example.com`;
      await workspace.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      await workspace.mint({ expires_at: inDays(2) });
      await applyKeyPolicies(instance.app.services);
      expect(await digests(billing_email)).toEqual([]);
      const key_policy = { notice_days: [20, 10, 5], idle_revoke_days: 7 };
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_policy });
      await workspace.mint();
      await applyKeyPolicies(instance.app.services);
      expect(await digests(billing_email)).toHaveLength(1);
      const { blocked_by } = (
        await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}/key_policy/report`)
      ).body.idle;
      expect(blocked_by.live).toBe("too_recent");
      instance.clock.advance(DAY_MS);
      await applyKeyPolicies(instance.app.services);
      expect(await digests(billing_email)).toHaveLength(1);
      instance.clock.advance(18 * DAY_MS);
      const later = (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}/key_policy/report`))
        .body.idle;
      expect(later.blocked_by.live).toBe("too_recent");
    });

    it("do not report a key in use, however long before its end owners want to know", async () => {
      const workspace = await instance.workspace();
      const billing_email = `billing-${workspace.slug}@example.com`;
      await workspace.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const key_policy = { notice_days: [30, 3], idle_revoke_days: 7 };
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_policy });
      const { id } = await workspace.mint();
      for (let day = 0; day < 3; day++) {
        instance.clock.advance(DAY_MS);
        await instance.sql(`update api_keys set last_used_at = ${instance.clock.now()} where id = '${id}'`);
        await applyKeyPolicies(instance.app.services);
      }
      expect(await digests(billing_email)).toEqual([]);
      instance.clock.advance(24.5 * DAY_MS); // three days before the first revocation is possible
      await reportDays(workspace.project_id, 7);
      await applyKeyPolicies(instance.app.services);
      expect(await digests(billing_email)).toHaveLength(1);
    });

    it("report the expiry of a disabled key, but not that it is unused", async () => {
      const workspace = await instance.workspace();
      const key_policy = { notice_days: [3], idle_revoke_days: 7 };
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_policy });
      const disabled = [await workspace.mint(), await workspace.mint({ expires_at: inDays(7) })];
      for (const { id } of disabled) await workspace.call("sk_owner", `POST /v1/keys/${id}/disable`, {});
      instance.clock.advance(5 * DAY_MS);
      await reportDays(workspace.project_id, 5);
      await applyKeyPolicies(instance.app.services);
      const ids = disabled.map(({ id }) => `'${id}'`).join();
      expect(await instance.sql(`select key_id, kind from key_notices where key_id in (${ids})`)).toEqual([
        { key_id: disabled[1]?.id, kind: "expiry" },
      ]);
    });

    it("are recorded until the key's end, and no longer", async () => {
      const workspace = await instance.workspace();
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, {
        key_policy: { notice_days: [3] },
      });
      const { id } = await workspace.mint({ expires_at: inDays(2) });
      const recorded = async () =>
        (await instance.sql(`select threshold from key_notices where key_id = '${id}'`)).length;
      const run = async () => {
        await applyKeyPolicies(instance.app.services);
        await forgetNotices(instance.app.services, instance.clock.now());
      };
      await run();
      instance.clock.advance(DAY_MS);
      await run();
      expect(await recorded()).toBe(1);
      instance.clock.advance(DAY_MS + 1);
      await run();
      expect(await recorded()).toBe(0);
    });

    it("are forgotten once the key is revoked, though it was to end later", async () => {
      const workspace = await instance.workspace();
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, {
        key_policy: { notice_days: [90] },
      });
      const [kept, revoked] = [
        await workspace.mint({ expires_at: inDays(80) }),
        await workspace.mint({ expires_at: inDays(80) }),
      ];
      await applyKeyPolicies(instance.app.services);
      await workspace.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, {});
      await forgetNotices(instance.app.services, instance.clock.now());
      const rows = await instance.sql(`select key_id from key_notices where key_id in ('${kept.id}', '${revoked.id}')`);
      expect(rows).toEqual([{ key_id: kept.id }]);
    });

    it("are looked through in pieces for keys that were revoked", async () => {
      const workspace = await instance.workspace();
      const { id } = await workspace.mint();
      await workspace.call("sk_owner", `POST /v1/keys/${id}/revoke`, {});
      // More than a piece of other keys on either side.
      const due_at = instance.clock.now() + DAY_MS;
      const notices = (from: string) => `with recursive n(i) as (select 1 union all select i + 1 from n where i < 1100)
        insert into key_notices (key_id, kind, threshold, due_at)
        select '${from}-0000-7000-8000-' || cast(100000000000 + i as text), 'expiry', 3, ${due_at} from n`;
      for (const from of ["00000000", "ff000000"]) await instance.sql(notices(from));
      await instance.sql(
        `insert into key_notices (key_id, kind, threshold, due_at) values ('${id}', 'expiry', 3, ${due_at}), ('${id}', 'idle', 3, ${due_at})`,
      );
      const of = `from key_notices where due_at = ${due_at}`;
      await forgetNotices(instance.app.services, instance.clock.now());
      expect(await instance.sql(`select key_id ${of} and key_id = '${id}'`)).toEqual([]);
      expect(await instance.sql(`select key_id ${of}`)).toHaveLength(2_200);
      await instance.sql(`delete ${of}`);
    });

    it("say that idle keys wait for the daily limit though nothing else is to be said, once a day", async () => {
      const workspace = await instance.workspace();
      const billing_email = `billing-${workspace.slug}@example.com`;
      await workspace.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      for (let i = 0; i < 25; i++) await workspace.mint();
      const key_policy = { notice_days: [], idle_revoke_days: 7 };
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_policy });
      const run = async () => {
        await applyKeyPolicies(instance.app.services);
        return (await digests(billing_email)).length;
      };
      instance.clock.advance(8 * DAY_MS);
      await reportDays(workspace.project_id, 6);
      expect([await run(), await run()]).toEqual([1, 1]);
      expect((await lastMail(instance, billing_email)).text).toContain(
        "15 unused keys will be revoked later, because of the daily limit.",
      );
      instance.clock.advance(DAY_MS + 1);
      await reportDays(workspace.project_id, 1);
      expect(await run()).toBe(2);
      instance.clock.advance(DAY_MS + 1);
      await reportDays(workspace.project_id, 1);
      expect(await run()).toBe(2); // the last five are revoked
    });

    it("say only that idle keys wait at the end of the day, so that a key may still be reported on it", async () => {
      const workspace = await instance.workspace();
      const billing_email = `billing-${workspace.slug}@example.com`;
      await workspace.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const { services } = instance.app;
      const hourly = { ...services, settings: { ...services.settings, key_policy_every: HOUR_MS } };
      const key_policy = JSON.stringify({ notice_days: [1] });
      const project = { id: workspace.project_id, workspace_id: workspace.id, key_policy, idle_changed_at: null };
      const run = async (hour: number) => {
        const today = Math.floor(instance.clock.now() / DAY_MS);
        instance.clock.advance(today * DAY_MS + hour * HOUR_MS - instance.clock.now());
        await sendDigest(hourly, [project], 5);
        return (await digests(billing_email)).length;
      };
      instance.clock.advance(DAY_MS);
      expect([await run(1), await run(21), await run(22), await run(23)]).toEqual([0, 0, 1, 1]);
      instance.clock.advance(2 * DAY_MS);
      expect(await run(1)).toBe(1);
      await workspace.mint({ expires_at: inDays(1.25) });
      expect([await run(6), await run(8), await run(22)]).toEqual([1, 2, 2]);
      expect((await lastMail(instance, billing_email)).text).toContain("1 key expires soon.");
    });

    it("say that idle keys wait on the next day, where the digest was sent before they had to", async () => {
      const workspace = await instance.workspace();
      const billing_email = `billing-${workspace.slug}@example.com`;
      await workspace.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      const { services } = instance.app;
      const hourly = { ...services, settings: { ...services.settings, key_policy_every: HOUR_MS } };
      const run = async (hour: number) => {
        const today = Math.floor(instance.clock.now() / DAY_MS);
        instance.clock.advance(today * DAY_MS + hour * HOUR_MS - instance.clock.now());
        await applyKeyPolicies(hourly);
        await forgetNotices(hourly, instance.clock.now());
        return (await digests(billing_email)).length;
      };
      const setPolicy = (key_policy: Json) =>
        workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_policy });
      instance.clock.advance(DAY_MS);
      await run(12);
      for (let i = 0; i < 12; i++) await workspace.mint();
      await setPolicy({ idle_revoke_days: 7 });
      instance.clock.advance(6.5 * DAY_MS);
      await reportDays(workspace.project_id, 7);
      const other = { name: "Other", slug: "other", key_policy: { notice_days: [3] } };
      const { body } = await workspace.call("sk_owner", "POST /v1/projects", other);
      await workspace.mint({ project_id: body.id, expires_at: inDays(2) });
      expect([await run(11), await run(13), await run(23)]).toEqual([1, 1, 1]); // ten are revoked at 13
      instance.clock.advance(DAY_MS);
      expect(await run(0)).toBe(2);
      expect((await lastMail(instance, billing_email)).text).toContain(
        "2 unused keys will be revoked later, because of the daily limit.",
      );
    });

    it("say how many idle keys wait because only some are revoked within a day", async () => {
      const workspace = await instance.workspace();
      const billing_email = `billing-${workspace.slug}@example.com`;
      await workspace.call("sk_owner", "PATCH /v1/workspace", { billing_email });
      for (let i = 0; i < 12; i++) await workspace.mint();
      const key_policy = { notice_days: [1], idle_revoke_days: 7 };
      await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, { key_policy });
      instance.clock.advance(6.5 * DAY_MS);
      await reportDays(workspace.project_id, 6);
      await applyKeyPolicies(instance.app.services);
      expect((await lastMail(instance, billing_email)).text).toContain("12 unused keys will be revoked soon.");
      instance.clock.advance(1.5 * DAY_MS);
      await workspace.mint({ expires_at: inDays(0.5) });
      await applyKeyPolicies(instance.app.services);
      expect((await lastMail(instance, billing_email)).text).toContain(
        "2 unused keys will be revoked later, because of the daily limit.",
      );
      // Their notice holds until they are revoked.
      const ofKeys = `key_id in (select id from api_keys where project_id = '${workspace.project_id}')`;
      const recorded = async () =>
        (await instance.sql(`select key_id from key_notices where kind = 'idle' and ${ofKeys}`)).length;
      await forgetNotices(instance.app.services, instance.clock.now());
      expect(await recorded()).toBe(2);
      instance.clock.advance(DAY_MS);
      await reportDays(workspace.project_id, 1);
      await applyKeyPolicies(instance.app.services);
      await forgetNotices(instance.app.services, instance.clock.now());
      expect(await recorded()).toBe(0);
    });
  });
}
