// Invitations send mail to strangers: how many, to whom, and what an inviter can write in them.
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  auditRows,
  freshEmail,
  memberOf,
  person,
  receivedMail,
  team,
  type Person,
  type Team,
} from "../../../harness/instances/people.ts";
import {
  testInstance,
  type Reply,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { deliverDue } from "../../../src/domain/mail/outbox.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";

const PER_DAY = 12;

for (const backend of runBackends) {
  describe(`invitation mail on ${backend}`, () => {
    let instance: TestInstance;
    beforeAll(async () => {
      instance = await testInstance(backend, { flags: { throttle: "on", invite_mails_per_day: String(PER_DAY) } });
    });
    afterAll(() => instance[Symbol.asyncDispose]());

    const invite = (session: string, email: string): Promise<Reply> =>
      instance.call(session, "POST /v1/invites", { email, role: "member" });
    /** Invites, and revokes once it is mailed, so that the address can be invited again. */
    async function inviteAndRevoke(session: string, email: string): Promise<Reply> {
      const made = await invite(session, email);
      await instance.app.idle();
      if (made.status === 201) await instance.call(session, `POST /v1/invites/${made.body.id}/revoke`, {});
      return made;
    }
    async function mailTo(email: string) {
      await deliverDue(instance.app.services);
      return (await receivedMail(instance, email)).filter(
        ({ subject }) => subject === "You have been invited to a Keyrack workspace",
      );
    }
    const rename = (t: Team, name: string) => instance.call(t.owner.session, "PATCH /v1/workspace", { name });
    /** People who may make workspaces, without the throttles of sign-up and login. */
    async function teams(count: number): Promise<Team[]> {
      const made: Team[] = [];
      for (let i = 0; i < count; i++) {
        instance.clock.advance(HOUR_MS);
        made.push(await team(instance));
      }
      return made;
    }

    it("goes to one address three times a day, however often an invitation is revoked, in whichever workspace", async () => {
      const t = await team(instance);
      const email = freshEmail();
      const slug = `second-${t.slug}`;
      const second = await instance.call(t.owner.session, "POST /v1/workspaces", { name: "Second", slug });
      const secondKey = second.body.secret_key.key as string;
      const before = (await auditRows(instance, t.id)).length;
      const statuses: number[] = [];
      for (let i = 0; i < 60; i++) statuses.push((await inviteAndRevoke(t.owner.session, email)).status);
      expect(statuses.filter((status) => status === 201).length).toBe(3);
      expect(statuses.slice(3).every((status) => status === 429)).toBe(true);
      expect((await auditRows(instance, t.id)).length - before).toBe(6);
      const refused = await invite(secondKey, email);
      expect(refused.status).toBe(429);
      expect(refused.body.error).toEqual({
        code: "rate_limited",
        message: "You have reached the daily limit for invitations, to this address or in total.",
        details: [{ path: "email", message: "cannot be invited again today" }],
      });
      expect(refused.headers.get("retry-after")).toBe(String(DAY_MS / 1000));
      expect(refused.headers.get("ratelimit")).toBe(`"invites_address";r=0;t=${DAY_MS / 1000}`);
      expect(refused.headers.get("ratelimit-policy")).toBe(`"invites_address";q=3;w=${DAY_MS / 1000}`);
      expect((await mailTo(email)).length).toBe(3);
      instance.clock.advance(DAY_MS);
      expect((await inviteAndRevoke(secondKey, email)).status).toBe(201);
      expect((await mailTo(email)).length).toBe(4);
    });

    it("is limited for an account in all, and no other account notices", async () => {
      const [t, other] = (await teams(2)) as [Team, Team];
      for (let i = 0; i < PER_DAY; i++) expect((await invite(t.owner.session, freshEmail())).status).toBe(201);
      const email = freshEmail();
      const refused = await invite(t.key, email);
      expect([refused.status, refused.headers.get("ratelimit-policy")]).toEqual([
        429,
        `"invites";q=${PER_DAY};w=86400`,
      ]);
      expect(await mailTo(email)).toEqual([]);
      expect(
        (await instance.call(t.key, "GET /v1/invites")).body.data.some((each: Person) => each.email === email),
      ).toBe(false);
      expect((await invite(other.owner.session, email)).status).toBe(201);
      expect((await mailTo(email)).length).toBe(1);
    });

    it("is held back from an address that many accounts write to, without a trace in the response", async () => {
      const many = await teams(4);
      const [last] = (await teams(1)) as [Team];
      const email = freshEmail();
      for (const { owner } of many) for (let i = 0; i < 3; i++) await inviteAndRevoke(owner.session, email);
      const made = await invite(last.owner.session, email);
      expect([made.status, Object.keys(made.body)]).toEqual([
        201,
        Object.keys((await invite(last.key, freshEmail())).body),
      ]);
      expect((await mailTo(email)).length).toBe(10);
      instance.clock.advance(DAY_MS - 1);
      expect((await mailTo(email)).length).toBe(10);
      instance.clock.advance(1);
      expect((await mailTo(email)).length).toBe(11); // the two others are revoked
    });

    it("is not sent any more once the invitation is revoked or accepted", async () => {
      const { transport } = instance.app.services.mail;
      const [t] = (await teams(1)) as [Team];
      const [sender, guest] = [await memberOf(instance, t, "owner"), await person(instance)];
      const down = vi.spyOn(transport, "deliver").mockRejectedValue(new Error("the mail server is down"));
      onTestFinished(() => down.mockRestore());
      const invited = async (by: string, email = freshEmail()) => {
        const { body } = await invite(by, email);
        await instance.app.idle();
        return { id: body.id as string, token: body.token as string, email };
      };
      const revoked = await invited(t.owner.session);
      await instance.call(t.owner.session, `POST /v1/invites/${revoked.id}/revoke`, {});
      const left = await invited(sender.session);
      await instance.call(t.owner.session, `DELETE /v1/members/${sender.id}?revoke=invites`);
      const accepted = await invited(t.owner.session, guest.email);
      const joined = await instance.call(guest.session, "POST /v1/auth/invites/accept", { token: accepted.token });
      expect(joined.status).toBe(200);
      const pending = await invited(t.owner.session);
      down.mockRestore();
      instance.clock.advance(HOUR_MS);
      for (const { email } of [revoked, left, accepted]) expect(await mailTo(email)).toEqual([]);
      expect((await mailTo(pending.email)).length).toBe(1);
    });

    it("has a fixed subject, and the workspace's name as text that is no link", async () => {
      const t = await team(instance);
      const name = `Free.money: https://evil.example/x?a=1 mail me@evil.example ${"x".repeat(99)}`;
      await rename(t, name);
      const email = freshEmail();
      await invite(t.owner.session, email);
      const [mail] = await mailTo(email);
      expect(mail?.subject).toBe("You have been invited to a Keyrack workspace");
      expect(mail?.text).not.toContain("evil.example");
      expect(mail?.text.match(/https?:\/\//g)?.length).toBe(1);
      const line = mail?.text.split(/\r?\n/).find((each) => each.startsWith("Workspace: ")) ?? "";
      expect(line).toBe("Workspace: Free money: https   evil example x?a=1 mail me evil example");
    });
  });

  it(`is not queued above 500 letters of an account on ${backend}, even without throttles`, async () => {
    await using instance = await testInstance(backend, { flags: { throttle: "off" } });
    const [workspace, other] = [await instance.workspace(), await instance.workspace()];
    const invite = async (by: Workspace) => {
      const content = { email: freshEmail(), role: "member" };
      const { status, body, headers } = await by.call("sk_owner", "POST /v1/invites", content);
      return [status, body.error?.code, headers.get("retry-after")];
    };
    const number = backend === "sqlite" ? "printf('%012x', i)" : "lpad(to_hex(i), 12, '0')";
    await instance.sql(
      `insert into outbox (id, kind, recipient, message_id, state, attempts, created_at, next_at, give_up_at, account_id)
       with recursive n(i) as (select 1 union all select i + 1 from n where i < 500)
       select '00000000-0000-7000-8000-' || ${number}, 'invite', 'a@example.com', '', 'queued', 0, 0, $1, $2, $3 from n`,
      [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, workspace.id],
    );
    expect(await invite(workspace)).toEqual([503, "unavailable", "60"]);
    expect(await invite(other)).toEqual([201, undefined, null]);
  });

  describe(`mail that strangers request on ${backend}`, () => {
    it("goes to an address ten times a day for each purpose, and the response is the same", async () => {
      await using instance = await testInstance(backend, { flags: { throttle: "on" } });
      const known = await person(instance);
      const reset = (email: string) => instance.call(null, "POST /v1/auth/password_resets", { email });
      const responses = new Set<string>();
      for (let hour = 0; hour < 8; hour++) {
        instance.clock.advance(HOUR_MS);
        for (let i = 0; i < 3; i++) {
          const { status, body } = await reset(known.email);
          responses.add(JSON.stringify([status, body]));
        }
        await deliverDue(instance.app.services); // before the links expire
      }
      const resets = async () =>
        (await receivedMail(instance, known.email)).filter(({ subject }) => subject === "Reset your password").length;
      expect(responses.size).toBe(1);
      expect(await resets()).toBe(10);
      instance.clock.advance(DAY_MS);
      await reset(known.email);
      await deliverDue(instance.app.services);
      expect(await resets()).toBe(11);
    });
  });
}
